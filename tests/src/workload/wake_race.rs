//! A task that is woken at every possible moment while it falls asleep.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{block_until, now_ns, spin},
    machine,
    shared::Shared,
    task::{Policy, TaskPlacement},
};

/// `wl-waker` wakes `wl-wakee` shortly after the wakee has announced that it will block: sometimes
/// before it does, sometimes while it is still on its CPU, sometimes when it sleeps. With a preemptor,
/// the real-time `wl-preemptor` takes the wakee's CPU every few µs, occasionally between its decision
/// to sleep and its sleep. Only the kernel knows how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WakeRace {
    /// Number of bytes that the wakee reads.
    pub rounds: u64,
    /// The CPU of the waker, and that of the wakee and the preemptor.
    pub cpus: [usize; 2],
    /// Whether there is a preemptor.
    pub preemptor: bool,
    /// How long the wakee sleeps afterwards: a stale pending wait would become a giant wait: ns.
    pub sleep_after_ns: u64,
}

impl WakeRace {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let over = Shared::new(1);
        let about_to_block = Shared::new(1);
        let pipe = BytePipe::new();
        stage.task("wl-wakee", TaskPlacement::other(self.cpus[1]), |_| {
            for round in 1..=self.rounds {
                about_to_block[0].store(round, SeqCst);
                pipe.take();
            }
            over[0].store(1, SeqCst);
            block_until(now_ns() + self.sleep_after_ns);
        });
        if self.preemptor {
            stage.task("wl-preemptor", TaskPlacement { cpu: Some(self.cpus[1]), policy: Policy::Fifo(20) }, |gate| {
                gate.wait();
                let mut pause_ns = 0;
                while over[0].load(SeqCst) == 0 {
                    // The length changes, so that the preemptor does not synchronize with the tasks
                    // that it disturbs.
                    pause_ns = (pause_ns + 7_001) % 60_000;
                    block_until(now_ns() + 20_000 + pause_ns);
                    spin(10_000);
                }
            });
        }
        stage.task("wl-waker", TaskPlacement::other(self.cpus[0]), |gate| {
            // Somewhat longer than it takes to fall asleep.
            let sweep_ns = if machine::is_emulated() { 400_000 } else { 6_000 };
            gate.wait();
            for round in 1..=self.rounds {
                while about_to_block[0].load(SeqCst) < round {
                    if self.cpus[0] == self.cpus[1] {
                        std::thread::yield_now();
                    }
                }
                spin(round * (sweep_ns / 97) % sweep_ns);
                pipe.put();
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}
