//! By what waits are grouped.

use clap::Args;

use crate::{
    aggregate::key::Key,
    config::{ModeChoice, names, number},
};

/// By what waits are grouped.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Grouping")]
pub struct GroupingFlags {
    /// Group by tid, pid, comm, cgroup, container, cpu, prio, policy, class, waker, part (what the time of a wait went
    /// to), or several of them
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = names::key)]
    pub by: Vec<Key>,

    /// Group by process: as --by pid
    #[arg(short = 'P', long)]
    pub per_process: bool,

    /// Group by thread: as --by tid
    #[arg(short = 'L', long)]
    pub per_thread: bool,

    /// Groups to show: those that waited longest; the others are in (other)
    #[arg(long, value_name = "N", default_value = "16384", value_parser = number::groups, allow_hyphen_values = true)]
    pub max_groups: usize,

    /// Where to count: in the kernel (aggregate), in user space (samples), or wherever it is cheapest (auto)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    pub mode: ModeChoice,
}
