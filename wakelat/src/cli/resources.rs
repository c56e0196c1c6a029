//! Resources of the machine that the measurement uses.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Attach, number, size, span};

/// Resources of the machine that the measurement uses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceFlags {
    /// Attach to typed (btf), raw (raw) or classic (classic) tracepoints, or to the best the kernel supports (auto)
    #[arg(long, value_name = "KIND", default_value = "auto", hide_possible_values = true)]
    pub attach: Attach,

    /// Read the kernel's BTF from this file instead of /sys/kernel/btf/vmlinux
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub btf: Option<PathBuf>,

    /// Maximum number of tasks tracked at once [default: 4.5 times the current number of threads, at least 18432]
    #[arg(long, value_name = "N", value_parser = number::max_tasks, allow_hyphen_values = true)]
    pub max_tasks: Option<u32>,

    /// Size of the ring buffer, such as 4M; rounded up to a power of two [default: 1M per CPU, at most 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub ring_size: Option<u64>,

    /// Read the ring buffer at this interval
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span::with_unit, allow_hyphen_values = true)]
    pub drain_interval: u64,

    /// SCHED_FIFO priority of the reader thread, 1-99, or 0 for none [default: 1 if that delays no other task (kernel
    /// aggregation, --max-overhead, and after the window), otherwise 0]
    #[arg(long, value_name = "PRIO", value_parser = number::reader_priority, allow_hyphen_values = true)]
    pub rt_priority: Option<u8>,
}
