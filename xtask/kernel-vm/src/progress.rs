//! The time that an emulator could have run: time on the host without its waits for a CPU there.
//!
//! A guest on a busy host prints late without hanging. Linux accounts for each thread how long it was
//! runnable without a CPU (`/proc/PID/task/TID/schedstat`, second field, ns;
//! Documentation/scheduler/sched-stats.rst).

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// The clock of one process: elapsed time minus the time that its thread with the longest waits has waited
/// for a CPU.
pub struct ProgressClock {
    started: Instant,
    tasks: PathBuf,
}

impl ProgressClock {
    /// Starts the clock of a process that begins now.
    pub fn of(pid: u32) -> Self {
        Self { started: Instant::now(), tasks: format!("/proc/{pid}/task").into() }
    }

    /// How long the process could have run so far. If it is gone, or the kernel does not account waits: how
    /// long ago it began.
    pub fn now(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.starved())
    }

    fn starved(&self) -> Duration {
        let tasks = fs::read_dir(&self.tasks).into_iter().flatten().flatten();
        let waited = tasks.filter_map(|task| waited_ns(&fs::read_to_string(task.path().join("schedstat")).ok()?));
        Duration::from_nanos(waited.max().unwrap_or(0))
    }
}

/// Parses the second of `time on a CPU, time waiting for one, slices`.
fn waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_spent_waiting_for_a_cpu_is_the_second_number() {
        assert_eq!(waited_ns("71234567 8901 23\n"), Some(8901));
        assert_eq!(waited_ns(""), None);
    }

    #[test]
    fn the_clock_advances_and_is_not_ahead_of_the_hosts() {
        let before = Instant::now();
        let clock = ProgressClock::of(std::process::id());
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() <= before.elapsed());
    }
}
