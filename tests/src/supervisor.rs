//! What a machine's supervisor keeps from every instrument.
//!
//! On some hosted machines no tracepoint fires in the threads of process 1, neither for perf nor for BPF: the switch from
//! such a thread to a task of a test is seen by nobody, and neither is a wakeup by an interrupt that such a thread
//! happens to take. wakelat cannot know of the latter, and counts the former as `stale`. How much there can be of it is
//! for the kernel to say, which keeps account of those threads too: nothing where process 1 sleeps, as it does nearly
//! always on a machine of one's own and in a virtual machine of the tests.

use std::{fs, ops::Sub};

/// How long the threads of process 1 have run so far, and how often they have come to a CPU (`/proc/<pid>/schedstat`,
/// Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, Default)]
pub struct Supervisor {
    /// ns.
    pub ran_ns: u64,
    slices: u64,
}

impl Supervisor {
    /// Up to now.
    pub fn now() -> Self {
        let mut all = Self::default();
        for thread in fs::read_dir("/proc/1/task").into_iter().flatten().flatten() {
            // A thread may be gone by now.
            let line = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(0));
            all.ran_ns += words.next().unwrap_or(0);
            all.slices += words.nth(1).unwrap_or(0);
        }
        all
    }

    /// How many waits of so many tasks may have gone unseen meanwhile. While such a thread has a CPU, each task may be woken there by an
    /// interrupt, once, as it cannot run before that thread has gone; and one of them comes after it.
    pub fn untraced(&self, tasks: usize) -> u64 {
        self.slices * tasks.max(2) as u64
    }
}

impl Sub for Supervisor {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns), slices: self.slices.saturating_sub(earlier.slices) }
    }
}
