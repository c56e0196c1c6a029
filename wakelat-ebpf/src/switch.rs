//! A CPU goes from one task to the next: `sched_switch`.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::{
    Class, Counter,
    course::{TrackedTask, WaitContext},
    start::{PendingWait, PrevState},
    timeline::part,
};

use crate::{
    budget, filter, histogram,
    maps::{AGGREGATE, CpuCounters, FROM_WAKING, THRESHOLD_NS, TRIGGER_RULES, wants},
    sample, share, starts,
    task::TaskFields,
    timeline::{self, feature_enabled},
    window,
};

/// A wait that has ended, and is to be delivered.
#[derive(Clone, Copy)]
pub struct EndedWait<'entry> {
    pub class: Class,
    pub pending: &'entry PendingWait,
    pub context: &'entry WaitContext,
    pub now: u64,
    pub latency_ns: u64,
}

/// When and where a switch happens.
pub trait SwitchContext: Copy {
    /// ns of CLOCK_MONOTONIC; none where that is past the end of the window.
    fn now(self) -> Option<u64>;

    /// The CPU.
    fn cpu(self) -> u32;
}

/// Asked for where it is needed: many switches need neither, and each is a call.
#[derive(Clone, Copy)]
pub struct LazySwitchContext;

impl SwitchContext for LazySwitchContext {
    #[inline(always)]
    fn now(self) -> Option<u64> {
        // SAFETY: no arguments, no side effects.
        let now = unsafe { bpf_ktime_get_ns() };
        window::contains(now).then_some(now)
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        // SAFETY: as above.
        unsafe { bpf_get_smp_processor_id() }
    }
}

/// Both halves; the one that leaves first.
#[inline(always)]
pub fn switch<T: TaskFields>(preempt: bool, prev: T, next: T) {
    if !window::is_open() || !budget::allows_run() {
        return;
    }
    let prev_pid = prev.pid();
    // Idle neither waits nor is preempted, and its number is one for all CPUs.
    if prev_pid != 0 {
        switch_out(prev, prev_pid, prev.prev_state(preempt), LazySwitchContext);
    }
    if next.pid() == 0 {
        return;
    }
    switch_in(next, LazySwitchContext, |ending| {
        if AGGREGATE.load() != 0 {
            histogram::add(ending, prev, next);
        } else if let Some(tally) = CpuCounters::of(ending.class) {
            sample::emit(tally, ending, prev, next);
        }
    });
}

/// The task had the CPU, so it cannot have been waiting; if it could go on, it waits from now.
#[inline(always)]
pub fn switch_out<T: TaskFields>(prev: T, pid: u32, leaving: PrevState, at: impl SwitchContext) {
    // A trigger knows no task that leaves, except that here the dead make room.
    if TRIGGER_RULES.load() != 0 && leaving != PrevState::Dead {
        return;
    }
    let known = starts::find(prev);
    if let Some(entry) = known {
        // SAFETY: the entry is this task's. A switch holds the lock of its run queue; so do the wakeup that begins a wait and
        // the one that finds the task on the queue. `sched_waking` holds only the task's `pi_lock`, and may write what it knows
        // of the waker meanwhile: words of their own, each written at once, which no wait that begins here shows.
        let left = unsafe { (*entry).pending.switch_out() };
        if let Some(tally) = left.and_then(CpuCounters::of) {
            tally.count(Counter::MissedSwitch);
        }
        if leaving == PrevState::Dead {
            // The last switch: its address may be another task's soon.
            starts::remove(prev);
            return;
        }
    }
    let mut wanted = wants(Class::Preempted);
    if !leaving.starts_wait(wanted) {
        return;
    }
    let Some(tally) = CpuCounters::of(Class::Preempted) else { return };
    if wanted {
        tally.count(Counter::Seen);
    }
    let level = share::sampled(pid);
    if level.is_none() && wanted {
        tally.count(Counter::NotSampled);
        // From here on as of a class that was not asked for.
        wanted = false;
        if !leaving.starts_wait(wanted) {
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
    let Some(now) = at.now() else {
        if wanted {
            tally.uncount(Counter::Seen);
        }
        return;
    };
    let cpu = at.cpu();
    let begin = |entry: &mut TrackedTask| {
        entry.pending.preempt(now, pid, cpu, wanted, leaving);
        entry.pending.sampling_shift = level;
        if feature_enabled(part::SWITCHES) {
            entry.context.begin(cpu, false, timeline::clocks(prev));
        }
    };
    if let Some(entry) = known {
        // SAFETY: as above.
        begin(unsafe { &mut *entry });
        return;
    }
    let mut entry = TrackedTask::IDLE;
    begin(&mut entry);
    if !starts::insert(prev, entry) && wanted {
        let counter = if filter::wants_cpu(|| cpu) { Counter::TaskTableFull } else { Counter::Filtered };
        tally.count(counter);
    }
}

/// The wait is over: its start is consumed on every path, unless the window ended before the wait did. Before that, `deliver` is
/// given it where it is to be delivered; otherwise it is counted.
#[inline(always)]
pub fn switch_in<T: TaskFields, Delivered>(
    next: T,
    at: impl SwitchContext,
    deliver: impl FnOnce(EndedWait) -> Delivered,
) -> Option<Delivered> {
    let entry = starts::find(next)?;
    // SAFETY: as in `switch_out`.
    let TrackedTask { pending: start, context: course } = unsafe { &mut *entry };
    // A wait that ends after the window stays, and is found at the end as one that goes on.
    let now = if start.is_wanted() { at.now()? } else { 0 };
    start.switch_in(|start| {
        let class = Class::from_u8(start.class)?;
        if !filter::wants_cpu(|| at.cpu()) {
            CpuCounters::of(class)?.count(Counter::Filtered);
            return None;
        }
        let Some(latency_ns) = start.latency_ns(now, FROM_WAKING.load() != 0) else {
            CpuCounters::of(class)?.count(Counter::Invalid);
            return None;
        };
        if latency_ns < THRESHOLD_NS.load() {
            let tally = CpuCounters::of(class)?;
            tally.count(Counter::Filtered);
            tally.count(Counter::BelowThreshold);
            return None;
        }
        Some(deliver(EndedWait { class, pending: start, context: course, now, latency_ns }))
    })
}
