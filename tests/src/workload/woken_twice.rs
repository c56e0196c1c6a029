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

/// `wl-target` falls asleep again and again. Each time `wl-sender`, on another CPU, lets the real-time `wl-preemptor` take the
/// target's CPU, and signals the target at about the same time.
///
/// Now and then the signal is pending, but its wakeup not there yet, when the target is about to leave its CPU: the target stays
/// runnable (`__schedule()`, kernel/sched/core.c), the preemptor is next, and the wakeup, for which the sender had to wait for the
/// lock of the run queue, finds a task that waits. A kernel that is preempted between a task's announcement that it sleeps and its
/// sleep has such wakeups also later in the wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WokenTwice {
    /// How many sleeps.
    pub rounds: u64,
    /// The CPU of the sender, and that of the others.
    pub cpus: [usize; 2],
}

/// How far the steps of a round are apart, at most: about as long as it takes to fall asleep and to wake another CPU's task.
const SWEEP_NS: u64 = 4_000;

/// A signal that came before the target slept is lost to its sleep, so after this time another is sent.
const LOST_NS: u64 = 200_000;

impl WokenTwice {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        const LONG: TimeSpec = TimeSpec::new(3600, 0);
        extern "C" fn ignore(_: i32) {}
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
                spin(next * 37 % SWEEP_NS);
                // Interrupted each time: nothing is sent so slowly.
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
                spin(next * 61 % SWEEP_NS);
                turn.put();
                spin(next * 97 % SWEEP_NS);
                signal();
                let mut sent_ns = now_ns();
                while round[0].load(SeqCst) == next {
                    if now_ns() - sent_ns > LOST_NS {
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
