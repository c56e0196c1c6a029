//! Groups of waits: if they are requested, each wait is added to an element of a hash map instead of the
//! histogram of its class, with the task's properties in its key.
//!
//! Each CPU has elements of its own, so a plain addition is enough. A wait that has no element, and for which
//! none can be made, goes to the histogram of its class: the map is full, or the kernel refuses the lock of a
//! bucket (`htab_lock_bucket()`, kernel/bpf/hashtab.c).

use core::ptr::null_mut;

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    btf_maps::{Array, HashMap},
    helpers::bpf_get_smp_processor_id,
    macros::btf_map,
};
use wakelat_common::{
    Class, bucket,
    group::{self, DIRECT_ELEMENTS as PLACES, GroupElement, GroupElementKey, GroupProperties, octave, part},
};

use crate::{
    direct_table::{self, DirectTable},
    kernel_structs::TaskFields,
    wait_settings::WaitSettings,
};

/// Elements that are found without the hash map.
#[btf_map]
static DIRECT_ELEMENTS: DirectTable<GroupElementKey, GroupElement> = DirectTable::new();

/// The groups of the first half. The kernel allocates all elements when it creates the map. The loader sets
/// their number.
#[btf_map]
static GROUPS_0: HashMap<GroupElementKey, GroupElement, 1> = HashMap::new();

/// The groups of the second half: see [`GROUPS_0`].
#[btf_map]
static GROUPS_1: HashMap<GroupElementKey, GroupElement, 1> = HashMap::new();

/// An element without waits: zeros, which no program writes to. Too large for a program's stack.
#[btf_map]
static NO_WAITS: Array<GroupElement, 1> = Array::new();

/// The element for a wait of `task` that ends on this CPU, in `half`, and the bucket of the wait's length in the
/// histogram. `None` if waits are not grouped, or if there is no room.
#[inline(always)]
pub fn element<S: WaitSettings, T: TaskFields>(
    half: u32,
    class: Class,
    latency_ns: u64,
    task: T,
) -> Option<(*mut GroupElement, usize)> {
    let parts = S::group_parts();
    if parts == 0 {
        return None;
    }
    let index = bucket::index(latency_ns);
    let properties = GroupProperties {
        // SAFETY: no arguments, no side effects.
        cpu: unsafe { bpf_get_smp_processor_id() },
        half,
        class,
        octave: octave(index),
        pid: if parts & part::PID != 0 { task.pid() } else { 0 },
        tgid: if parts & part::TGID != 0 { task.tgid() } else { 0 },
        cgroup_id: if parts & part::CGROUP != 0 { task.cgroup_id() } else { 0 },
        comm: if parts & part::COMM != 0 { task.comm() } else { [0; _] },
    };
    let key = properties.key();
    let direct = direct_table::find(&DIRECT_ELEMENTS, PLACES, properties.cpu, half, &key);
    let element = direct.or_else(|| {
        let element = in_hash_map(key[0], key[1], key[2], key[3], key[4]);
        (!element.is_null()).then_some(element)
    })?;
    Some((element, index))
}

/// The element of the key of these words in the hash map; null if there is no room.
///
/// A function of its own, so that the key is on its stack: that of a program is full (512 bytes for all calls together).
#[inline(never)]
fn in_hash_map(first: u64, ids: u64, cgroup_id: u64, name: u64, rest_of_name: u64) -> *mut GroupElement {
    let key = [first, ids, cgroup_id, name, rest_of_name];
    let groups = if group::half(&key) == 0 { &GROUPS_0 } else { &GROUPS_1 };
    find_or_insert(groups, &key).unwrap_or(null_mut())
}

/// The element of `key`, a new one if there is none. No other program inserts it: the key has this CPU.
#[inline(always)]
fn find_or_insert(
    groups: &HashMap<GroupElementKey, GroupElement, 1>,
    key: &GroupElementKey,
) -> Option<*mut GroupElement> {
    if let Some(element) = groups.get_ptr_mut(key) {
        return Some(element);
    }
    let empty = NO_WAITS.get(0)?;
    groups.insert(key, empty, BPF_NOEXIST.into()).ok()?;
    groups.get_ptr_mut(key)
}
