//! Tasks that are forked, run and exit.

use nix::{sys::wait::waitpid, unistd::Pid};
use serde::{Deserialize, Serialize};

use super::{LoadReport, stage::Stage};
use crate::{
    clock::spin,
    task::{TaskPlacement, spawn},
};

/// `wl-forker` forks children one after another, all with its own name, and waits for the end of each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForkWorkload {
    /// Number of children.
    pub children: u64,
    /// How long each child runs: ns.
    pub run_ns: u64,
    /// CPU and policy of all.
    pub place: TaskPlacement,
}

impl ForkWorkload {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        stage.task("wl-forker", self.place, |gate| {
            gate.wait();
            for _ in 0..self.children {
                let child = spawn(|| {
                    spin(self.run_ns);
                });
                waitpid(Pid::from_raw(child as i32), None).expect("the child has not been reaped");
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
