//! A task that moves to another cgroup while it runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::task::TaskPlacement;

/// `wl-moved` moves itself to another cgroup and blocks; `wl-mover` moves it back and wakes it. Both have one CPU and the
/// same real-time priority: each waits until the other blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CgroupMover {
    /// How often `wl-moved` moves itself.
    pub rounds: u64,
    /// The CPU of both.
    pub cpu: usize,
    /// The cgroup of `wl-moved` whenever it is woken.
    pub home: PathBuf,
    /// The one that it moves itself to.
    pub away: PathBuf,
}

impl CgroupMover {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let (to_mover, to_moved) = (BytePipe::new(), BytePipe::new());
        let place = TaskPlacement::fifo(self.cpu);
        let moved = stage.task("wl-moved", place, |gate| {
            gate.wait();
            for _ in 0..self.rounds {
                // 0 is the task that writes.
                move_to(&self.away, 0);
                to_mover.put();
                to_moved.take();
            }
        });
        stage.task("wl-mover", place, |_| {
            for _ in 0..self.rounds {
                to_mover.take();
                move_to(&self.home, moved);
                to_moved.put();
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}

fn move_to(cgroup: &Path, pid: u32) {
    fs::write(cgroup.join("cgroup.procs"), pid.to_string()).unwrap_or_else(|error| panic!("{cgroup:?}: {error}"));
}
