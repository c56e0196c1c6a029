//! Resources of the machine that the measurement uses.

use std::path::PathBuf;

use wakelat_common::group::{DIRECT_ELEMENTS, DirectElement};

use super::{Attach, ConfigError};
use wakelat_kernel::Machine;

/// Resources of the machine that the measurement uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// How the programs are attached.
    pub attach: Attach,
    /// The file with the kernel's BTF, if it is not in sysfs.
    pub btf: Option<PathBuf>,
    /// Number of tasks that the task table has room for.
    pub max_tasks: u32,
    /// Size of the ring buffer: bytes, a power of two and at least a page.
    pub ring_bytes: u32,
    /// Size of the ring buffer if every switch goes through it: bytes.
    pub timeline_ring_bytes: u32,
    /// Memory for the groups that the kernel aggregates waits into: bytes.
    pub group_bytes: u64,
    /// The interval at which the ring buffer is emptied, however little is in it: ns.
    pub drain_interval_ns: u64,
    /// SCHED_FIFO priority of the reader, 1–99, or 0 for none; none if not given.
    pub rt_priority: Option<u8>,
}

/// Slots of the smallest default task table.
const MIN_TASKS: u32 = 16_384;
/// The largest ring buffer: a map's size is a u32, and a ring's a power of two (`ringbuf_map_alloc()`,
/// kernel/bpf/ringbuf.c).
const MAX_RING_BYTES: u64 = 1 << 31;
/// The largest ring buffer by default: 600 ms at a million samples a second.
const MAX_DEFAULT_RING_BYTES: u64 = 64 << 20;
/// Bytes of the ring buffer per CPU, if only waits go through it.
const RING_PER_CPU: u64 = 1 << 20;
/// Bytes of the ring buffer per CPU, if every switch and every interrupt goes through it: room for as
/// long a time.
const TIMELINE_RING_PER_CPU: u64 = 8 << 20;
/// Bytes for groups per CPU, because each CPU has elements of its own: room for some 5,000 of them a second.
const GROUPS_PER_CPU: u64 = 4 << 20;
/// The largest memory for groups by default, with the elements that are found without the hash maps: bytes.
const MAX_DEFAULT_GROUP_BYTES: u64 = 32 << 20;
/// Those elements of a CPU, in both halves: bytes.
const DIRECT_GROUPS_PER_CPU: u64 = 2 * DIRECT_ELEMENTS as u64 * size_of::<DirectElement>() as u64;
/// Emptying the ring buffer more often than this costs more than it is worth.
const MIN_DRAIN_INTERVAL_NS: u64 = 100_000;

impl Resources {
    /// The default resources on this machine, with the ring buffer emptied at this interval.
    ///
    /// # Errors
    /// If the interval is too short.
    pub(crate) fn new(drain_interval_ns: u64, machine: &Machine) -> Result<Self, ConfigError> {
        if drain_interval_ns < MIN_DRAIN_INTERVAL_NS {
            return Err(ConfigError::usage("--drain-interval", "the interval is too short; expected at least `100us`"));
        }
        Ok(Self {
            attach: Attach::Auto,
            btf: None,
            max_tasks: default_max_tasks(machine),
            ring_bytes: default_ring(machine, RING_PER_CPU),
            timeline_ring_bytes: default_ring(machine, TIMELINE_RING_PER_CPU),
            group_bytes: default_group_bytes(machine.cpus.count() as u64),
            drain_interval_ns,
            rt_priority: None,
        })
    }

    /// The resources of a run that measures nothing.
    pub(crate) fn none() -> Self {
        Self {
            attach: Attach::Auto,
            btf: None,
            max_tasks: 0,
            ring_bytes: 0,
            timeline_ring_bytes: 0,
            group_bytes: 0,
            drain_interval_ns: 0,
            rt_priority: None,
        }
    }

    /// Gives the ring buffer this size, whatever goes through it. Returns a note if the kernel requires
    /// another size.
    ///
    /// # Errors
    /// If the size is larger than the kernel accepts.
    pub(crate) fn set_ring_bytes(&mut self, bytes: u64, machine: &Machine) -> Result<Option<String>, ConfigError> {
        let (bytes, note) = ring(bytes, machine)?;
        (self.ring_bytes, self.timeline_ring_bytes) = (bytes, bytes);
        Ok(note)
    }
}

/// Slots for four times the current number of threads, to have room for a fork burst, but not for more
/// threads than there can be; and an eighth of that in addition, for threads whose slot is taken: if
/// thread ids are random, one thread in eight.
fn default_max_tasks(machine: &Machine) -> u32 {
    let roomy = machine.threads.saturating_mul(4).checked_next_power_of_two().unwrap_or(u32::MAX);
    let slots = roomy.max(MIN_TASKS).min(machine.pid_max.next_power_of_two().max(MIN_TASKS));
    slots + slots / 8
}

/// Rounds a size up to what the kernel accepts, a power of two and at least a page, with a note if that
/// differs.
fn ring(bytes: u64, machine: &Machine) -> Result<(u32, Option<String>), ConfigError> {
    let rounded = bytes.max(machine.page_bytes.into()).checked_next_power_of_two();
    let Some(rounded) = rounded.filter(|rounded| *rounded <= MAX_RING_BYTES) else {
        let why = format!("`{bytes}` bytes is too large; expected at most `2G`, the kernel's limit for a ring buffer");
        return Err(ConfigError::usage("--ring-size", why));
    };
    let note = (rounded != bytes).then(|| {
        format!(
            "the ring buffer has {rounded} bytes, not {bytes}: the kernel requires a power of two and at least a page"
        )
    });
    Ok((rounded as u32, note))
}

fn default_group_bytes(cpus: u64) -> u64 {
    let most = MAX_DEFAULT_GROUP_BYTES.saturating_sub(cpus * DIRECT_GROUPS_PER_CPU);
    (cpus * GROUPS_PER_CPU).min(most).max(GROUPS_PER_CPU)
}

fn default_ring(machine: &Machine, per_cpu: u64) -> u32 {
    let bytes = (machine.cpus.count() as u64).saturating_mul(per_cpu).checked_next_power_of_two();
    bytes.unwrap_or(u64::MAX).clamp(per_cpu, MAX_DEFAULT_RING_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_32_mib_at_most_by_default_with_the_elements_that_need_no_hash_map() {
        const MIB: u64 = 1 << 20;
        assert_eq!([1, 2, 4].map(default_group_bytes), [4 * MIB, 8 * MIB, 16 * MIB]);
        for cpus in [8, 64, 160, 256] {
            assert_eq!(default_group_bytes(cpus) + cpus * 72 * 1024, 32 * MIB, "{cpus} CPUs");
        }
        assert_eq!(default_group_bytes(4_096), 4 * MIB);
    }
}
