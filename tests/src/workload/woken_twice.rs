//! A task that is woken while it waits.

use std::sync::atomic::Ordering::SeqCst;

use nix::{
    sys::{
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction},
        time::TimeSpec,
    },
    time::{ClockId, ClockNanosleepFlags, clock_nanosleep},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{now_ns, spin},
    shared::Shared,
    task::{Policy, TaskPlacement},
};

/// `wl-target` falls asleep again and again. Each time `wl-sender`, on another CPU, makes the real-time
/// `wl-preemptor` take the target's CPU, and signals the target at about the same time.
///
/// Occasionally the signal is already pending when the target is about to leave its CPU, but its wakeup
/// has not arrived: the target stays runnable (`__schedule()`, kernel/sched/core.c), the preemptor is
/// next, and the wakeup, for which the sender had to wait for the lock of the run queue, finds a
/// waiting task. In a kernel that can be preempted between a task's announcement of its sleep and the
/// sleep itself, such wakeups also happen later in the wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WokenTwice {
    /// Number of sleeps.
    pub rounds: u64,
    /// The CPU of the sender, and that of the others.
    pub cpus: [usize; 2],
    /// Maximum distance between the steps of a round. Best about as long as it takes to fall asleep and to wake
    /// a task on another CPU: some 4 µs, and many times that where a hypervisor delays interrupts.
    pub sweep_ns: u64,
}

/// Number of different distances between the steps of a round.
const STEPS: u64 = 4_000;

/// Interval after which the signal is sent again: a signal that arrives before the target sleeps does
/// not interrupt the sleep: ns.
const LOST_NS: u64 = 200_000;

impl WokenTwice {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        const LONG: TimeSpec = TimeSpec::new(3600, 0);
        extern "C" fn ignore(_: i32) {}
        // The same fractions of the maximum, whatever it is.
        let part = |steps: u64| steps % STEPS * self.sweep_ns / STEPS;
        let round = Shared::new(1);
        let over = self.rounds + 1;
        let turn = BytePipe::new();
        let target = stage.task("wl-target", TaskPlacement::other(self.cpus[1]), |gate| {
            let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
            // SAFETY: the handler does nothing.
            unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("SIGUSR1 can be handled");
            gate.wait();
            for next in 1..=self.rounds {
                round[0].store(next, SeqCst);
                spin(part(next * 37));
                // A signal interrupts every sleep: no gap between two signals is that long.
                let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::empty(), &LONG);
            }
            round[0].store(over, SeqCst);
        });
        stage.task("wl-preemptor", TaskPlacement { cpu: Some(self.cpus[1]), policy: Policy::Fifo(20) }, |gate| {
            gate.wait();
            for _ in 0..self.rounds {
                turn.take();
                spin(5_000);
            }
        });
        stage.task("wl-sender", TaskPlacement::other(self.cpus[0]), |gate| {
            let signal = || kill(Pid::from_raw(target as i32), Signal::SIGUSR1).expect("the target is alive");
            gate.wait();
            for next in 1..=self.rounds {
                while round[0].load(SeqCst) < next {
                    std::hint::spin_loop();
                }
                spin(part(next * 61));
                turn.put();
                spin(part(next * 97));
                signal();
                let mut sent_ns = now_ns();
                while round[0].load(SeqCst) == next {
                    if now_ns() - sent_ns > LOST_NS.max(self.sweep_ns) {
                        signal();
                        sent_ns = now_ns();
                    }
                }
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
