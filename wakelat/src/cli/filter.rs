//! Which tasks are measured.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::config::{names, number, ranges::Ranges};

/// The heading of the filter flags.
const HEADING: &str = "Filter (all conditions apply to the waiting task)";

/// Which tasks are measured: the filters that BPF programs and hist triggers both support.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct TaskFlags {
    /// Only these processes, with all their threads; comma-separated, repeatable
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = number::id, allow_hyphen_values = true)]
    pub pid: Vec<u32>,

    /// Only these threads; comma-separated, repeatable
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = number::id, allow_hyphen_values = true)]
    pub tid: Vec<u32>,

    /// Only tasks whose name matches a shell pattern, such as 'nginx*'; comma-separated, repeatable
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub comm: Vec<OsString>,

    /// Only waits that end on these CPUs, such as 0-3,8; repeatable
    #[arg(short = 'C', long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub cpus: Vec<Ranges>,

    /// Only these kernel priorities: 0-99 real-time, 100-139 fair, -1 deadline; repeatable
    #[arg(long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub prio: Vec<Ranges>,
}

/// Which tasks are measured.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct FilterFlags {
    /// Which tasks, and where.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Only tasks in this cgroup (v2) or its descendants, such as /kubepods; repeatable
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,

    /// Only these scheduling policies: other, fifo, rr, batch, idle, deadline, ext
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = names::policy)]
    pub policy: Vec<u32>,

    /// Only these classes of waits: wakeup, new, preempted; or runqueue, all three combined
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "wakeup", hide_possible_values = true)]
    pub class: Vec<ClassName>,

    /// Event that starts a wakeup's latency: wakeup (task on a run queue) or waking (waker begins)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", hide_possible_values = true)]
    pub from: FromEvent,

    /// Also measure wakelat's own threads
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
    /// All three combined
    Runqueue,
}

/// The event that starts a wakeup's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FromEvent {
    /// The task is on a run queue
    #[default]
    Wakeup,
    /// The waker begins to wake it
    Waking,
}
