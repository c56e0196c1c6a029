//! A task is woken: `sched_waking`, `sched_wakeup`, `sched_wakeup_new`.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use aya_log_ebpf::info;
use wakelat_common::{
    Class, Counter,
    course::{Course, Entry},
    start::{Start, Woken},
    timeline::part,
};

use crate::{
    budget, filter,
    maps::{FROM_WAKING, TRIGGER_RULES, Tally, wants},
    share, stack, starts,
    task::TaskFields,
    timeline::{self, tells},
    window,
};

/// Remembers when, by whom and from which CPU. Fires in the waker's context, before the task is placed.
#[inline(always)]
pub fn waking<T: TaskFields>(ctx: &impl StackIdContext, task: T) {
    if !window::is_open() || !budget::allows_run() {
        return;
    }
    // SAFETY: no arguments, no side effects; so it is wherever these helpers are called.
    let (now, waker) = unsafe { (bpf_ktime_get_ns(), bpf_get_current_pid_tgid() as u32) };
    if !window::contains(now) {
        return;
    }
    let (pid, prev_cpu) = (task.pid(), task.cpu());
    // Where the clock starts here, whoever is watched by the time of its wakeup needs it.
    if FROM_WAKING.load() == 0 && share::watched(pid).is_none() {
        return;
    }
    // To a trigger on this event it is where the clock starts, whatever the task does, and nothing else is.
    let starts = TRIGGER_RULES.load() != 0 && FROM_WAKING.load() != 0;
    // A task wakes itself, or an interrupt wakes the task that it interrupted: it has the CPU, so no wait can begin. The kernel
    // holds no lock here and has interrupts on (`try_to_wake_up()`, kernel/sched/core.c), so its entry may be in use.
    if waker == pid && !starts {
        return;
    }
    if let Some(entry) = starts::find(task) {
        // SAFETY: the entry is this task's, and the waker holds its `pi_lock`, so that no other CPU wakes it. One may switch it
        // meanwhile: see `switch_out`.
        let Entry { start, course } = unsafe { &mut *entry };
        if starts {
            *start = Start { pid, ..Start::IDLE };
        }
        start.waking(now, waker, prev_cpu);
        // Whoever wakes a task that waits already has nothing to do with its wait.
        if start.at_ns == 0 {
            stack::of_waker(ctx, pid, now);
        }
        if tells(part::TURNS) {
            // SAFETY: as above.
            course.waker_cpu = unsafe { bpf_get_smp_processor_id() };
        }
        if starts {
            start.wakeup(now, pid, Class::Wakeup, true);
        }
        return;
    }
    // The first time: a task that the filter refuses takes no entry. One that has an entry was judged before.
    if filter::wants(task, pid) {
        let mut entry = Entry { start: Start { pid, ..Start::IDLE }, ..Entry::IDLE };
        entry.start.waking(now, waker, prev_cpu);
        stack::of_waker(ctx, pid, now);
        if tells(part::TURNS) {
            // SAFETY: as above.
            entry.course.waker_cpu = unsafe { bpf_get_smp_processor_id() };
        }
        if starts {
            entry.start.wakeup(now, pid, Class::Wakeup, true);
        }
        // Where there is no room, the wakeup that follows counts it, if one does.
        if !starts::insert(task, entry)
            && starts
            && let Some(tally) = Tally::of(Class::Wakeup)
        {
            tally.count(Counter::StartMapFull);
        }
    }
}

/// Starts the clock, unless nothing waits or the clock runs already.
#[inline(always)]
pub fn wakeup<T: TaskFields>(ctx: &impl StackIdContext, task: T, class: Class) {
    if !window::is_open() || !budget::allows_run() {
        return;
    }
    let Some(tally) = Tally::of(class) else { return };
    let pid = task.pid();
    if tells(part::WAKEUPS) {
        if filter::wants(task, pid) {
            timeline::woken(task, pid, class);
        }
        // Also where nobody asked for waits that begin like this.
        if !wants(class) {
            return;
        }
    }
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
        forget_waker(task, pid);
        return;
    }
    // SAFETY: as in `waking`.
    let now = unsafe { bpf_ktime_get_ns() };
    if !window::contains(now) {
        tally.take_back(Counter::Seen);
        return;
    }
    if class == Class::New {
        // No `sched_waking` came before.
        stack::of_waker(ctx, pid, now);
    }
    if let Some(entry) = starts::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held.
        let Entry { start, course } = unsafe { &mut *entry };
        if class == Class::New
            && let Some(tally) = start.leave().and_then(Tally::of)
        {
            tally.count(Counter::Stale);
        }
        if start.wakeup(now, pid, class, trigger_rules) == Woken::Waiting {
            settle(task, tally, Counter::WokenWaiting);
        } else {
            start.level = level;
            set_out(task, start, course);
        }
        return;
    }
    let mut entry = Entry::IDLE;
    entry.start.level = level;
    entry.start.wakeup(now, pid, class, trigger_rules);
    set_out(task, &entry.start, &mut entry.course);
    if !starts::insert(task, entry) && settle(task, tally, Counter::StartMapFull) == Some(1) {
        info!(ctx, "the table of tasks is full: the wakeup of pid {} is the first on this CPU that finds no room", pid);
    }
}

/// The task runs, so that no wait begins with what `sched_waking` left.
#[inline(always)]
fn forget_waker<T: TaskFields>(task: T, pid: u32) {
    let by_itself = bpf_get_current_pid_tgid() as u32 == pid;
    // A task that wakes itself holds no lock, and its `sched_waking` left nothing.
    if !by_itself && let Some(entry) = starts::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held.
        unsafe { (*entry).start.woken_running() };
    }
}

/// The course of a wait begins, where it is told.
#[inline(always)]
fn set_out<T: TaskFields>(task: T, start: &Start, course: &mut Course) {
    if !tells(part::TURNS) {
        return;
    }
    // SAFETY: as in `waking`.
    let here = unsafe { bpf_get_smp_processor_id() };
    let remote = start.waking_at_ns != 0 && course.waker_cpu != here;
    course.begin(task.cpu(), remote, timeline::clocks(task));
}

/// Counts a wakeup that starts no wait: there is no switch-in whose CPU the filter could judge, so it judges the one the
/// task is on. Returns how many `counter` has counted on this CPU, if this wakeup is one of them.
#[inline(always)]
fn settle<T: TaskFields>(task: T, tally: Tally, counter: Counter) -> Option<u64> {
    if filter::wants_cpu(|| task.cpu()) {
        Some(tally.count(counter))
    } else {
        tally.count(Counter::Filtered);
        None
    }
}
