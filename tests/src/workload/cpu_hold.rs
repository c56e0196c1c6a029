//! Tasks that wait for a CPU until a given instant, whatever the cost of measuring them.

use std::sync::atomic::Ordering::SeqCst;

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{block_until, now_ns},
    random::Random,
    shared::Shared,
    task::{self, Policy, TaskPlacement},
};

/// `wl-holder` holds a CPU for a random time, up to an instant that it fixes in advance. Meanwhile it
/// wakes some of the `wl-held` tasks, which have a lower priority on the same CPU, at instants that it
/// also fixes in advance: each waits until the end of the hold, and for the few tasks that were woken
/// before it. Work within the hold, such as that of BPF programs, delays none of these instants.
///
/// Waits differ as those of a service do: by task, because each is woken in its own part of the hold,
/// and over time, because holds are long or short for some hundreds of ms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CpuHold {
    /// The CPU of all tasks.
    pub cpu: usize,
    /// Number of tasks that wait.
    pub tasks: usize,
    /// Length of the performance: ns.
    pub length_ns: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Number of tasks woken in each hold.
const WOKEN: usize = 12;

/// Holds take from a tenth of this to this long: ns.
const LONGEST_NS: f64 = 12e6;

/// From the end of a hold to the next, for the woken tasks and everything else on the CPU: ns. More
/// than the 5 % of the time that the kernel withholds from real-time tasks (`sched_rt_runtime_us`).
const GAP_NS: u64 = 1_500_000;

/// Average length of the phases of long and of short holds: ns.
const PHASE_NS: f64 = 2.5e8;

/// Upper bound of the average number of waits per second.
const WAITS_PER_S: u64 = 6_000;

impl CpuHold {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let capacity = (self.length_ns / 1_000_000_000 + 1) * WAITS_PER_S;
        let (count, waits, woken_at) = (Shared::new(1), Shared::new(capacity as usize), Shared::new(self.tasks));
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
            self.hold(&mut Random(self.seed), |task| {
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
    fn hold(&self, random: &mut Random, wake: impl Fn(usize)) {
        let begin_ns = now_ns();
        let (mut phase_ends_ns, mut is_long, mut next) = (begin_ns, false, 0);
        while now_ns() < begin_ns + self.length_ns {
            let begins_ns = now_ns();
            if begins_ns >= phase_ends_ns {
                phase_ends_ns = begins_ns + (PHASE_NS * 2.0 * random.fraction()) as u64;
                is_long = !is_long;
            }
            // Log-uniform: lengths are equally likely between any two bounds of the same ratio.
            let hold_ns = LONGEST_NS * 0.1f64.powf(random.fraction()) / if is_long { 1.0 } else { 4.0 };
            let mut due: Vec<(f64, usize)> = (0..WOKEN)
                .map(|_| {
                    next = (next + 1 + (random.fraction() * 3.0) as usize) % self.tasks;
                    // Every other task is woken late in the hold.
                    let part = random.fraction();
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

/// Keeps the CPU busy until `at_ns`.
fn hold_until(at_ns: u64) {
    while now_ns() < at_ns {
        std::hint::spin_loop();
    }
}
