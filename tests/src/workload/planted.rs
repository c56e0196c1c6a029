//! A task that waits for a cause that is known, for a time that is.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Known, Took,
    stage::{Pipe, Stage},
    victim::{Victim, rest},
};
use crate::{
    broadcast::Broadcast,
    clock::{block_until, now_ns, spin, spin_until},
    machine,
    shared::Shared,
    task::{Place, Policy, pin},
    timers::Timers,
};

/// Above the victim.
const ABOVE: Policy = Policy::Fifo(50);

/// `wl-sleeper`, an ordinary task, waits on `cpu` for a cause.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planted {
    /// How often.
    pub rounds: u64,
    /// Where it is woken.
    pub cpu: usize,
    /// For what.
    pub cause: Cause,
}

/// What a task waits for. [`Known::took`] has how long each took by its own clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// `wl-first`, which wakes it, and `wl-second` have its CPU in turn.
    InTurn {
        /// How long each has it: ns.
        spins_ns: [u64; 2],
        /// How often, in each round.
        turns: u64,
    },
    /// `wl-first`, which wakes it, has its CPU; then it is moved to another, which `wl-second` has.
    Moved {
        /// Where to.
        to: usize,
        /// How long it waits for either: ns.
        spins_ns: [u64; 2],
    },
    /// `wl-first`, which wakes it, sends datagrams that go to many: `send`, which is a softirq but for its beginning and end.
    Softirq {
        /// To how many.
        receivers: u64,
        /// For how long, in each round: ns.
        for_ns: u64,
    },
    /// `wl-first`, on another CPU, wakes it, while its own is in the interrupt of timers that expire at one instant and takes no
    /// other.
    Deaf {
        /// The other CPU.
        from: usize,
        /// How many.
        timers: u64,
    },
    /// `wl-first`, which wakes it, is interrupted by timers that expire at one instant: `interrupt`, which its clock
    /// skips.
    Timers {
        /// How many.
        timers: u64,
    },
}

impl Planted {
    pub(super) fn perform(self, stage: &mut Stage) -> Known {
        let place = if matches!(self.cause, Cause::Deaf { .. }) { Place::fifo } else { Place::other };
        let victim = Victim::stage(stage, self.rounds, place(self.cpu));
        let took = Shared::new(4);
        let names = match self.cause {
            Cause::InTurn { spins_ns, turns } => in_turn(stage, &victim, &took, &self, spins_ns, turns),
            Cause::Moved { to, spins_ns } => moved(stage, &victim, &took, [self.cpu, to], spins_ns, self.rounds),
            Cause::Softirq { receivers, for_ns } => softirq(stage, &victim, &took, self.cpu, receivers, for_ns),
            Cause::Timers { timers } => interrupt(stage, &victim, &took, self.cpu, timers),
            Cause::Deaf { from, timers } => deaf(stage, &victim, [from, self.cpu], timers),
        };
        stage.go();
        stage.until_done();
        let took = took.chunks(2).map(|ns| Took { least_ns: ns[0].load(SeqCst), most_ns: ns[1].load(SeqCst) });
        let took = names.iter().map(|name| (*name).to_owned()).zip(took).collect();
        Known { took, ..victim.known() }
    }
}

/// Adds to the times of a cause: at least what `work` says, and at most what it takes.
fn timed(took: &[AtomicU64], cause: usize, work: impl FnOnce() -> u64) {
    let begin_ns = now_ns();
    let least_ns = work();
    let most_ns = now_ns() - begin_ns;
    took[2 * cause].fetch_add(least_ns, SeqCst);
    took[2 * cause + 1].fetch_add(most_ns, SeqCst);
}

/// Adds what is known exactly.
fn exactly(took: &[AtomicU64], ns: u64) {
    took[..2].iter().for_each(|bound| _ = bound.fetch_add(ns, SeqCst));
}

fn above(cpu: usize) -> Place {
    Place { cpu: Some(cpu), policy: ABOVE }
}

const TASKS: &[&str] = &["wl-first", "wl-second"];

