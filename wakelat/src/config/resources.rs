//! What the measurement may take from the machine.

use std::path::PathBuf;

use super::ConfigError;
use crate::{cli::ResourceFlags, kernel::Machine};

/// What the measurement may take from the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// How the programs are attached.
    pub attach: Attach,
    /// The kernel's types, where they are not in sysfs.
    pub btf: Option<PathBuf>,
    /// Tasks that the table of starts has room for.
    pub max_tasks: u32,
    /// The ring buffer's size: bytes, a power of two and at least a page.
    pub ring_bytes: u32,
    /// Its size where every switch goes through it.
    pub timeline_ring_bytes: u32,
    /// How often the ring buffer is emptied, however little is in it: ns.
    pub drain_interval_ns: u64,
    /// SCHED_FIFO priority of the reader, 1–99, or 0 for none; none where it was left open.
    pub rt_priority: Option<u8>,
}

/// How the programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Attach {
    /// btf where the kernel allows it, else raw, and classic where there is no BTF
    #[default]
    Auto,
    /// BTF-typed tracepoints (tp_btf): cheaper
    Btf,
    /// Raw tracepoints (raw_tp): on any kernel with BTF
    Raw,
    /// Classic tracepoints: without BTF, and without process ids, policies and cgroups
    Classic,
}

/// Places of the smallest default table of starts.
const MIN_TASKS: u32 = 16_384;
/// The largest ring buffer: a map's size is a u32, and a ring's a power of two (`ringbuf_map_alloc()`,
/// kernel/bpf/ringbuf.c).
const MAX_RING_BYTES: u64 = 1 << 31;
/// The largest ring buffer by default: at a million samples a second, 600 ms of them.
const MAX_DEFAULT_RING_BYTES: u64 = 64 << 20;
/// Bytes of the ring buffer for each CPU, where only waits go through it.
const RING_PER_CPU: u64 = 1 << 20;
/// Where every switch and every interrupt does: as long a time of them.
const TIMELINE_RING_PER_CPU: u64 = 8 << 20;
/// Emptying the ring more often than that costs more than it is worth.
const MIN_DRAIN_INTERVAL_NS: u64 = 100_000;

impl Resources {
    /// The resources, and what was decided differently from what was typed.
    pub(super) fn new(flags: &ResourceFlags, machine: &Machine) -> Result<(Self, Vec<String>), ConfigError> {
        if flags.drain_interval < MIN_DRAIN_INTERVAL_NS {
            return Err(ConfigError::usage("--drain-interval", "the interval is too short; expected at least `100us`"));
        }
        let ([ring_bytes, timeline_ring_bytes], note) = match flags.ring_size {
            Some(bytes) => ring(bytes, machine).map(|(bytes, note)| ([bytes; 2], note))?,
            None => ([RING_PER_CPU, TIMELINE_RING_PER_CPU].map(|per_cpu| default_ring(machine, per_cpu)), None),
        };
        let resources = Self {
            attach: flags.attach,
            btf: flags.btf.clone(),
            max_tasks: flags.start_entries.unwrap_or_else(|| default_max_tasks(machine)),
            ring_bytes,
            timeline_ring_bytes,
            drain_interval_ns: flags.drain_interval,
            rt_priority: flags.rt_priority,
        };
        Ok((resources, note.into_iter().collect()))
    }
}

/// A place for four times the threads there are, in case of a storm, but never for more than there can be; and an eighth
/// of that beside, for threads that share a place: where numbers are given at random, one thread in eight does.
fn default_max_tasks(machine: &Machine) -> u32 {
    let roomy = machine.threads.saturating_mul(4).checked_next_power_of_two().unwrap_or(u32::MAX);
    let places = roomy.max(MIN_TASKS).min(machine.pid_max.next_power_of_two().max(MIN_TASKS));
    places + places / 8
}

/// A power of two and at least a page: what the kernel takes.
fn ring(bytes: u64, machine: &Machine) -> Result<(u32, Option<String>), ConfigError> {
    let rounded = bytes.max(machine.page_bytes.into()).checked_next_power_of_two();
    let Some(rounded) = rounded.filter(|rounded| *rounded <= MAX_RING_BYTES) else {
        let why = format!("`{bytes}` bytes are too many; expected at most `2G`, the largest ring buffer of the kernel");
        return Err(ConfigError::usage("--ring-size", why));
    };
    let note = (rounded != bytes).then(|| {
        format!("the ring buffer has {rounded} bytes, not {bytes}: the kernel takes a power of two and at least a page")
    });
    Ok((rounded as u32, note))
}

fn default_ring(machine: &Machine, per_cpu: u64) -> u32 {
    let bytes = (machine.cpus.count() as u64).saturating_mul(per_cpu).checked_next_power_of_two();
    bytes.unwrap_or(u64::MAX).clamp(per_cpu, MAX_DEFAULT_RING_BYTES) as u32
}
