//! Resources of the machine that the measurement uses.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::named_value::named_value;
use crate::config::{Attach, ConfigError, Resources, duration, number, size};
use wakelat_kernel::Machine;

/// Resources of the machine that the measurement uses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceFlags {
    /// Attach as tp_btf (btf), raw_tp (raw) or classic tracepoint programs (classic), or the best that the kernel
    /// supports (auto)
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = named_value(&ATTACH), hide_possible_values = true)]
    pub attach: Attach,

    /// Read the kernel's BTF from this file instead of /sys/kernel/btf/vmlinux
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub btf: Option<PathBuf>,

    /// Maximum number of tasks tracked at once [default: enough for four times the current threads, at least 18432]
    #[arg(long, value_name = "N", value_parser = number::max_tasks, allow_hyphen_values = true)]
    pub max_tasks: Option<u32>,

    /// Total size of the ring buffers, such as 4M; rounded up to a power of two [default: 1M per CPU, or 8M per CPU if
    /// every switch is recorded; at most 64M in total]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub ring_size: Option<u64>,

    /// Memory for groups that the kernel aggregates waits into, such as 4M [default: 4M per CPU, at most 32M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    pub group_memory: Option<u64>,

    /// Read the ring buffers at this interval
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration::with_unit, allow_hyphen_values = true)]
    pub drain_interval: u64,

    /// SCHED_FIFO priority of the reader thread, 1-99, or 0 for none [default: 1 with --max-overhead, or if the kernel
    /// aggregates by no key other than class and CPU; otherwise 0]
    #[arg(long, value_name = "PRIO", value_parser = number::reader_priority, allow_hyphen_values = true)]
    pub rt_priority: Option<u8>,
}

/// The ways to attach programs, by name.
pub(super) const ATTACH: [(&str, Attach); 4] =
    [("auto", Attach::Auto), ("btf", Attach::Btf), ("raw", Attach::Raw), ("classic", Attach::Classic)];

impl ResourceFlags {
    /// The arguments of `wakelat record` with the same tracepoints, types and priority.
    pub(super) fn of_recording(&self) -> Vec<OsString> {
        let attach = ATTACH.iter().find(|(_, attach)| *attach == self.attach).map_or("auto", |(name, _)| name);
        let mut arguments = vec!["--attach".into(), attach.into()];
        arguments.extend(self.btf.iter().flat_map(|path| ["--btf".into(), path.into()]));
        arguments.extend(self.max_tasks.iter().map(|tasks| format!("--max-tasks={tasks}").into()));
        arguments.extend(self.rt_priority.iter().map(|priority| format!("--rt-priority={priority}").into()));
        arguments
    }

    /// The resources, and notes on values that differ from those given.
    pub(super) fn config(&self, machine: &Machine) -> Result<(Resources, Vec<String>), ConfigError> {
        let mut resources = Resources::new(self.drain_interval, machine)?;
        (resources.attach, resources.rt_priority) = (self.attach, self.rt_priority);
        resources.btf.clone_from(&self.btf);
        resources.max_tasks = self.max_tasks.unwrap_or(resources.max_tasks);
        resources.group_bytes = self.group_memory.unwrap_or(resources.group_bytes);
        let note = self.ring_size.map(|bytes| resources.set_ring_bytes(bytes, machine)).transpose()?.flatten();
        Ok((resources, note.into_iter().collect()))
    }
}
