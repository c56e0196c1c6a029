//! A task that is signalled while it falls asleep.

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

use super::{LoadReport, stage::Stage};
use crate::{
    clock::{block_until, now_ns, spin},
    shared::Shared,
    task::TaskPlacement,
};

/// `wl-target` sleeps again and again until a signal arrives, and `wl-sender` signals it every few µs: often enough
/// for most sleeps to meet a signal on their way, and not so often that the target only handles signals.
///
/// The target takes long to fall asleep: it sets its state, starts a timer, and only then leaves its CPU
/// (`do_nanosleep`, kernel/time/hrtimer.c). A signal in between wakes a task that runs, and then keeps
/// it runnable, whatever state its switch-out reports. Only the kernel knows how often this happens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SignalStorm {
    /// Number of sleeps.
    pub rounds: u64,
    /// The CPU of the sender, and that of the target.
    pub cpus: [usize; 2],
    /// How long the target sleeps afterwards: a stale pending wait would become a giant wait: ns.
    pub sleep_after_ns: u64,
}

/// Maximum time between two signals: ns.
const MOST_APART_NS: u64 = 10_000;

impl SignalStorm {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        const LONG: TimeSpec = TimeSpec::new(3600, 0);
        extern "C" fn ignore(_: i32) {}
        let over = Shared::new(1);
        let target = stage.task("wl-target", TaskPlacement::other(self.cpus[1]), |_| {
            react(SigHandler::Handler(ignore));
            for _ in 0..self.rounds {
                // A signal interrupts every sleep: no gap between two signals is that long.
                let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::empty(), &LONG);
            }
            react(SigHandler::SigIgn);
            over[0].store(1, SeqCst);
            block_until(now_ns() + self.sleep_after_ns);
        });
        stage.task("wl-sender", TaskPlacement::other(self.cpus[0]), |gate| {
            gate.wait();
            for sent in 0_u64.. {
                if over[0].load(SeqCst) != 0 {
                    break;
                }
                kill(Pid::from_raw(target as i32), Signal::SIGUSR1).expect("the target is alive");
                spin(sent * 97 % MOST_APART_NS);
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}

/// Sets the action of SIGUSR1 for this process.
fn react(handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the only handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("SIGUSR1 can be handled");
}
