//! Tasks that wake each other and change CPUs all the time.

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::task::{Policy, TaskPlacement, pin};

/// `wl-ping` and `wl-pong` hand a byte to and fro, and each moves to the other CPU before it answers.
/// Only the kernel knows how often they block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MigrationWorkload {
    /// Bytes each way.
    pub rounds: u64,
    /// The two CPUs.
    pub cpus: [usize; 2],
}

impl MigrationWorkload {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let anywhere = TaskPlacement { cpu: None, policy: Policy::Other };
        let (to_ping, to_pong) = (BytePipe::new(), BytePipe::new());
        let cpu = |round: u64| self.cpus[(round % 2) as usize];
        stage.task("wl-pong", anywhere, |_| {
            for round in 0..self.rounds {
                to_pong.take();
                pin(0, cpu(round));
                to_ping.put();
            }
        });
        stage.task("wl-ping", anywhere, |gate| {
            gate.wait();
            for round in 0..self.rounds {
                pin(0, cpu(round + 1));
                to_pong.put();
                to_ping.take();
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
