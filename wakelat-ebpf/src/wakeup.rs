//! A task is woken: `sched_waking`, `sched_wakeup`, `sched_wakeup_new`.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
};
use aya_log_ebpf::warn;
use wakelat_common::{
    Class, Counter,
    start::{Start, Woken},
};

use crate::{
    filter,
    maps::{FROM_WAKING, TRIGGER_RULES, Tally},
    share, starts,
    task::TaskFields,
};

/// Remembers when, by whom and from which CPU. Fires in the waker's context, before the task is placed.
#[inline(always)]
pub fn waking<T: TaskFields>(task: T) {
    // SAFETY: no arguments, no side effects; so it is wherever these helpers are called.
    let (now, waker) = unsafe { (bpf_ktime_get_ns(), bpf_get_current_pid_tgid() as u32) };
    let (pid, prev_cpu) = (task.pid(), task.cpu());
    // Where the clock starts here, whoever is watched by the time of its wakeup needs it.
    if FROM_WAKING.load() == 0 && share::watched(pid).is_none() {
        return;
    }
    // To a trigger on this event it is where the clock starts, whatever the task does, and nothing else is.
    let starts = TRIGGER_RULES.load() != 0 && FROM_WAKING.load() != 0;
    if let Some(start) = starts::find(task) {
        // SAFETY: the entry is this task's, and the kernel's locks let one CPU at a time wake or switch it.
        let start = unsafe { &mut *start };
        if starts {
            *start = Start::IDLE;
        }
        start.waking(now, waker, prev_cpu);
        if starts {
            start.wakeup(now, pid, Class::Wakeup, true);
        }
        return;
    }
    // The first time: a task that the filter refuses takes no entry. One that has an entry was judged before.
    if filter::wants(task, pid) {
        let mut start = Start { pid, ..Start::IDLE };
        start.waking(now, waker, prev_cpu);
        if starts {
            start.wakeup(now, pid, Class::Wakeup, true);
        }
        // Where there is no room, the wakeup that follows counts it, if one does.
        if !starts::insert(task, start)
            && starts
            && let Some(tally) = Tally::of(Class::Wakeup)
        {
            tally.count(Counter::StartMapFull);
        }
    }
}

/// Starts the clock, unless nothing waits or the clock runs already.
#[inline(always)]
pub fn wakeup<T: TaskFields>(ctx: &impl EbpfContext, task: T, class: Class) {
    let Some(tally) = Tally::of(class) else { return };
    let pid = task.pid();
    tally.count(Counter::Seen);
    let Some(level) = share::watched(pid) else {
        tally.count(Counter::NotWatched);
        return;
    };
    if !filter::wants(task, pid) {
        tally.count(Counter::Filtered);
        return;
    }
    let trigger_rules = TRIGGER_RULES.load() != 0;
    // It runs: nothing waits, and a start would be consumed by an unrelated switch-in much later.
    if !trigger_rules && task.on_cpu() {
        settle(task, tally, Counter::WokenRunning);
        return;
    }
    // SAFETY: as in `waking`.
    let now = unsafe { bpf_ktime_get_ns() };
    if let Some(start) = starts::find(task) {
        // SAFETY: as in `waking`.
        let start = unsafe { &mut *start };
        if class == Class::New
            && let Some(tally) = start.leave().and_then(Tally::of)
        {
            tally.count(Counter::Stale);
        }
        if start.wakeup(now, pid, class, trigger_rules) == Woken::Waiting {
            settle(task, tally, Counter::WokenWaiting);
        } else {
            start.level = level;
        }
        return;
    }
    let mut start = Start { level, ..Start::IDLE };
    start.wakeup(now, pid, class, trigger_rules);
    if !starts::insert(task, start) && settle(task, tally, Counter::StartMapFull) == Some(1) {
        warn!(ctx, "there is no room for the starts of further tasks: their wakeups are lost, and counted");
    }
}

/// Counts a wakeup that starts no wait: there is no switch-in whose CPU the filter could judge, so it judges the one the
/// task is on.
#[inline(always)]
fn settle<T: TaskFields>(task: T, tally: Tally, counter: Counter) -> Option<u64> {
    if filter::wants_cpu(task.cpu()) {
        Some(tally.count(counter))
    } else {
        tally.count(Counter::Filtered);
        None
    }
}
