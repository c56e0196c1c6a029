//! What the measurement may take from the machine.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Attach, number, size, span};

/// What the measurement may take from the machine.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceFlags {
    /// Typed tracepoints (btf), raw ones (raw), classic ones (classic), or the best that the kernel has (auto)
    #[arg(long, value_name = "KIND", default_value = "auto", hide_possible_values = true)]
    pub attach: Attach,

    /// The kernel's types, where it does not have them at /sys/kernel/btf/vmlinux
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub btf: Option<PathBuf>,

    /// Maximum number of tasks tracked at once [default: 4.5 times the present number of threads, at least 18432]
    #[arg(long, value_name = "N", value_parser = number::max_tasks, allow_hyphen_values = true)]
    pub start_entries: Option<u32>,

    /// Size of the ring buffer, such as 4M; rounded up to a power of two [default: 1M per CPU, at most 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub ring_size: Option<u64>,

    /// How often to empty the ring buffer
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span::with_unit, allow_hyphen_values = true)]
    pub drain_interval: u64,

    /// SCHED_FIFO priority of the reader, 1-99, or 0 for none [default: 1 where that delays no other task: if the kernel
    /// aggregates, with a limit of the overhead, and after the window; none for other windows]
    #[arg(long, value_name = "PRIO", value_parser = number::reader_priority, allow_hyphen_values = true)]
    pub rt_priority: Option<u8>,
}
