//! A task is woken: `sched_waking`, `sched_wakeup`, `sched_wakeup_new`.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use aya_log_ebpf::info;
use wakelat_common::{
    Class, Counter,
    course::{TrackedTask, WaitContext},
    start::{PendingWait, WakeupOutcome},
    timeline::part,
};

use crate::{
    budget, filter,
    maps::{CpuCounters, FROM_WAKING, TRIGGER_RULES, wants},
    share, stack, starts,
    task::TaskFields,
    timeline::{self, feature_enabled},
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
    if FROM_WAKING.load() == 0 && share::sampled(pid).is_none() {
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
        let TrackedTask { pending: start, context: course } = unsafe { &mut *entry };
        if starts {
            *start = PendingWait { pid, ..PendingWait::IDLE };
        }
        start.waking(now, waker, prev_cpu);
        // Whoever wakes a task that waits already has nothing to do with its wait.
        if start.at_ns == 0 {
            stack::of_waker(ctx, pid, now);
        }
        if feature_enabled(part::SWITCHES) {
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
        let mut entry = TrackedTask { pending: PendingWait { pid, ..PendingWait::IDLE }, ..TrackedTask::IDLE };
        entry.pending.waking(now, waker, prev_cpu);
        stack::of_waker(ctx, pid, now);
        if feature_enabled(part::SWITCHES) {
            // SAFETY: as above.
            entry.context.waker_cpu = unsafe { bpf_get_smp_processor_id() };
        }
        if starts {
            entry.pending.wakeup(now, pid, Class::Wakeup, true);
        }
        // Where there is no room, the wakeup that follows counts it, if one does.
        if !starts::insert(task, entry)
            && starts
            && let Some(tally) = CpuCounters::of(Class::Wakeup)
        {
            tally.count(Counter::TaskTableFull);
        }
    }
}

/// Starts the clock, unless nothing waits or the clock runs already.
#[inline(always)]
pub fn wakeup<T: TaskFields>(ctx: &impl StackIdContext, task: T, class: Class) {
    if !window::is_open() || !budget::allows_run() {
        return;
    }
    let Some(tally) = CpuCounters::of(class) else { return };
    let pid = task.pid();
    if feature_enabled(part::WAKEUPS) {
        if filter::wants(task, pid) {
            timeline::emit_wakeup(task, pid, class);
        }
        // Also where nobody asked for waits that begin like this.
        if !wants(class) {
            return;
        }
    }
    tally.count(Counter::Seen);
    let Some(level) = share::sampled(pid) else {
        tally.count(Counter::NotSampled);
        return;
    };
    if !filter::wants(task, pid) {
        tally.count(Counter::Filtered);
        return;
    }
    let trigger_rules = TRIGGER_RULES.load() != 0;
    // It runs: nothing waits, and a start would be consumed by an unrelated switch-in much later.
    if !trigger_rules && task.on_cpu() {
        count_without_wait(task, tally, Counter::AlreadyRunning);
        clear_waker(task, pid);
        return;
    }
    // SAFETY: as in `waking`.
    let now = unsafe { bpf_ktime_get_ns() };
    if !window::contains(now) {
        tally.uncount(Counter::Seen);
        return;
    }
    if class == Class::New {
        // No `sched_waking` came before.
        stack::of_waker(ctx, pid, now);
    }
    if let Some(entry) = starts::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held.
        let TrackedTask { pending: start, context: course } = unsafe { &mut *entry };
        if class == Class::New
            && let Some(tally) = start.switch_out().and_then(CpuCounters::of)
        {
            tally.count(Counter::MissedSwitch);
        }
        if start.wakeup(now, pid, class, trigger_rules) == WakeupOutcome::AlreadyQueued {
            count_without_wait(task, tally, Counter::AlreadyQueued);
        } else {
            start.sampling_shift = level;
            begin_context(task, start, course);
        }
        return;
    }
    let mut entry = TrackedTask::IDLE;
    entry.pending.sampling_shift = level;
    entry.pending.wakeup(now, pid, class, trigger_rules);
    begin_context(task, &entry.pending, &mut entry.context);
    if !starts::insert(task, entry) && count_without_wait(task, tally, Counter::TaskTableFull) == Some(1) {
        info!(ctx, "the table of tasks is full: the wakeup of pid {} is the first on this CPU that finds no room", pid);
    }
}

/// The task runs, so that no wait begins with what `sched_waking` left.
#[inline(always)]
fn clear_waker<T: TaskFields>(task: T, pid: u32) {
    let by_itself = bpf_get_current_pid_tgid() as u32 == pid;
    // A task that wakes itself holds no lock, and its `sched_waking` left nothing.
    if !by_itself && let Some(entry) = starts::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held.
        unsafe { (*entry).pending.already_running() };
    }
}

/// The course of a wait begins, where it is told.
#[inline(always)]
fn begin_context<T: TaskFields>(task: T, start: &PendingWait, course: &mut WaitContext) {
    if !feature_enabled(part::SWITCHES) {
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
fn count_without_wait<T: TaskFields>(task: T, tally: CpuCounters, counter: Counter) -> Option<u64> {
    if filter::wants_cpu(|| task.cpu()) {
        Some(tally.count(counter))
    } else {
        tally.count(Counter::Filtered);
        None
    }
}
