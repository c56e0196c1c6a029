//! A task that always wakes on a different CPU from the one it ran on.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::now_ns,
    procfs::Watch,
    shared::Shared,
    task::{TaskPlacement, blocked_count, pin},
};

/// `wl-waker`, on the first CPU, moves the sleeping `wl-wakee` to the other of the two CPUs before it
/// wakes it. The wakee is real-time and so is moved immediately: an ordinary task may stay on its run
/// queue for a while after it has blocked (from 6.12 on).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrossWake {
    /// Number of wakeups: even, so that each CPU gets half of them.
    pub rounds: u64,
    /// The two CPUs.
    pub cpus: [usize; 2],
}

impl CrossWake {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let times = Shared::new(self.rounds as usize);
        let blocked = Shared::new(1);
        let pipe = BytePipe::new();
        let wakee = stage.task("wl-wakee", TaskPlacement::fifo(self.cpus[0]), |_| {
            for time in times.iter() {
                pipe.take();
                let now_ns = now_ns();
                time.store(now_ns - time.load(SeqCst), SeqCst);
                blocked[0].store(blocked_count(), SeqCst);
            }
        });
        stage.task("wl-waker", TaskPlacement::other(self.cpus[0]), |gate| {
            let mut watch = Watch::new(wakee);
            gate.wait();
            for (round, time) in times.iter().enumerate() {
                watch.until_blocked_more_than(blocked[0].swap(u64::MAX, SeqCst));
                pin(wakee, self.cpus[(round + 1) % 2]);
                time.store(now_ns(), SeqCst);
                pipe.put();
                while blocked[0].load(SeqCst) == u64::MAX {
                    // On the first CPU, the wakee may need this one.
                    std::thread::yield_now();
                    std::hint::spin_loop();
                }
            }
        });
        stage.go();
        stage.until_done();
        LoadReport {
            wakeups: [("wl-wakee".to_owned(), self.rounds)].into(),
            waits_ns: times.iter().map(|time| time.load(SeqCst)).collect(),
            ..LoadReport::default()
        }
    }
}
