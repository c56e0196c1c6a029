//! Who is measured.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::config::{names, number, ranges::Ranges};

/// The heading of the flags that say who is measured.
const HEADING: &str = "Who is measured (all filters judge the task that waits)";

/// Who is measured, as far as every instrument can tell.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct TaskFlags {
    /// Only these processes, with all their threads; a list, repeatable
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = number::id, allow_hyphen_values = true)]
    pub pid: Vec<u32>,

    /// Only these threads; a list, repeatable
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = number::id, allow_hyphen_values = true)]
    pub tid: Vec<u32>,

    /// Only tasks whose name matches one of these shell patterns, such as 'nginx*'; a list, repeatable
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub comm: Vec<OsString>,

    /// Only waits that end on these CPUs, such as 0-3,8; repeatable
    #[arg(short = 'C', long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub cpus: Vec<Ranges>,

    /// Only these kernel priorities: 0-99 real-time, 100-139 fair, -1 deadline; repeatable
    #[arg(long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub prio: Vec<Ranges>,
}

/// Who is measured.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct FilterFlags {
    /// Which tasks, and where.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Only tasks in this cgroup (v2) or below it, such as /kubepods; repeatable
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,

    /// Only these policies: other, fifo, rr, batch, idle, deadline, ext
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = names::policy)]
    pub policy: Vec<u32>,

    /// Why they waited: wakeup, new, preempted; or runqueue, which is all three as one
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "wakeup", hide_possible_values = true)]
    pub class: Vec<ClassName>,

    /// Where the clock of a wakeup starts: on the run queue (wakeup), or with the waker (waking)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", hide_possible_values = true)]
    pub from: FromEvent,

    /// Measure wakelat's own threads as well
    #[arg(long)]
    pub include_self: bool,
}

/// A class, or all of them as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClassName {
    /// Woken from sleep
    Wakeup,
    /// Newly created
    New,
    /// Preempted
    Preempted,
    /// All three as one
    Runqueue,
}

/// Where the clock of a wakeup starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FromEvent {
    /// The task is on a run queue
    #[default]
    Wakeup,
    /// The waker begins to wake it
    Waking,
}
