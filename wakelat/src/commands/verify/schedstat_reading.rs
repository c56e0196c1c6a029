//! One reading of `/proc/TID/schedstat`.

use std::{fs, io, path::Path};

use super::window::TimeBracket;
use wakelat_core::wait::Comm;
use wakelat_kernel::task_schedstat::Schedstat;

/// A task's counters, read at some time within `moment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub moment: TimeBracket,
    /// Whether the task was on a run queue or on a CPU at the beginning of `moment`.
    pub runnable: bool,
    pub waits: u64,
    pub waited_ns: u64,
}

impl Reading {
    /// Reads the task's state, then its counters. In this order, a wait that is pending while the counters
    /// are read either shows in the state or begins after the state was read.
    pub fn of(task: &Path, now_ns: impl Fn() -> u64) -> Option<Self> {
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
pub(super) fn comm(task: &Path) -> Option<Comm> {
    let bytes = fs::read(task.join("comm")).ok()?;
    Some(Comm::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
}
