//! What a machine's supervisor keeps from every instrument.
//!
//! On some hosted machines no tracepoint fires in the threads of process 1, neither for perf nor for BPF: the switch from
//! such a thread to a task of a test is seen by nobody, and neither is a wakeup by an interrupt that such a thread
//! happens to take. wakelat cannot know of the latter, and counts the former as `stale`. How much there can be of it is
//! for the kernel to say, which keeps account of those threads too: nothing where process 1 sleeps, as it does nearly
//! always on a machine of one's own and in a virtual machine of the tests.

use std::{fs, ops::Sub};

/// No task of the loads is woken more often than this: ns.
const SHORTEST_PERIOD_NS: u64 = 10_000;

/// What the threads of process 1 have run so far (`/proc/<pid>/schedstat`, Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, Default)]
pub struct Supervisor {
    on_cpu_ns: u64,
    slices: u64,
}

impl Supervisor {
    /// Up to now.
    pub fn now() -> Self {
        let mut all = Self::default();
        for task in fs::read_dir("/proc/1/task").into_iter().flatten().flatten() {
            // A thread may be gone by now.
            let line = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(0));
            all.on_cpu_ns += words.next().unwrap_or(0);
            all.slices += words.nth(1).unwrap_or(0);
        }
        all
    }

    /// How many waits may have gone unseen meanwhile: one at the end of each slice, and others by interrupts within.
    pub fn untraced(&self) -> u64 {
        self.slices + self.on_cpu_ns / SHORTEST_PERIOD_NS
    }
}

impl Sub for Supervisor {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }
}
