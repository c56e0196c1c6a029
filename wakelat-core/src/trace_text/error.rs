//! Why a text cannot be read.

use std::{fmt, io};

/// Why a text cannot be read as a trace.
#[derive(Debug)]
pub enum TraceTextError {
    /// The input cannot be read.
    Io(io::Error),
    /// No line of the input is an event of a trace.
    NotATrace,
    /// The trace has events, but no `sched_switch` (among the first `among`, if that is not all of them).
    NoSwitch {
        /// Number of events that were looked at.
        among: usize,
    },
}

/// How to record the events.
const HOW: &str = "record them with `perf record -a -e \
                   'sched:sched_switch,sched:sched_wak*,sched:sched_migrate_task'` and convert them with `perf script --ns`, or with \
                   `trace-cmd record -e sched_switch -e sched_waking -e sched_wakeup -e sched_wakeup_new -e \
                   sched_migrate_task` and `trace-cmd report`";

impl fmt::Display for TraceTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotATrace => f.write_str(
                "neither a recording of `wakelat record` nor the text of a trace; expected the output of `perf script`, \
                 `trace-cmd report`, or `cat trace` in tracefs",
            ),
            Self::NoSwitch { among } => write!(
                f,
                "no `sched_switch` among the first {among} events of the trace; waits need `sched_switch` and `sched_waking` or \
                 `sched_wakeup`: {HOW}"
            ),
        }
    }
}

impl std::error::Error for TraceTextError {}

impl From<io::Error> for TraceTextError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
