//! Tasks that use all the CPU time that they get.

use serde::{Deserialize, Serialize};

use super::{LoadReport, stage::Stage};
use crate::{
    clock, machine,
    task::{self, TaskPlacement},
};

/// `wl-hog` tasks, pinned, that start with the performance and spin until the load is dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hogs {
    /// Number of hogs on each CPU.
    pub per_cpu: u64,
}

impl Hogs {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        stage.go();
        for cpu in machine::cpus() {
            for _ in 0..self.per_cpu {
                task::spawn(|| {
                    task::name("wl-hog");
                    TaskPlacement::other(cpu).take();
                    clock::burn();
                });
            }
        }
        LoadReport::default()
    }
}
