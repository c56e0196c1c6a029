//! Counts the runs of the programs and times one in some: what measuring costs, without the kernel's own
//! accounting of programs, which patches the kernel's code on all CPUs.
//!
//! The rules are those of [`wakelat_common::program_runs`]. A run that is not timed takes a lookup, one
//! addition and one comparison more.
//!
//! Where a run can interrupt another one on its CPU (`maps::PROGRAMS_NEST`; interrupts during a work item's
//! programs), the inner run may go uncounted, and it is never timed while the outer one is. Each word is
//! read and written at once, so no figure is torn.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wakelat_common::{
    cpu_words::CpuWords,
    program_runs::{ProgramKind, ProgramRuns},
};

use crate::{cpu_words, program_run_budget};

/// The runs of one kind of program on a CPU.
#[inline(always)]
fn runs_of(words: *mut CpuWords, kind: ProgramKind) -> *mut ProgramRuns {
    // SAFETY: a value of the map.
    unsafe { &raw mut (*words).runs.kinds[kind as usize] }
}

/// Runs `body`, the whole of a program: counts the run, and times it if it is its turn.
///
/// What depends on whether the run is timed is one number that comes from a map either way: neither the
/// compiler nor the verifier can follow `body` once for each case.
#[inline(always)]
pub fn run(kind: ProgramKind, body: impl FnOnce()) {
    run_with_words(kind, |_| body());
}

/// Like [`run`], for a body that uses the words of this CPU.
#[inline(always)]
pub fn run_with_words(kind: ProgramKind, body: impl FnOnce(*mut CpuWords)) {
    let Some(words) = cpu_words::own() else { return };
    let runs = runs_of(words, kind);
    // SAFETY: this CPU's own entry.
    let mut began_at_ns = unsafe { (&raw const (*runs).zero).read_volatile() };
    if is_due(runs) {
        began_at_ns = begin(runs);
    }
    body(words);
    if began_at_ns != 0 {
        end(runs, began_at_ns);
    }
}

/// Like [`run`], for a program on `sched_switch` whose body needs the whole stack: keeps nothing on the stack
/// meanwhile. No other program on `sched_switch` can interrupt it.
#[inline(always)]
pub fn run_switch_without_stack(body: impl FnOnce(*mut CpuWords)) {
    let Some(words) = cpu_words::own() else { return };
    let runs = runs_of(words, ProgramKind::Switch);
    if is_due(runs) {
        let began_at_ns = begin(runs);
        // SAFETY: this CPU's own entry.
        unsafe { (&raw mut (*runs).began_at_ns).write_volatile(began_at_ns) };
    }
    body(words);
    let Some(words) = cpu_words::own() else { return };
    let runs = runs_of(words, ProgramKind::Switch);
    // SAFETY: this CPU's own entry.
    let began_at_ns = unsafe { &raw mut (*runs).began_at_ns };
    // SAFETY: this CPU's own entry.
    let at_ns = unsafe { began_at_ns.read_volatile() };
    if at_ns != 0 {
        end(runs, at_ns);
        // SAFETY: this CPU's own entry.
        unsafe { began_at_ns.write_volatile(0) };
    }
}

/// Counts a run. Returns whether to time it: a run that interrupts one that is being timed is not timed.
#[inline(always)]
fn is_due(runs: *mut ProgramRuns) -> bool {
    // SAFETY: this CPU's own entry, which user space only reads.
    unsafe {
        let count = (&raw const (*runs).count).read_volatile() + 1;
        (&raw mut (*runs).count).write_volatile(count);
        count >= (&raw const (*runs).next_timed).read_volatile()
            && (&raw const (*runs).timing_since_ns).read_volatile() == 0
    }
}

/// Begins to time a run. Returns when: ns of CLOCK_MONOTONIC.
#[inline(always)]
fn begin(runs: *mut ProgramRuns) -> u64 {
    // SAFETY: no arguments, no side effects; the word is in this CPU's own entry.
    unsafe {
        (&raw mut (*runs).timing_since_ns).write_volatile(bpf_ktime_get_ns());
        // A second reading: the time between the two is what a reading takes.
        bpf_ktime_get_ns()
    }
}

/// Ends the run that began at `began_at_ns`.
#[inline(always)]
fn end(runs: *mut ProgramRuns, began_at_ns: u64) {
    // SAFETY: no arguments, no side effects.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // SAFETY: this CPU's own entry. Only the timed run writes these words, and there is one at a time: a run that
    // interrupts it finds `timing_since_ns` set.
    let runs = unsafe { &mut *runs };
    let represented = runs.count.wrapping_sub(runs.last_timed);
    let clock_ns = began_at_ns.wrapping_sub(runs.timing_since_ns);
    let times = if program_run_budget::has_stopped() { &mut runs.stopped } else { &mut runs.measured };
    times.add(represented, now_ns.wrapping_sub(began_at_ns), clock_ns);
    // Under an overhead limit, the first decisions are made after a few milliseconds.
    runs.end_timed(now_ns, !program_run_budget::has_limit());
}
