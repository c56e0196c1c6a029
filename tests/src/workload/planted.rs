//! A task that waits for a known cause, for a known time.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    cause_times::{CauseTimes, TimeBounds},
    stage::{BytePipe, Stage},
    victim::{VictimTask, yield_cpu},
};
use crate::{
    broadcast::Broadcast,
    clock::{block_until, now_ns, spin, spin_until},
    machine, procfs,
    shared::Shared,
    task::{Policy, TaskPlacement, pin},
    timers::Timers,
};

/// A priority above the victim's.
const ABOVE: Policy = Policy::Fifo(50);

/// `wl-sleeper` waits on `cpu` for a cause. It is SCHED_FIFO, with a lower priority than the tasks that
/// plant the cause: ordinary tasks of the machine have no part in its waits, and the task that leaves
/// the CPU to it always belongs to the load. With [`PlantedCause::InTurn`], it can be an ordinary task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planted {
    /// Number of waits.
    pub rounds: u64,
    /// The CPU on which the task is woken.
    pub cpu: usize,
    /// The cause of the waits.
    pub cause: PlantedCause,
}

/// What a task waits for. [`LoadReport::took`] has the time that each cause took by its own clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PlantedCause {
    /// `wl-first`, which wakes the victim, and `wl-second` run on its CPU in turn.
    InTurn {
        /// How long each of them runs: ns.
        spins_ns: [u64; 2],
        /// Number of turns in each round.
        turns: u64,
        /// The policy of the victim.
        victim: Policy,
    },
    /// `wl-first`, which wakes the victim, runs on its CPU; then the victim is moved to another CPU, on
    /// which `wl-second` runs.
    Migrated {
        /// The other CPU.
        to: usize,
        /// How long the victim waits for each of them: ns.
        spins_ns: [u64; 2],
    },
    /// `wl-first`, which wakes the victim, sends datagrams to many sockets: `send`, which is a softirq
    /// except for its start and end, and unless the task is switched out meanwhile.
    Softirq {
        /// Number of receiving sockets.
        receivers: u64,
        /// How long it sends in each round: ns.
        for_ns: u64,
    },
    /// `wl-first`, on another CPU, wakes the victim while the victim's CPU handles the interrupt of
    /// timers that expire at the same instant, and so takes no other interrupt: `interrupt`. Only its
    /// least is known: from the end of the waking system call to the last look at a timer that had not
    /// expired yet. The most is the wait.
    InterruptsOff {
        /// The other CPU.
        from: usize,
        /// Number of timers.
        timers: u64,
    },
    /// `wl-first`, which wakes the victim, is interrupted by timers that expire at the same instant:
    /// `interrupt`, which its clock skips.
    Timers {
        /// Number of timers.
        timers: u64,
    },
}

impl Planted {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let mut placement = TaskPlacement::fifo(self.cpu);
        if let PlantedCause::InTurn { victim, .. } = self.cause {
            placement.policy = victim;
        }
        let victim = VictimTask::stage(stage, self.rounds, placement);
        let names: &[&str] = match self.cause {
            PlantedCause::InTurn { .. } | PlantedCause::Migrated { .. } => &["wl-first", "wl-second"],
            PlantedCause::Softirq { .. } => &["send"],
            PlantedCause::Timers { .. } | PlantedCause::InterruptsOff { .. } => &["interrupt"],
        };
        let took = CauseTimes::new(names, self.rounds);
        match self.cause {
            PlantedCause::InTurn { spins_ns, turns, .. } => in_turn(stage, &victim, &took, &self, spins_ns, turns),
            PlantedCause::Migrated { to, spins_ns } => {
                migrated(stage, &victim, &took, [self.cpu, to], spins_ns, self.rounds)
            }
            PlantedCause::Softirq { receivers, for_ns } => softirq(stage, &victim, &took, self.cpu, receivers, for_ns),
            PlantedCause::Timers { timers } => interrupt(stage, &victim, &took, self.cpu, timers),
            PlantedCause::InterruptsOff { from, timers } => {
                interrupts_off(stage, &victim, &took, [from, self.cpu], timers, self.rounds)
            }
        }
        stage.go();
        stage.until_done();
        LoadReport { took: took.by_name(), ..victim.report() }
    }
}

fn above(cpu: usize) -> TaskPlacement {
    TaskPlacement { cpu: Some(cpu), policy: ABOVE }
}

fn in_turn(
    stage: &mut Stage,
    victim: &VictimTask,
    took: &CauseTimes,
    planted: &Planted,
    spins_ns: [u64; 2],
    turns: u64,
) {
    let (to_first, to_second) = (BytePipe::new(), BytePipe::new());
    stage.task("wl-second", above(planted.cpu), |_| {
        for turn in 0..planted.rounds * turns {
            to_second.take();
            took.time(1, (turn / turns) as usize, || spin(spins_ns[1]));
            to_first.put();
        }
    });
    stage.task("wl-first", above(planted.cpu), |gate| {
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            let round = waker.round();
            waker.wake();
            for _ in 0..turns {
                took.time(0, round, || spin(spins_ns[0]));
                to_second.put();
                to_first.take();
            }
            yield_cpu();
        }
    });
}

