//! `/proc/schedstat`: how many waits have ended on each run queue, and how long they took in all (`show_schedstat()`,
//! kernel/sched/stats.c, 5.10 to 7.2; Documentation/scheduler/sched-stats.rst). It exists with
//! `CONFIG_SCHEDSTATS`; the sysctl `kernel.sched_schedstats` has no effect on these two numbers.

use std::{fs, path::Path};

/// The kernel's counters of all run queues since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunQueueSchedstat {
    /// CPUs that are online.
    pub cpus: u64,
    /// How often a task got a CPU (`rq_sched_info.pcount`).
    pub waits: u64,
    /// How long tasks have been runnable without a CPU, in ns (`rq_sched_info.run_delay`).
    pub waited_ns: u64,
}

impl RunQueueSchedstat {
    /// Reads the counters. None if the kernel has no such file.
    pub fn read(proc: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(proc.join("schedstat")).ok()?)
    }

    /// Adds up the lines `cpuN`: the last two of nine numbers are the waiting time and the number of waits.
    fn parse(text: &str) -> Option<Self> {
        let mut sum = Self::default();
        for line in text.lines().filter(|line| line.starts_with("cpu")) {
            let numbers: Vec<u64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
            let [_, _, _, _, _, _, _, waited_ns, waits] = numbers[..] else { return None };
            sum.cpus += 1;
            sum.waits += waits;
            sum.waited_ns += waited_ns;
        }
        (sum.cpus > 0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_numbers_of_each_cpu_are_added_up() {
        let text = "version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 5000 700 12\ndomain0 MC 3 1 2\n\
                    cpu1 0 0 0 0 0 0 6000 800 30\n";
        assert_eq!(RunQueueSchedstat::parse(text), Some(RunQueueSchedstat { cpus: 2, waits: 42, waited_ns: 1_500 }));
    }

    #[test]
    fn a_line_of_another_form_is_not_guessed_at() {
        for text in ["", "version 15\n", "cpu0 0 0 0 0 0 5000 700 12\n", "cpu0 0 0 0 0 0 0 5000 700 x\n"] {
            assert_eq!(RunQueueSchedstat::parse(text), None, "{text}");
        }
    }
}