fn in_turn(
    stage: &mut Stage,
    victim: &Victim,
    took: &Shared,
    planted: &Planted,
    spins_ns: [u64; 2],
    turns: u64,
) -> &'static [&'static str] {
    let (to_first, to_second) = (Pipe::new(), Pipe::new());
    stage.task("wl-second", above(planted.cpu), |_| {
        for _ in 0..planted.rounds * turns {
            to_second.take();
            timed(took, 1, || spin(spins_ns[1]));
            to_first.put();
        }
    });
    stage.task("wl-first", above(planted.cpu), |gate| {
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            waker.wake();
            for _ in 0..turns {
                timed(took, 0, || spin(spins_ns[0]));
                to_second.put();
                to_first.take();
            }
            rest();
        }
    });
    TASKS
}

fn moved(
    stage: &mut Stage,
    victim: &Victim,
    took: &Shared,
    [here, there]: [usize; 2],
    spins_ns: [u64; 2],
    rounds: u64,
) -> &'static [&'static str] {
    const READY: usize = 0;
    const MOVED: usize = 1;
    let flags = Shared::new(2);
    let to_second = Pipe::new();
    let until = |flag: usize| spin_until(|| flags[flag].swap(0, SeqCst) != 0);
    stage.task("wl-second", above(there), |_| {
        for _ in 0..rounds {
            to_second.take();
            timed(took, 1, || {
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
            timed(took, 0, || {
                waker.wake();
                let own_ns = spin(spins_ns[0]);
                // The other CPU is idle until it is needed, so that processors that take turns do not do so meanwhile.
                to_second.put();
                until(READY);
                pin(waker.tid(), there);
                own_ns
            });
            flags[MOVED].store(1, SeqCst);
            rest();
        }
    });
    TASKS
}

fn softirq(
    stage: &mut Stage,
    victim: &Victim,
    took: &Shared,
    cpu: usize,
    receivers: u64,
    for_ns: u64,
) -> &'static [&'static str] {
    stage.task("wl-first", above(cpu), |gate| {
        let broadcast = Broadcast::to(receivers);
        let mut waker = victim.waker();
        gate.wait();
        while waker.is_due() {
            waker.wake();
            let begin_ns = now_ns();
            while now_ns() < begin_ns + for_ns {
                broadcast.send();
            }
            exactly(took, now_ns() - begin_ns);
            rest();
        }
    });
    &["send"]
}

fn interrupt(stage: &mut Stage, victim: &Victim, took: &Shared, cpu: usize, count: u64) -> &'static [&'static str] {
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
                // To set them took longer than ever, as where the hypervisor has the CPU: they expire for nobody.
            };
            waker.wake();
            let mut last_ns = now_ns();
            assert!(last_ns < at_ns, "the timers expired before anybody waited");
            // Its clock skips what interrupts it.
            let inside_ns = at_ns + 100_000;
            while last_ns < inside_ns {
                let now_ns = now_ns();
                if now_ns >= inside_ns {
                    exactly(took, now_ns - last_ns);
                }
                last_ns = now_ns;
            }
            rest();
        }
    });
    &["interrupt"]
}

/// Has `count` timers expire together, and says when. They expire on the CPU of the calling task.
fn expire_together(timers: &Timers, count: u64) -> u64 {
    // Far enough for all to be set by then.
    let at_ns = now_ns() + count * if machine::is_emulated() { 50_000 } else { 10_000 };
    timers.expire_at(Duration::from_nanos(at_ns));
    at_ns
}

/// The victim's whole wait is that for its CPU to take the interrupt.
fn deaf(stage: &mut Stage, victim: &Victim, [from, cpu]: [usize; 2], count: u64) -> &'static [&'static str] {
    let at_ns = Shared::new(1);
    let (due, set) = (Pipe::new(), Pipe::new());
    let rounds = victim.rounds();
    stage.task("wl-second", above(cpu), |_| {
        let timers = Timers::new(count);
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
            waker.wake();
        }
    });
    &[]
}
