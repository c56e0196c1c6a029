//! Reads `/proc/TID/schedstat` of tasks.

use std::{fs, io, path::Path};

use super::window::TimeBracket;
use wakelat_core::wait::Comm;
use wakelat_kernel::task_schedstat::{Schedstat, threads};

/// A task's counters, read at some time within `moment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the counters were read.
    pub moment: TimeBracket,
    /// Whether the task was on a run queue or on a CPU at the beginning of `moment`.
    pub runnable: bool,
    /// How often the task got a CPU.
    pub waits: u64,
    /// How long the task has been runnable without a CPU: ns.
    pub waited_ns: u64,
}

/// A reading of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskReading {
    /// The task.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its counters.
    pub reading: Reading,
}

/// Reads every existing task that is `wanted`, one after the other.
pub fn read_tasks(
    proc: &Path,
    now_ns: impl Fn() -> u64,
    wanted: impl Fn(u32, &Comm) -> bool,
) -> impl Iterator<Item = TaskReading> {
    threads(proc).filter_map(move |(tid, path)| {
        let comm = comm(&path)?;
        let reading = wanted(tid, &comm).then(|| Reading::of(&path, &now_ns)).flatten()?;
        Some(TaskReading { tid, comm, reading })
    })
}

impl Reading {
    /// Reads the task's state, then its counters. In this order, a wait that is pending while the counters
    /// are read either shows in the state or begins after the state was read.
    fn of(task: &Path, now_ns: impl Fn() -> u64) -> Option<Self> {
        let read =
            || io::Result::Ok((fs::read_to_string(task.join("stat"))?, fs::read_to_string(task.join("schedstat"))?));
        let (moment, (stat, schedstat)) = TimeBracket::of(now_ns, read).ok()?;
        let Schedstat { waited_ns, times, .. } = Schedstat::parse(&schedstat)?;
        Some(Self { moment, runnable: is_runnable(&stat), waits: times, waited_ns })
    }
}

/// Whether the state, the field after the name in parentheses, is `R` (proc_pid_stat(5)).
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// The task's name.
fn comm(task: &Path) -> Option<Comm> {
    let bytes = fs::read(task.join("comm")).ok()?;
    Some(Comm::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procfs with thread 7 in this state.
    fn proc(state: char) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let task = directory.path().join("7/task/7");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), "name\n").unwrap();
        fs::write(task.join("stat"), format!("7 (a) R ) {state} 1 1 0")).unwrap();
        fs::write(task.join("schedstat"), "77 1000 10\n").unwrap();
        directory
    }

    #[test]
    fn a_reading_has_the_state_and_the_counters_and_the_time() {
        for (state, runnable) in [('S', false), ('R', true)] {
            let clock = std::cell::Cell::new(50);
            let read = read_tasks(proc(state).path(), || clock.replace(clock.get() + 10), |_, _| true).next().unwrap();
            let moment = TimeBracket { before_ns: 50, after_ns: 60 };
            let reading = Reading { moment, runnable, waits: 10, waited_ns: 1_000 };
            assert_eq!(read, TaskReading { tid: 7, comm: Comm::new(b"name"), reading });
        }
    }

    #[test]
    fn only_wanted_tasks_are_read() {
        let read = |name: &[u8]| {
            let wanted = Comm::new(name);
            read_tasks(proc('S').path(), || 50, move |tid, comm| tid == 7 && *comm == wanted).count()
        };
        assert_eq!([read(b"name"), read(b"other")], [1, 0]);
    }
}
