//! Under `--max-overhead` the programs measure for a number of runs, and then stop by themselves: user space may be late,
//! most of all on the overloaded machine for which there is a limit.
//!
//! All CPUs stop at one word. A task's events are ordered by the kernel's locks, so that a CPU that follows another in them
//! sees the stop if that one saw it, and no wait is measured with an event missing in its middle.

use core::arch::asm;

use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP,
    btf_maps::{Array, PerCpuArray},
    helpers::bpf_ktime_get_ns,
    macros::btf_map,
};
use wakelat_common::share::{CpuRuns, RUNS_PER_BATCH};

use crate::{maps::SAMPLES, share::SAMPLING};

/// Runs of this CPU. Read by user space.
#[btf_map]
static RUNS: PerCpuArray<CpuRuns, 1> = PerCpuArray::new();

/// Runs that no CPU has taken yet. Set by user space, also while the programs run.
#[btf_map]
static RUNS_LEFT: Array<i64, 1> = Array::new();

/// When the programs stopped: ns of CLOCK_MONOTONIC; 0 while they measure. User space sets it to 0 while they are detached.
#[btf_map]
static STOPPED_AT: Array<u64, 1> = Array::new();

/// Counts this run of a program. Returns whether it may measure.
#[inline(always)]
pub fn allows_run() -> bool {
    if SAMPLING.load() == 0 {
        return true;
    }
    let (Some(runs), Some(stopped_at)) = (RUNS.get_ptr_mut(0), STOPPED_AT.get_ptr_mut(0)) else { return false };
    // SAFETY: this CPU's own entry, and an aligned word of a map that is read at once. A run that interrupts this one, on a
    // wakeup with interrupts on, may have its count lost.
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

/// Takes runs for this CPU, or stops all where none are left and wakes the reader.
#[cold]
#[inline(never)]
fn take_more(runs: *mut CpuRuns, stopped_at: *mut u64) -> bool {
    let Some(left) = RUNS_LEFT.get_ptr_mut(0) else { return false };
    // SAFETY: an aligned word of a map. CPUs that read it at once may take more than is left, by what one of them takes.
    unsafe {
        if left.read_volatile() > 0 {
            // The one atomic operation that kernels before 5.12 know, as in `starts`.
            asm!("lock *(u64 *)({left} + 0) += {taken}", left = in(reg) left, taken = in(reg) -RUNS_PER_BATCH);
            (*runs).reserved = RUNS_PER_BATCH - 1;
            return true;
        }
        stopped_at.write_volatile(bpf_ktime_get_ns());
    }
    // A record that is discarded is never read, and wakes the reader all the same. Where there is no room for it, the
    // reader was woken before.
    if let Some(slot) = SAMPLES.reserve_untyped::<u64>(0) {
        slot.discard(BPF_RB_FORCE_WAKEUP.into());
    }
    false
}
