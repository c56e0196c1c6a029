//! Timeline records beside the switch records (see `switch_record`): migrations (`sched_migrate_task`)
//! and wakeups (`sched_wakeup`, `sched_wakeup_new`); also the per-CPU state and the loss count that all
//! timeline records share.

use aya_ebpf::{
    btf_maps::PerCpuArray,
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
    maps::ring_buf::RingBufEntry,
};
use wakelat_common::{
    Class,
    timeline::{CpuState, MigrationRecord, WakeupRecord, feature, kind},
    wait_context::{Clocks, WaitContext},
};

use crate::{
    filter,
    kernel_structs::TaskFields,
    maps::{TIMELINE_FEATURES, add},
    task_table, wait_record, window,
};

/// State of this CPU between two of its records. User space reads its count of lost records.
#[btf_map]
static CPU_STATE: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Whether `part`, a bit of [`feature`], is enabled. A constant by the time a program is verified.
#[inline(always)]
pub fn feature_enabled(part: u32) -> bool {
    TIMELINE_FEATURES.load() & part != 0
}

/// This CPU's entry of [`CPU_STATE`].
#[inline(always)]
pub fn cpu_state() -> Option<*mut CpuState> {
    CPU_STATE.get_ptr_mut(0)
}

/// Reads the clocks of the task's run queue at the beginning of a wait, if they are enabled.
#[inline(always)]
pub fn clocks<T: TaskFields>(task: T) -> Clocks {
    if feature_enabled(feature::CLOCKS) { task.clocks() } else { Clocks::UNKNOWN }
}

/// Reads the clocks that matter to the pending wait of `task`, if they are enabled.
#[inline(always)]
pub fn clocks_of_wait<T: TaskFields>(task: T, context: &WaitContext) -> Clocks {
    if feature_enabled(feature::CLOCKS) { task.clocks_of_wait(context.follows_throttling()) } else { Clocks::UNKNOWN }
}

/// Reserves room for a record and returns it with the number of records lost so far; if there is no
/// room, counts one more. An interrupt may send records of its own between any two instructions. Then
/// this record, which comes before those, may have a higher count than they have.
#[inline(always)]
pub fn reserve<R: 'static>(here: *mut CpuState) -> Option<(RingBufEntry<R>, u32)> {
    // SAFETY: this CPU's own entry. No reference to it is held, because a program that interrupts this
    // one also writes it.
    let lost = unsafe { &raw mut (*here).lost };
    match wait_record::reserve() {
        // SAFETY: the pointer is to this CPU's own entry; an aligned word is read in one access.
        Some(slot) => Some((slot, unsafe { lost.read_volatile() } as u32)),
        None => {
            add(lost, 1);
            None
        }
    }
}

/// `sched_migrate_task`: `task` is about to move to the run queue of `to_cpu`. Updates its pending wait
/// and emits a [`MigrationRecord`].
#[inline(always)]
pub fn emit_migration<T: TaskFields>(task: T, to_cpu: u32) {
    if !window::is_open() {
        return;
    }
    let mut waiting = false;
    if let Some(entry) = task_table::find(task) {
        // SAFETY: the entry is this task's. A task migrates under the lock of the run queue that it
        // leaves or, while it is on none, under its own (`set_task_cpu()`, kernel/sched/core.c). See
        // `switch_out` for `sched_waking`.
        let entry = unsafe { &mut *entry };
        if entry.pending.at_ns != 0 {
            entry.context.migrate(clocks_of_wait(task, &entry.context));
        }
        waiting = entry.pending.is_wanted();
    }
    let pid = task.pid();
    if !waiting && !(feature_enabled(feature::ALL_MIGRATIONS) && filter::wants(task, pid)) {
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
        waiting: waiting.into(),
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        from_cpu: task.cpu(),
        to_cpu,
        comm: task.comm(),
    });
    wait_record::submit(slot, false);
}

/// Emits a [`WakeupRecord`] for `task`, whether or not the wakeup begins a wait.
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
    wait_record::submit(slot, false);
}
