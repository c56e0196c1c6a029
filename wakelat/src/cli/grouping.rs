//! Grouping of waits.

use clap::Args;

use crate::config::{ModeChoice, names, number};
use wakelat_core::aggregate::key::Key;

/// Grouping of waits.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Grouping")]
pub struct GroupingFlags {
    /// Group by tid, pid, comm, cgroup, container, cpu, prio, policy, class, waker or component (what a
    /// task waited for); comma-separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = names::key)]
    pub by: Vec<Key>,

    /// Group by process (same as --by pid)
    #[arg(short = 'P', long)]
    pub per_process: bool,

    /// Group by thread (same as --by tid)
    #[arg(short = 'L', long)]
    pub per_thread: bool,

    /// Maximum number of groups; those with the least waiting time are merged into (other)
    #[arg(long, value_name = "N", default_value = "16384", value_parser = number::groups, allow_hyphen_values = true)]
    pub max_groups: usize,

    /// Aggregate in the kernel (aggregate), in user space (samples), or wherever it is cheapest (auto)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    pub mode: ModeChoice,
}
