//! A CPU goes from one task to the next: `sched_switch`.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
};
use aya_log_ebpf::warn;
use wakelat_common::{
    Class, Counter,
    start::{Ended, Leaving, Start},
};

use crate::{
    filter, histogram,
    maps::{AGGREGATE, FROM_WAKING, THRESHOLD_NS, TRIGGER_RULES, Tally, has_ended, wants},
    sample, share, starts,
    task::TaskFields,
};

/// Both halves; the one that leaves first.
#[inline(always)]
pub fn switch<T: TaskFields>(ctx: &impl EbpfContext, preempt: bool, prev: T, next: T) {
    if starts::GO_WITH_THEIR_TASK && has_ended() {
        depart(prev, preempt);
        return;
    }
    let prev_pid = prev.pid();
    // Idle neither waits nor is preempted, and its number is one for all CPUs.
    if prev_pid != 0 {
        switch_out(prev, prev_pid, prev.leaves(preempt));
    }
    let next_pid = next.pid();
    if next_pid != 0 {
        switch_in(ctx, prev, prev_pid, next, next_pid);
    }
}

/// Nothing begins or ends any more. A task that waited when the run ended is found by user space, unless it has come to its
/// last switch first.
#[inline(always)]
fn depart<T: TaskFields>(prev: T, preempt: bool) {
    if prev.leaves(preempt) != Leaving::Dead {
        return;
    }
    let Some(start) = starts::find(prev) else { return };
    // SAFETY: the entry is this task's, which runs for the last time.
    let left = unsafe { (*start).leave() };
    if let Some(tally) = left.and_then(Tally::of) {
        tally.count(Counter::Departed);
    }
}

/// The task had the CPU, so it cannot have been waiting; if it could go on, it waits from now.
#[inline(always)]
fn switch_out<T: TaskFields>(prev: T, pid: u32, leaving: Leaving) {
    // A trigger knows no task that leaves, except that here the dead make room.
    if TRIGGER_RULES.load() != 0 && leaving != Leaving::Dead {
        return;
    }
    let known = starts::find(prev);
    if let Some(start) = known {
        // SAFETY: the entry is this task's, and the kernel's locks let one CPU at a time wake or switch it.
        let left = unsafe { (*start).leave() };
        if let Some(tally) = left.and_then(Tally::of) {
            tally.count(Counter::Stale);
        }
        if leaving == Leaving::Dead {
            // The last switch: its address may be another task's soon.
            starts::forget(prev);
            return;
        }
    }
    let mut wanted = wants(Class::Preempted);
    if !leaving.is_remembered(wanted) {
        return;
    }
    let Some(tally) = Tally::of(Class::Preempted) else { return };
    if wanted {
        tally.count(Counter::Seen);
    }
    let level = share::watched(pid);
    if level.is_none() && wanted {
        tally.count(Counter::NotWatched);
        // From here on as of a class that was not asked for.
        wanted = false;
        if !leaving.is_remembered(wanted) {
            return;
        }
    }
    let level = level.unwrap_or(0);
    if !filter::wants(prev, pid) {
        if wanted {
            tally.count(Counter::Filtered);
        }
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if let Some(start) = known {
        // SAFETY: as above.
        unsafe {
            (*start).preempt(now, pid, cpu, wanted, leaving);
            (*start).level = level;
        }
        return;
    }
    let mut start = Start::IDLE;
    start.preempt(now, pid, cpu, wanted, leaving);
    start.level = level;
    if !starts::insert(prev, start) && wanted {
        let counter = if filter::wants_cpu(cpu) { Counter::StartMapFull } else { Counter::Filtered };
        tally.count(counter);
    }
}

/// The wait is over: its start is consumed on every path.
#[inline(always)]
fn switch_in<T: TaskFields>(ctx: &impl EbpfContext, prev: T, prev_pid: u32, next: T, next_pid: u32) {
    let Some(entry) = starts::find(next) else { return };
    // SAFETY: as in `switch_out`.
    let Some(start) = (unsafe { (*entry).switch_in() }) else { return };
    let Some(class) = Class::from_u8(start.class) else { return };
    let Some(tally) = Tally::of(class) else { return };
    // SAFETY: no arguments, no side effects.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !filter::wants_cpu(cpu) {
        tally.count(Counter::Filtered);
        return;
    }
    let Ended::Waited { latency_ns, delivery_ns } = start.end(now, FROM_WAKING.load() != 0) else {
        if tally.count(Counter::Discarded) == 1 {
            warn!(ctx, "a wait of pid {} has an impossible start: {} before {}", next_pid, start.at_ns, now);
        }
        return;
    };
    if latency_ns < THRESHOLD_NS.load() {
        tally.count(Counter::Filtered);
        tally.count(Counter::BelowThreshold);
        return;
    }
    if AGGREGATE.load() != 0 {
        histogram::add(class, latency_ns, now, cpu, next, next_pid);
        return;
    }
    sample::deliver(tally, sample::End { start, now, cpu, latency_ns, delivery_ns, next, next_pid, prev, prev_pid });
}
