//! A task that others wake and keep from running.

use std::sync::atomic::Ordering::SeqCst;

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{block_until, now_ns},
    procfs::Watch,
    shared::Shared,
    task::{TaskPlacement, blocked_count},
};

/// `wl-sleeper`, which sleeps until it is woken, a fixed number of times.
pub struct VictimTask {
    tid: u32,
    pipe: BytePipe,
    began: Shared,
    times: Shared,
    blocked: Shared,
}

const NOT_YET: u64 = u64::MAX;

impl VictimTask {
    /// Stages a victim that is woken `rounds` times.
    pub fn stage(stage: &mut Stage, rounds: u64, place: TaskPlacement) -> Self {
        let [began, times] = [Shared::new(rounds as usize), Shared::new(rounds as usize)];
        let blocked = Shared::new(1);
        let pipe = BytePipe::new();
        let tid = stage.task("wl-sleeper", place, |_| {
            for (began, time) in began.iter().zip(times.iter()) {
                pipe.take();
                time.store(now_ns() - began.load(SeqCst), SeqCst);
                blocked[0].store(blocked_count(), SeqCst);
            }
        });
        Self { tid, pipe, began, times, blocked }
    }

    /// The handle for the one task that wakes the victim.
    pub fn waker(&self) -> VictimWaker<'_> {
        VictimWaker { victim: self, watch: Watch::new(self.tid), round: 0 }
    }

    /// What the victim knows at the end.
    pub fn report(&self) -> LoadReport {
        LoadReport {
            wakeups: [("wl-sleeper".to_owned(), self.times.len() as u64)].into(),
            waits_ns: self.times.iter().map(|time| time.load(SeqCst)).collect(),
            began_ns: self.began.iter().map(|began| began.load(SeqCst)).collect(),
            ..LoadReport::default()
        }
    }
}

/// Wakes a [`VictimTask`].
pub struct VictimWaker<'a> {
    victim: &'a VictimTask,
    watch: Watch,
    round: usize,
}

impl VictimWaker<'_> {
    /// TID of the victim.
    pub fn tid(&self) -> u32 {
        self.victim.tid
    }

    /// Whether the victim is to be woken once more. If so, leaves the CPU to it until it has blocked again.
    pub fn is_due(&mut self) -> bool {
        if self.round == self.victim.times.len() {
            return false;
        }
        while !self.watch.has_blocked_more_than(self.victim.blocked[0].load(SeqCst)) {
            yield_cpu();
        }
        self.victim.blocked[0].store(NOT_YET, SeqCst);
        true
    }

    /// How often the victim has been woken: the round that the next [`Self::wake`] begins.
    pub fn round(&self) -> usize {
        self.round
    }

    /// Wakes the victim.
    pub fn wake(&mut self) {
        self.victim.began[self.round].store(now_ns(), SeqCst);
        self.round += 1;
        self.victim.pipe.put();
    }
}

/// Leaves the CPU to other tasks for 300 µs.
pub fn yield_cpu() {
    block_until(now_ns() + 300_000);
}
