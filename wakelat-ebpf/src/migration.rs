//! `sched_migrate_task`: updates the context of the task's pending wait and emits a [`MigrationRecord`].

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::timeline::{MigrationRecord, feature, kind};

use crate::{
    cpu_state, filter,
    kernel_structs::{Read, Task, TaskFields as _},
    maps::feature_enabled,
    ring_buffers, task_table, throttle_steal_clocks, window,
};

/// `sched_migrate_task`: `task` is about to move to the run queue of `to_cpu`. Updates its pending wait
/// and emits a [`MigrationRecord`].
#[inline(always)]
pub fn migrate<R: Read>(task: Task<R>, to_cpu: u32) {
    if !window::is_open() {
        return;
    }
    let pid = task.pid();
    let mut waiting = false;
    if feature_enabled(feature::QUEUE_CLOCK) {
        // Nothing is kept of a wait. The kernel has just taken the task off its queue, but a task that is woken is on
        // none (`on_rq` is `TASK_ON_RQ_MIGRATING` or 0, kernel/sched/core.c).
        waiting = task.is_runnable() && filter::wants(task, pid);
    } else if let Some(entry) = task_table::find(task) {
        // SAFETY: the entry is this task's. A task migrates under the lock of the run queue that it
        // leaves or, while it is on none, under its own (`set_task_cpu()`, kernel/sched/core.c). See
        // `switch_out` for `sched_waking`.
        let entry = unsafe { &mut *entry };
        if entry.pending.at_ns != 0 {
            entry.context.migrate(throttle_steal_clocks::during(task, &entry.context));
        }
        waiting = entry.pending.is_wanted();
    }
    if !waiting && !(feature_enabled(feature::ALL_MIGRATIONS) && filter::wants(task, pid)) {
        return;
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
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
    ring_buffers::submit(slot, cpu, false);
}
