//! A task that sleeps and wakes, by itself or behind a hog.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    cause_times::CauseTimes,
    stage::Stage,
    victim::{VictimTask, yield_cpu},
};
use crate::{
    clock::{block_until, now_ns, spin},
    shared::Shared,
    task::{Policy, TaskPlacement, blocked_count},
};

/// `wl-sleeper` is woken by a timer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sleeper {
    /// Number of sleeps.
    pub rounds: u64,
    /// From the start of a sleep to its planned end: ns.
    pub sleep_ns: u64,
    /// CPU and policy of the task.
    pub place: TaskPlacement,
}

impl Sleeper {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        const EARLY: u64 = u64::MAX;
        let late = Shared::new(self.rounds as usize);
        stage.task("wl-sleeper", self.place, |gate| {
            gate.wait();
            for late in late.iter() {
                let (blocked, at_ns) = (blocked_count(), now_ns() + self.sleep_ns);
                block_until(at_ns);
                let late_ns = now_ns() - at_ns;
                // If the hypervisor took the CPU meanwhile, the timer expires before the task sleeps.
                late.store(if blocked_count() == blocked { EARLY } else { late_ns }, SeqCst);
            }
        });
        stage.go();
        stage.until_done();
        let waits_ns: Vec<u64> = late.iter().map(|time| time.load(SeqCst)).filter(|time| *time != EARLY).collect();
        let wakeups = [("wl-sleeper".to_owned(), waits_ns.len() as u64 + 1)].into();
        LoadReport { wakeups, waits_ns, ..LoadReport::default() }
    }
}

/// `wl-hog`, of a higher class or priority, wakes `wl-sleeper` on its own CPU and keeps that CPU for a known time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BehindHog {
    /// Number of wakeups.
    pub rounds: u64,
    /// How long the hog spins after each wakeup: ns; the sleeper cannot wait less.
    pub spin_ns: u64,
    /// The CPU of both.
    pub cpu: usize,
    /// The sleeper's policy; the hog's is SCHED_FIFO 50.
    pub sleeper: Policy,
}

impl BehindHog {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let victim = VictimTask::stage(stage, self.rounds, TaskPlacement { cpu: Some(self.cpu), policy: self.sleeper });
        let took = CauseTimes::new(&["wl-hog"], self.rounds);
        stage.task("wl-hog", TaskPlacement { cpu: Some(self.cpu), policy: Policy::Fifo(50) }, |gate| {
            let mut waker = victim.waker();
            gate.wait();
            while waker.is_due() {
                took.time(0, waker.round(), || {
                    waker.wake();
                    spin(self.spin_ns)
                });
                yield_cpu();
            }
        });
        stage.go();
        stage.until_done();
        LoadReport { took: took.by_name(), ..victim.report() }
    }
}
