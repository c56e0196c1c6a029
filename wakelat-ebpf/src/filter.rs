//! The in-kernel filter: decides which waits are measured. It tests the task that waits, when its wait
//! begins; only the CPU is tested when the wait ends.

use wakelat_common::filter::{Filter, part};

use crate::{
    kernel_structs::TaskFields,
    maps::{CGROUPS, FILTER, OWN_TGID, PIDS, TGIDS},
    wait_settings::{LoadedSettings, WaitSettings},
};

/// Whether the filter accepts `task`, on whatever CPU it is.
#[inline(always)]
pub fn wants<T: TaskFields>(task: T, pid: u32) -> bool {
    wants_by::<LoadedSettings, T>(task, pid)
}

/// Like [`wants`], by these settings.
#[inline(always)]
pub fn wants_by<S: WaitSettings, T: TaskFields>(task: T, pid: u32) -> bool {
    let parts = S::filter_parts();
    if parts & part::OTHERS != 0 && task.is_in_process(OWN_TGID.load()) {
        return false;
    }
    // Mostly there is no other: one test instead of six.
    if parts & !(part::OTHERS | part::CPU) == 0 {
        return true;
    }
    if parts & part::TGID != 0 && TGIDS.get_ptr(task.tgid()).is_none() {
        return false;
    }
    if parts & part::PID != 0 && PIDS.get_ptr(pid).is_none() {
        return false;
    }
    if parts & (part::COMM | part::PRIO | part::POLICY) != 0 {
        let Some(filter) = data() else { return false };
        if parts & part::PRIO != 0 && !filter.wants_prio(task.prio()) {
            return false;
        }
        if parts & part::POLICY != 0 && !filter.wants_policy(task.policy()) {
            return false;
        }
        if parts & part::COMM != 0 && !filter.comm.matches(&task.comm()) {
            return false;
        }
    }
    if parts & part::CGROUP != 0 && !task.any_cgroup(|id| CGROUPS.get_ptr(id).is_some()) {
        return false;
    }
    true
}

/// Whether the filter accepts waits that end on `cpu`. Calls `cpu` only if `--cpus` is given.
#[inline(always)]
pub fn wants_cpu(cpu: impl FnOnce() -> u32) -> bool {
    wants_cpu_by::<LoadedSettings>(cpu)
}

/// Like [`wants_cpu`], by these settings.
#[inline(always)]
pub fn wants_cpu_by<S: WaitSettings>(cpu: impl FnOnce() -> u32) -> bool {
    S::filter_parts() & part::CPU == 0 || data().is_some_and(|filter| filter.wants_cpu(cpu()))
}

#[inline(always)]
fn data() -> Option<&'static Filter> {
    FILTER.get(0)
}
