//! The run budget under `--max-overhead`: after a given number of runs the programs stop measuring by
//! themselves. User space may be too late to stop them, above all on the overloaded machine that the
//! limit is meant for.
//!
//! One word stops all CPUs. The kernel's locks order the events of a task: if an event on one CPU saw
//! the stop, the task's later events on other CPUs see it too. So no wait is measured with an event
//! missing in the middle. The same holds for the end of a stop.

use core::arch::asm;

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    helpers::bpf_ktime_get_ns,
    macros::btf_map,
};
use wakelat_common::program_run_budget::{CpuRuns, RUNS_PER_BATCH};

use crate::{
    task_sampling::SAMPLING,
    wait_settings::{LoadedSettings, WaitSettings},
};

/// Program runs of this CPU. Read by user space.
#[btf_map]
static RUNS: PerCpuArray<CpuRuns, 1> = PerCpuArray::new();

/// Runs that no CPU has taken yet. Set by user space, also while the programs run.
#[btf_map]
static RUNS_LEFT: Array<i64, 1> = Array::new();

/// When the programs stopped: ns of CLOCK_MONOTONIC; 0 while they measure. User space sets it for a pause, and
/// resets it to 0 once no program that has read 0 is running and nothing is left of what they kept.
#[btf_map]
static STOPPED_AT: Array<u64, 1> = Array::new();

/// Counts this run of a program. Returns whether it may measure.
#[inline(always)]
pub fn allows_run() -> bool {
    allows_run_by::<LoadedSettings>()
}

/// Like [`allows_run`], by these settings.
#[inline(always)]
pub fn allows_run_by<S: WaitSettings>() -> bool {
    if !S::is_sampling() {
        return true;
    }
    let (Some(runs), Some(stopped_at)) = (RUNS.get_ptr_mut(0), STOPPED_AT.get_ptr_mut(0)) else { return false };
    // SAFETY: `runs` is this CPU's own entry, `stopped_at` an aligned word of a map that is read in one
    // access. If a wakeup runs with interrupts on, a run that interrupts this one may go uncounted.
    unsafe {
        if stopped_at.read_volatile() != 0 {
            (*runs).stopped += 1;
            return false;
        }
        (*runs).measured += 1;
        if (*runs).reserved > 0 {
            (*runs).reserved -= 1;
            return true;
        }
    }
    take_more(runs, stopped_at)
}

/// Whether there is an overhead limit.
#[inline(always)]
pub fn has_limit() -> bool {
    SAMPLING.load() != 0
}

/// Whether the programs have stopped.
#[inline(always)]
pub fn has_stopped() -> bool {
    // SAFETY: an aligned word of a map, read in one access.
    has_limit() && STOPPED_AT.get(0).is_some_and(|at_ns| unsafe { core::ptr::read_volatile(at_ns) } != 0)
}

/// Takes another batch of runs for this CPU. If none are left, stops the programs on all CPUs. User space
/// finds out when it next looks: waking it takes an interrupt on this CPU.
///
/// Not `#[cold]`: that gives it a section of its own, and aya tells functions apart by their offset in their section
/// (`FunctionLinker::linked_functions`, aya-obj 0.2), so that a program could call the wrong one.
#[inline(never)]
fn take_more(runs: *mut CpuRuns, stopped_at: *mut u64) -> bool {
    let Some(left) = RUNS_LEFT.get_ptr_mut(0) else { return false };
    // SAFETY: an aligned word of a map. CPUs that read it at the same time may together take more than
    // is left: at most one batch each.
    unsafe {
        if left.read_volatile() > 0 {
            // The only atomic operation before 5.12: see `maps::add`.
            asm!("lock *(u64 *)({left} + 0) += {taken}", left = in(reg) left, taken = in(reg) -RUNS_PER_BATCH);
            (*runs).reserved = RUNS_PER_BATCH - 1;
            return true;
        }
        stopped_at.write_volatile(bpf_ktime_get_ns());
    }
    false
}