fn migrated(
    stage: &mut Stage,
    victim: &VictimTask,
    took: &CauseTimes,
    [here, there]: [usize; 2],
    spins_ns: [u64; 2],
    rounds: u64,
) {
    const READY: usize = 0;
    const MOVED: usize = 1;
    let flags = Shared::new(2);
    let to_second = BytePipe::new();
    let until = |flag: usize| spin_until(|| flags[flag].swap(0, SeqCst) != 0);
    stage.task("wl-second", above(there), |_| {
        for round in 0..rounds {
            to_second.take();
            took.time(1, round as usize, || {
                flags[READY].store(1, SeqCst);
                until(MOVED);
                spin(spins_ns[1])
            });
        }
    });
    stage.task("wl-first", above(here), |gate| {
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            pin(waker.tid(), here);
            took.time(0, waker.round(), || {
                waker.wake();
                let own_ns = spin(spins_ns[0]);
                // The other CPU stays idle until it is needed, so that an emulator that runs CPUs in
                // turn stays on this one.
                to_second.put();
                until(READY);
                pin(waker.tid(), there);
                own_ns
            });
            flags[MOVED].store(1, SeqCst);
            yield_cpu();
        }
    });
}

fn softirq(stage: &mut Stage, victim: &VictimTask, took: &CauseTimes, cpu: usize, receivers: u64, for_ns: u64) {
    stage.task("wl-first", above(cpu), |gate| {
        let broadcast = Broadcast::to(receivers);
        let ksoftirqd = procfs::pids_named(&format!("ksoftirqd/{cpu}"));
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            // While ksoftirqd is runnable, kernels up to 6.3 leave all softirqs to it
            // (kernel/softirq.c, `ksoftirqd_running()`).
            while ksoftirqd.iter().any(|tid| procfs::state(*tid) == Some('R')) {
                yield_cpu();
            }
            let round = waker.round();
            waker.wake();
            took.time(0, round, || {
                let until_ns = now_ns() + for_ns;
                let mut softirq_ns = 0;
                while now_ns() < until_ns {
                    let switches = own_switches();
                    let took_ns = broadcast.send().unwrap_or(0);
                    // With PREEMPT_RT, a softirq can be preempted. In this task, it then belongs to the task; in another
                    // one it is continued there, and what is sent meanwhile only joins its queue.
                    softirq_ns += if own_switches() == switches { took_ns } else { 0 };
                }
                softirq_ns
            });
            yield_cpu();
        }
    });
}

/// How often the calling thread has left its CPU.
fn own_switches() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread may ask for its own usage");
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

fn interrupt(stage: &mut Stage, victim: &VictimTask, took: &CauseTimes, cpu: usize, count: u64) {
    stage.task("wl-first", above(cpu), |gate| {
        let timers = Timers::new(count);
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            let at_ns = loop {
                let at_ns = expire_together(&timers, count);
                block_until(at_ns - 300_000);
                if now_ns() < at_ns - 100_000 {
                    break at_ns;
                }
                // Setting the timers took unusually long, for example because the hypervisor had the
                // CPU: let them expire unused.
            };
            let round = waker.round();
            waker.wake();
            let mut last_ns = now_ns();
            if last_ns >= at_ns {
                // The task lost its CPU meanwhile: the timers expired before the wakeup, or in the
                // system call that makes it.
                took.add(0, round, TimeBounds { least_ns: 0, most_ns: last_ns - at_ns });
            }
            // An interrupt shows up as a jump of this task's clock.
            let inside_ns = at_ns + 100_000;
            while last_ns < inside_ns {
                let now_ns = now_ns();
                if now_ns >= inside_ns {
                    let skipped_ns = now_ns - last_ns;
                    took.add(0, round, TimeBounds { least_ns: skipped_ns, most_ns: skipped_ns });
                }
                last_ns = now_ns;
            }
            yield_cpu();
        }
    });
}

/// Makes `count` timers expire at the same instant, and returns it: ns. They expire on the CPU of the calling task.
fn expire_together(timers: &Timers, count: u64) -> u64 {
    // Far enough in the future to set all timers before.
    let at_ns = now_ns() + count * if machine::is_emulated() { 50_000 } else { 10_000 };
    timers.expire_at(Duration::from_nanos(at_ns));
    at_ns
}

/// Wakes the victim while its CPU handles the timer interrupt: its whole wait is the wait for its CPU
/// to take the wakeup's interrupt.
fn interrupts_off(
    stage: &mut Stage,
    victim: &VictimTask,
    took: &CauseTimes,
    [from, cpu]: [usize; 2],
    count: u64,
    rounds: u64,
) {
    let at_ns = Shared::new(1);
    let (due, set) = (BytePipe::new(), BytePipe::new());
    // Both tasks share the timers: one sets them, the other sees them expire.
    let timers = Timers::new(count);
    stage.task("wl-second", above(cpu), |_| {
        for _ in 0..rounds {
            due.take();
            at_ns[0].store(expire_together(&timers, count), SeqCst);
            set.put();
        }
    });
    stage.task("wl-first", above(from), |gate| {
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            due.put();
            set.take();
            let at_ns = at_ns[0].load(SeqCst);
            block_until(at_ns + 300_000);
            let round = waker.round();
            waker.wake();
            let (woken_ns, mut least_ns) = (now_ns(), 0);
            loop {
                let asked_ns = now_ns();
                if timers.have_expired() {
                    break;
                }
                least_ns = asked_ns - woken_ns;
            }
            took.add(0, round, TimeBounds { least_ns, most_ns: u64::MAX });
        }
    });
}
