//! Two tasks that wake each other endlessly.

use serde::{Deserialize, Serialize};

use super::{LoadReport, stage};
use crate::task::TaskPlacement;

/// `wl-ping` and `wl-pong` hand a byte to and fro until the load is dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pipe {
    /// CPU and policy of both.
    pub place: TaskPlacement,
}

impl Pipe {
    pub(super) fn perform(self, stage: &mut stage::Stage) -> LoadReport {
        let place = self.place;
        let (to_ping, to_pong) = (stage::BytePipe::new(), stage::BytePipe::new());
        stage.task("wl-pong", place, |_| {
            loop {
                to_pong.take();
                to_ping.put();
            }
        });
        stage.task("wl-ping", place, |gate| {
            gate.wait();
            loop {
                to_pong.put();
                to_ping.take();
            }
        });
        stage.go();
        LoadReport::default()
    }
}
