//! Tasks that one interrupt wakes.

use serde::{Deserialize, Serialize};

use super::{LoadReport, stage::Stage};
use crate::{
    clock::{block_until, now_ns},
    task::TaskPlacement,
};

/// `wl-sleeper` and other tasks sleep until the same instants, on one CPU and with the same real-time priority. The
/// timer of `wl-sleeper` expires first, by less than the CPU needs to notice: one interrupt wakes all of them, one after
/// the other, and `wl-sleeper` waits for the end of that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WokenTogether {
    /// Number of sleeps of each task.
    pub rounds: u64,
    /// Number of other tasks.
    pub others: u64,
    /// The CPU of all.
    pub cpu: usize,
}

impl WokenTogether {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        /// Longer than all tasks run after they are woken, in an emulator as well: ns.
        const PERIOD_NS: u64 = 10_000_000;
        let place = TaskPlacement::fifo(self.cpu);
        let sleep_until_multiples = |plus_ns: u64| {
            let first = now_ns() / PERIOD_NS + 2;
            (first..first + self.rounds).for_each(|multiple| block_until(multiple * PERIOD_NS + plus_ns));
        };
        stage.task("wl-sleeper", place, |gate| {
            gate.wait();
            sleep_until_multiples(0);
        });
        for other in 0..self.others {
            stage.task(&format!("wl-other-{other}"), place, |gate| {
                gate.wait();
                sleep_until_multiples(1);
            });
        }
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
