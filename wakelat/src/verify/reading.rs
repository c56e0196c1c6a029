//! One reading of a task's account in `/proc/TID/schedstat`.

use std::{fs, io, path::Path};

use super::window::TimeBracket;
use crate::{kernel::schedstat::Schedstat, wait::Comm};

/// An account, read at some time in `moment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub moment: TimeBracket,
    /// The task was on a run queue or had a CPU at the beginning of the moment.
    pub runnable: bool,
    pub waits: u64,
    pub waited_ns: u64,
}

impl Reading {
    /// Reads the task's state first: a wait that lasts while the account is read either shows in the state or begins after it.
    pub fn of(task: &Path, now_ns: impl Fn() -> u64) -> Option<Self> {
        let read =
            || io::Result::Ok((fs::read_to_string(task.join("stat"))?, fs::read_to_string(task.join("schedstat"))?));
        let (moment, (stat, schedstat)) = TimeBracket::of(now_ns, read).ok()?;
        let Schedstat { waited_ns, times, .. } = Schedstat::parse(&schedstat)?;
        Some(Self { moment, runnable: is_runnable(&stat), waits: times, waited_ns })
    }
}

/// Whether the state, behind the name in parentheses, is `R` (proc_pid_stat(5)).
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// The task's name.
pub(super) fn comm(task: &Path) -> Option<Comm> {
    let bytes = fs::read(task.join("comm")).ok()?;
    Some(Comm::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
}
