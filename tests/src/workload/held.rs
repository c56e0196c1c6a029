//! Tasks that wait for a CPU until an instant of the clock, whatever it costs to measure them.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{block_until, now_ns},
    shared::Shared,
    task::{self, Policy, TaskPlacement},
};

/// `wl-holder` holds a CPU for a drawn time, up to an instant that is fixed before. Meanwhile it wakes some of `wl-held`, tasks of
/// lower priority on the same CPU, at instants that are fixed as well: each waits for the rest of the hold, and for the few
/// that were woken before it. Work within the hold, such as that of BPF programs, delays none of these instants.
///
/// Waits differ as those of a service do: by task, as each is woken in a part of the hold of its own, and by time, as holds are
/// long or short for some hundreds of ms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CpuHold {
    /// The CPU of all.
    pub cpu: usize,
    /// How many tasks wait.
    pub tasks: usize,
    /// How long the performance takes: ns.
    pub length_ns: u64,
    /// What is drawn depends on this alone.
    pub seed: u64,
}

/// Tasks woken in each hold.
const WOKEN: usize = 12;

/// Holds are from a tenth of this to this long: ns.
const LONGEST_NS: f64 = 12e6;

/// From the end of a hold to the next, for what was woken and everything else on the CPU: ns. More than the 5 % of the time that the
/// kernel keeps from real-time tasks (`sched_rt_runtime_us`).
const GAP_NS: u64 = 1_500_000;

/// Times of long and of short holds: ns on average.
const PHASE_NS: f64 = 2.5e8;

/// No more waits than these in a second, on average.
const WAITS_PER_S: u64 = 6_000;

impl CpuHold {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let places = (self.length_ns / 1_000_000_000 + 1) * WAITS_PER_S;
        let (count, waits, woken_at) = (Shared::new(1), Shared::new(places as usize), Shared::new(self.tasks));
        let pipes: Vec<BytePipe> = (0..self.tasks).map(|_| BytePipe::new()).collect();
        let ready = BytePipe::new();
        for (index, pipe) in pipes.iter().enumerate() {
            task::spawn(|| {
                task::name("wl-held");
                TaskPlacement { cpu: Some(self.cpu), policy: Policy::Fifo(10) }.take();
                ready.put();
                loop {
                    pipe.take();
                    let wait_ns = now_ns() - woken_at[index].load(SeqCst);
                    waits[count[0].fetch_add(1, SeqCst) as usize].store(wait_ns, SeqCst);
                }
            });
        }
        pipes.iter().for_each(|_| ready.take());
        stage.task("wl-holder", TaskPlacement { cpu: Some(self.cpu), policy: Policy::Fifo(50) }, |gate| {
            gate.wait();
            self.hold(&mut Drawn(self.seed), |task| {
                woken_at[task].store(now_ns(), SeqCst);
                pipes[task].put();
            });
        });
        stage.go();
        stage.until_done();
        let waits_ns = waits[..count[0].load(SeqCst) as usize].iter().map(|wait| wait.load(SeqCst)).collect();
        LoadReport { waits_ns, ..LoadReport::default() }
    }

    /// Holds the CPU again and again, and wakes tasks meanwhile.
    fn hold(&self, drawn: &mut Drawn, wake: impl Fn(usize)) {
        let begin_ns = now_ns();
        let (mut phase_ends_ns, mut is_long, mut next) = (begin_ns, false, 0);
        while now_ns() < begin_ns + self.length_ns {
            let begins_ns = now_ns();
            if begins_ns >= phase_ends_ns {
                phase_ends_ns = begins_ns + (PHASE_NS * 2.0 * drawn.next()) as u64;
                is_long = !is_long;
            }
            // Equally often between any two lengths of the same ratio.
            let hold_ns = LONGEST_NS * 0.1f64.powf(drawn.next()) / if is_long { 1.0 } else { 4.0 };
            let mut due: Vec<(f64, usize)> = (0..WOKEN)
                .map(|_| {
                    next = (next + 1 + (drawn.next() * 3.0) as usize) % self.tasks;
                    // Every other task is woken late in the hold.
                    let part = drawn.next();
                    (if next % 2 == 0 { part } else { 1.0 - (1.0 - part) / 3.0 }, next)
                })
                .collect();
            due.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (part, task) in due {
                hold_until(begins_ns + (hold_ns * part * 0.98) as u64);
                wake(task);
            }
            let ends_ns = begins_ns + hold_ns as u64;
            hold_until(ends_ns);
            block_until(ends_ns + GAP_NS);
        }
    }
}

/// Keeps the CPU until `at_ns`.
fn hold_until(at_ns: u64) {
    while now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// Numbers from 0 to 1 in an order that depends on the seed alone (SplitMix64).
struct Drawn(u64);

impl Drawn {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as f64 / u64::MAX as f64
    }
}
