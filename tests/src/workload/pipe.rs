//! Two tasks that wake each other without end.

use serde::{Deserialize, Serialize};

use super::{Known, stage};
use crate::task::Place;

/// `wl-ping` and `wl-pong` hand a byte to and fro on one CPU until the load is dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pipe {
    /// Where both run.
    pub cpu: usize,
}

impl Pipe {
    pub(super) fn perform(self, stage: &mut stage::Stage) -> Known {
        let place = Place::other(self.cpu);
        let (to_ping, to_pong) = (stage::Pipe::new(), stage::Pipe::new());
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
        Known::default()
    }
}
