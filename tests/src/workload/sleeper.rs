//! A task that sleeps and wakes, alone or behind a hog.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    Known,
    stage::{Pipe, Stage},
};
use crate::{
    clock::{block_until, now_ns, spin},
    procfs::Watch,
    shared::Shared,
    task::{Place, Policy, blocked_count},
};

/// `wl-sleeper` is woken by a timer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sleeper {
    /// How often.
    pub rounds: u64,
    /// From the start of one sleep to its end: ns.
    pub sleep_ns: u64,
    /// Where it runs.
    pub place: Place,
}

impl Sleeper {
    pub(super) fn perform(self, stage: &mut Stage) -> Known {
        const EARLY: u64 = u64::MAX;
        let late = Shared::new(self.rounds as usize);
        stage.task("wl-sleeper", self.place, |gate| {
            gate.wait();
            for late in late.iter() {
                let (blocked, at_ns) = (blocked_count(), now_ns() + self.sleep_ns);
                block_until(at_ns);
                let late_ns = now_ns() - at_ns;
                // A CPU that was taken away from the machine meanwhile finds the timer expired before the task sleeps.
                late.store(if blocked_count() == blocked { EARLY } else { late_ns }, SeqCst);
            }
        });
        stage.go();
        stage.until_done();
        let waits_ns: Vec<u64> = late.iter().map(|time| time.load(SeqCst)).filter(|time| *time != EARLY).collect();
        Known { wakeups: [("wl-sleeper".to_owned(), waits_ns.len() as u64 + 1)].into(), waits_ns }
    }
}

/// `wl-hog` wakes `wl-sleeper` on its own CPU and keeps that CPU for a known time, being of a higher class or priority.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BehindHog {
    /// How often.
    pub rounds: u64,
    /// How long the hog spins after each wakeup: ns; the sleeper cannot wait less.
    pub spin_ns: u64,
    /// The CPU of both.
    pub cpu: usize,
    /// The sleeper's policy; the hog's is SCHED_FIFO 50.
    pub sleeper: Policy,
}

impl BehindHog {
    pub(super) fn perform(self, stage: &mut Stage) -> Known {
        const NOT_YET: u64 = u64::MAX;
        let times = Shared::new(self.rounds as usize);
        let blocked = Shared::new(1);
        let pipe = Pipe::new();
        let sleeper = stage.task("wl-sleeper", Place { cpu: Some(self.cpu), policy: self.sleeper }, |_| {
            for time in times.iter() {
                pipe.take();
                let now_ns = now_ns();
                time.store(now_ns - time.load(SeqCst), SeqCst);
                blocked[0].store(blocked_count(), SeqCst);
            }
        });
        stage.task("wl-hog", Place { cpu: Some(self.cpu), policy: Policy::Fifo(50) }, |gate| {
            let mut sleeper = Watch::new(sleeper);
            gate.wait();
            for time in times.iter() {
                // Leaves the CPU to the sleeper until that has blocked again.
                while !sleeper.has_blocked_more_than(blocked[0].load(SeqCst)) {
                    block_until(now_ns() + 300_000);
                }
                blocked[0].store(NOT_YET, SeqCst);
                time.store(now_ns(), SeqCst);
                pipe.put();
                spin(self.spin_ns);
                block_until(now_ns() + 300_000);
            }
        });
        stage.go();
        stage.until_done();
        Known {
            wakeups: [("wl-sleeper".to_owned(), self.rounds)].into(),
            waits_ns: times.iter().map(|time| time.load(SeqCst)).collect(),
        }
    }
}
