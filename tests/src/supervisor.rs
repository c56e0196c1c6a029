//! What a machine's supervisor hides from every instrument.
//!
//! On some hosted machines no tracepoint fires in the threads of process 1, neither for perf nor for
//! BPF: no instrument sees the switch from such a thread to a task of a test, nor a wakeup by an
//! interrupt that arrives while such a thread runs. wakelat cannot know about the latter, and counts
//! the former as `missed_switch`. The kernel's accounting of those threads bounds how many there can
//! be: none while process 1 sleeps, as it nearly always does on a machine of one's own and in a virtual
//! machine of the tests.

use std::{fs, ops::Sub};

/// How long the threads of process 1 have run so far, and how many slices they have had
/// (`/proc/<pid>/schedstat`, Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, Default)]
pub struct Supervisor {
    /// Run time: ns.
    pub ran_ns: u64,
    slices: u64,
}

impl Supervisor {
    /// The totals up to now.
    pub fn now() -> Self {
        let mut all = Self::default();
        for thread in fs::read_dir("/proc/1/task").into_iter().flatten().flatten() {
            // A thread may have exited by now.
            let line = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(0));
            all.ran_ns += words.next().unwrap_or(0);
            all.slices += words.nth(1).unwrap_or(0);
        }
        all
    }

    /// Upper bound of the switches to other tasks that went unseen: one at the end of each slice.
    pub fn switch_ins(&self) -> u64 {
        self.slices
    }

    /// Upper bound of the waits of `tasks` tasks that went unseen in these slices. While such a thread
    /// has a CPU, an interrupt may wake each task there once, because the task cannot run before that
    /// thread has left; and one task runs after the thread.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slice_hides_a_wait_of_each_task_however_long_it_is() {
        let of = |ran_ns, tasks| Supervisor { ran_ns, slices: 3 }.untraced(tasks);
        assert_eq!([of(0, 1), of(1_000_000_000, 2), of(1_000_000_000, 5)], [6, 6, 15]);
        assert_eq!(Supervisor { ran_ns: 1_000_000_000, slices: 0 }.untraced(5), 0);
    }
}
