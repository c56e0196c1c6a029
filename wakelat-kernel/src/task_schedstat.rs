//! `/proc/TID/schedstat`: how long a thread has run, how long it has waited for a CPU, and how often it got
//! one (`proc_pid_schedstat()`, fs/proc/base.c, 5.10 to 7.2; Documentation/scheduler/sched-stats.rst).

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The kernel's counters of a thread since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// How long the thread has run, in ns (`sum_exec_runtime`); for a running thread, up to the last tick
    /// or switch of its CPU.
    pub ran_ns: u64,
    /// How long the thread has been runnable without a CPU, in ns (`run_delay`).
    pub waited_ns: u64,
    /// How often the thread got a CPU (`pcount`).
    pub times: u64,
}

impl Schedstat {
    /// Reads the counters from a thread's directory. None if the thread has exited, or the kernel has no
    /// such counters (`CONFIG_SCHED_INFO`).
    pub fn read(task: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(task.join("schedstat")).ok()?)
    }

    /// Parses `RAN_NS WAITED_NS TIMES`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { ran_ns: next()?, waited_ns: next()?, times: next()? })
    }
}

/// Iterates over all threads: TID and directory.
pub fn threads(proc: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let numbered = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()));
    let processes = fs::read_dir(proc).into_iter().flatten().flatten().filter_map(numbered);
    processes
        .flat_map(move |(_, path)| fs::read_dir(path.join("task")).into_iter().flatten().flatten().filter_map(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_has_three_numbers() {
        let schedstat = Schedstat { ran_ns: 77, waited_ns: 5, times: 3 };
        assert_eq!(Schedstat::parse("77 5 3\n"), Some(schedstat));
        assert_eq!([Schedstat::parse("77 5\n"), Schedstat::parse("")], [None, None]);
    }
}
