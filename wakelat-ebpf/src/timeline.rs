//! What happens on each CPU is told, beside the switches, which are `turn.rs`: moves and wakeups; and what all records
//! have in common.

use aya_ebpf::{
    btf_maps::PerCpuArray,
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
    maps::ring_buf::RingBufEntry,
};
use wakelat_common::{
    Class,
    course::{Clocks, WaitContext},
    timeline::{CpuState, MigrationRecord, WakeupRecord, kind, part},
};

use crate::{
    filter,
    maps::{TIMELINE_FEATURES, add},
    sample, starts,
    task::TaskFields,
    window,
};

/// What this CPU is at. Its count of losses is read by user space.
#[btf_map]
static CPU_STATE: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Whether `part` is told: a constant by the time a program is verified.
#[inline(always)]
pub fn feature_enabled(part: u32) -> bool {
    TIMELINE_FEATURES.load() & part != 0
}

/// This CPU's entry.
#[inline(always)]
pub fn cpu_state() -> Option<*mut CpuState> {
    CPU_STATE.get_ptr_mut(0)
}

/// The clocks of a task's run queue as its wait begins, where they are told.
#[inline(always)]
pub fn clocks<T: TaskFields>(task: T) -> Clocks {
    if feature_enabled(part::CLOCKS) { task.clocks() } else { Clocks::UNKNOWN }
}

/// Those that matter to a wait under way.
#[inline(always)]
pub fn clocks_of_wait<T: TaskFields>(task: T, course: &WaitContext) -> Clocks {
    if feature_enabled(part::CLOCKS) { task.clocks_of_wait(course.follows_throttling()) } else { Clocks::UNKNOWN }
}

/// A place for a record, and how many were lost so far; counts one more where there is no room. An interrupt may send records
/// of its own between any two instructions: then this record, which comes before those, may count more as lost than they do.
#[inline(always)]
pub fn reserve<R: 'static>(here: *mut CpuState) -> Option<(RingBufEntry<R>, u32)> {
    // SAFETY: this CPU's own entry, of which no reference is held: a program that interrupts this one writes it, too.
    let lost = unsafe { &raw mut (*here).lost };
    match sample::reserve() {
        // SAFETY: as above; a word is read at once.
        Some(slot) => Some((slot, unsafe { lost.read_volatile() } as u32)),
        None => {
            add(lost, 1);
            None
        }
    }
}

/// `task` is about to be moved to the run queue of `to_cpu`.
#[inline(always)]
pub fn emit_migration<T: TaskFields>(task: T, to_cpu: u32) {
    if !window::is_open() {
        return;
    }
    let mut waits = false;
    if let Some(entry) = starts::find(task) {
        // SAFETY: as in `switch_out`: a task is moved under the lock of the run queue that it leaves, or, while it is on none,
        // under its own (`set_task_cpu()`, kernel/sched/core.c).
        let entry = unsafe { &mut *entry };
        if entry.pending.at_ns != 0 {
            entry.context.migrate(clocks_of_wait(task, &entry.context));
        }
        waits = entry.pending.is_wanted();
    }
    let pid = task.pid();
    if !waits && !(feature_enabled(part::ALL_MIGRATIONS) && filter::wants(task, pid)) {
        return;
    }
    let Some(here) = cpu_state() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = reserve(here) else { return };
    slot.write(MigrationRecord {
        kind: kind::MIGRATION,
        waiting: waits.into(),
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        from_cpu: task.cpu(),
        to_cpu,
        comm: task.comm(),
    });
    sample::submit(slot, false);
}

/// `task` is woken, whatever that means for it.
#[inline(always)]
pub fn emit_wakeup<T: TaskFields>(task: T, pid: u32, class: Class) {
    let Some(here) = cpu_state() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu, waker_pid) =
        unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid() as u32) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = reserve(here) else { return };
    slot.write(WakeupRecord {
        kind: kind::WAKEUP,
        class: class as u8,
        running: task.on_cpu().into(),
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        target_cpu: task.cpu(),
        waker_pid,
        comm: task.comm(),
    });
    sample::submit(slot, false);
}
