//! Two tasks in turn, one of which has a new name each time.

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::task::{self, TaskPlacement};

/// `wl-waiter` and `wl-renamed` wake each other on one CPU, with the same real-time priority: each waits until the other
/// blocks. Before it wakes the other, `wl-renamed` takes a name that no task had before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Renamed {
    /// How often each waits.
    pub rounds: u64,
    /// The CPU of both.
    pub cpu: usize,
}

impl Renamed {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let (to_waiter, to_renamed) = (BytePipe::new(), BytePipe::new());
        let place = TaskPlacement::fifo(self.cpu);
        stage.task("wl-waiter", place, |_| {
            for _ in 0..self.rounds {
                to_waiter.take();
                to_renamed.put();
            }
        });
        stage.task("wl-renamed", place, |gate| {
            gate.wait();
            for round in 0..self.rounds {
                task::name(&format!("wl-{round}"));
                to_waiter.put();
                to_renamed.take();
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
