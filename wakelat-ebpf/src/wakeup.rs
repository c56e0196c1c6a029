//! `sched_waking`, `sched_wakeup` and `sched_wakeup_new`: begin the pending wait of the woken task and
//! count the wakeup.
//!
//! `sched_waking` stores the waker, its CPU and the task's previous CPU in the task table.
//! `sched_wakeup` and `sched_wakeup_new` start the clock there, and optionally emit a wakeup record and
//! the waker's stack.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use aya_log_ebpf::info;
use wakelat_common::{
    Class, Counter,
    cpu_words::CpuWords,
    pending_wait::{PendingWait, WakeupOutcome},
    task_table::TrackedTask,
    timeline::{WakeupRecord, feature, kind},
    wait_context::WaitContext,
};

use crate::{
    cpu_state, filter,
    kernel_structs::TaskFields,
    maps::{CpuCounters, FROM_WAKING, TRIGGER_RULES, feature_enabled, wants},
    program_run_budget, ring_buffers, stack, task_sampling, task_table, throttle_steal_clocks, window,
};

/// `sched_waking`: stores when, by which task and from which CPU the task is woken. Fires in the waker's
/// context, before the kernel has selected a CPU for the task.
#[inline(always)]
pub fn waking<T: TaskFields>(ctx: &impl StackIdContext, task: T) {
    if !window::is_open() || !program_run_budget::allows_run() {
        return;
    }
    // SAFETY: no arguments, no side effects; so it is wherever these helpers are called.
    let (now, waker) = unsafe { (bpf_ktime_get_ns(), bpf_get_current_pid_tgid() as u32) };
    if !window::contains(now) {
        return;
    }
    let (pid, prev_cpu) = (task.pid(), task.cpu());
    // If the clock starts here, a task that is sampled only by the time of its `sched_wakeup` needs it too.
    if FROM_WAKING.load() == 0 && task_sampling::sampled(pid).is_none() {
        return;
    }
    // A hist trigger on this event starts its clock here, whatever the task does, and at no other event.
    let starts_here = TRIGGER_RULES.load() != 0 && FROM_WAKING.load() != 0;
    // A task that wakes itself, or that is woken by the interrupt that interrupted it, is on a CPU: no
    // wait can begin. The kernel holds no lock here and has interrupts on (`try_to_wake_up()`,
    // kernel/sched/core.c), so the task's entry may be in use.
    if waker == pid && !starts_here {
        return;
    }
    if let Some(entry) = task_table::find(task) {
        // SAFETY: the entry is this task's, and the waker holds its `pi_lock` (unless the task wakes itself
        // under the rules of a hist trigger), so no other CPU wakes it. One may switch it: see `switch_out`.
        let TrackedTask { pending, context } = unsafe { &mut *entry };
        if starts_here {
            *pending = PendingWait { pid, ..PendingWait::IDLE };
        }
        pending.waking(now, waker, prev_cpu);
        if pending.awaits_wakeup() {
            stack::of_waker(ctx, pid, now);
        }
        if feature_enabled(feature::SWITCHES) {
            // SAFETY: no arguments, no side effects.
            context.waker_cpu = unsafe { bpf_get_smp_processor_id() };
        }
        if starts_here {
            pending.wakeup(now, pid, Class::Wakeup, true);
        }
        return;
    }
    // No entry yet: a task that the filter rejects gets none. A task that has an entry passed the filter
    // earlier.
    if filter::wants(task, pid) {
        let mut entry = TrackedTask { pending: PendingWait { pid, ..PendingWait::IDLE }, ..TrackedTask::IDLE };
        entry.pending.waking(now, waker, prev_cpu);
        stack::of_waker(ctx, pid, now);
        if feature_enabled(feature::SWITCHES) {
            // SAFETY: no arguments, no side effects.
            entry.context.waker_cpu = unsafe { bpf_get_smp_processor_id() };
        }
        if starts_here {
            entry.pending.wakeup(now, pid, Class::Wakeup, true);
        }
        // If there is no room, the `sched_wakeup` that follows counts the loss, if there is one.
        if !task_table::insert(task, entry)
            && starts_here
            && let Some(tally) = CpuCounters::of(Class::Wakeup)
        {
            tally.count(Counter::TaskTableFull);
        }
    }
}

/// `sched_wakeup` and `sched_wakeup_new`: start the clock unless the task is on a CPU or already waits.
///
/// Each wakeup in the window counts as `seen` and in exactly one other counter, in the order of the checks:
///
/// | the task | counter |
/// |---|---|
/// | is not in the sample | `not_sampled` |
/// | is rejected by the filter | `filtered` |
/// | is on a CPU | `already_running` |
/// | already waits | `already_queued` |
/// | finds no room in the task table | `task_table_full` |
/// | waits from now | decided when the wait ends |
///
/// If the filter rejects the CPU of a wakeup that starts no wait, the wakeup counts as `filtered`. `words`: those of this
/// CPU.
#[inline(always)]
pub fn wakeup<T: TaskFields>(ctx: &impl StackIdContext, words: *mut CpuWords, task: T, class: Class) {
    if !window::is_open() || !program_run_budget::allows_run() {
        return;
    }
    let tally = CpuCounters::among(words, class);
    let pid = task.pid();
    if feature_enabled(feature::WAKEUPS) {
        if filter::wants(task, pid) {
            emit_record(task, pid, class);
        }
        // Wakeup records are also wanted if waits of this class were not requested.
        if !wants(class) {
            return;
        }
    }
    tally.count(Counter::Seen);
    let Some(level) = task_sampling::sampled(pid) else {
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
    // SAFETY: no arguments, no side effects.
    let now = unsafe { bpf_ktime_get_ns() };
    if !window::contains(now) {
        tally.uncount(Counter::Seen);
        return;
    }
    if class == Class::New {
        // A new task has no `sched_waking` at which its waker's stack could have been taken.
        stack::of_waker(ctx, pid, now);
    }
    if let Some(entry) = task_table::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held (unless the task wakes
        // itself under the rules of a hist trigger).
        let TrackedTask { pending: start, context } = unsafe { &mut *entry };
        if !trigger_rules && let Some(tally) = start.drop_missed(class).and_then(CpuCounters::of) {
            tally.count(Counter::MissedSwitch);
        }
        if start.wakeup(now, pid, class, trigger_rules) == WakeupOutcome::AlreadyQueued {
            count_without_wait(task, tally, Counter::AlreadyQueued);
        } else {
            start.sampling_shift = level;
            begin_context(task, start, context);
        }
        return;
    }
    let mut entry = TrackedTask::IDLE;
    entry.pending.sampling_shift = level;
    entry.pending.wakeup(now, pid, class, trigger_rules);
    begin_context(task, &entry.pending, &mut entry.context);
    if !task_table::insert(task, entry) && count_without_wait(task, tally, Counter::TaskTableFull) == Some(1) {
        info!(ctx, "the task table is full: the wakeup of pid {} is the first on this CPU that finds no room", pid);
    }
}

/// Emits a [`WakeupRecord`] for `task`, whether or not the wakeup begins a wait.
#[inline(always)]
fn emit_record<T: TaskFields>(task: T, pid: u32, class: Class) {
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu, waker_pid) =
        unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid() as u32) };
    if !window::contains(at_ns) {
        return;
    }
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
    slot.write(WakeupRecord {
        kind: kind::WAKEUP,
        class: class as u8,
        running: task.on_cpu().into(),
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        target_cpu: task.cpu(),
        waker_pid,
        comm: task.comm(),
    });
    ring_buffers::submit(slot, cpu, false);
}

/// Discards what `sched_waking` stored for a task that is running: no wait begins with it.
#[inline(always)]
fn clear_waker<T: TaskFields>(task: T, pid: u32) {
    let by_itself = bpf_get_current_pid_tgid() as u32 == pid;
    // A task that wakes itself holds no lock, and its `sched_waking` stored nothing.
    if !by_itself && let Some(entry) = task_table::find(task) {
        // SAFETY: the entry is this task's, and the lock of its run queue is held.
        unsafe { (*entry).pending.already_running() };
    }
}

/// Begins the context of a wait, if switch records are enabled.
#[inline(always)]
fn begin_context<T: TaskFields>(task: T, pending: &PendingWait, context: &mut WaitContext) {
    if !feature_enabled(feature::SWITCHES) {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let here = unsafe { bpf_get_smp_processor_id() };
    let remote = pending.waking_at_ns != 0 && context.waker_cpu != here;
    context.begin(task.cpu(), remote, throttle_steal_clocks::at_start(task));
}

/// Counts a wakeup that starts no wait. It has no switch-in whose CPU the filter could test, so the
/// filter tests the CPU that the task is on. Returns the new value of `counter` on this CPU, or `None`
/// if the wakeup counts as `filtered`.
#[inline(always)]
fn count_without_wait<T: TaskFields>(task: T, tally: CpuCounters, counter: Counter) -> Option<u64> {
    if filter::wants_cpu(|| task.cpu()) {
        Some(tally.count_up(counter))
    } else {
        tally.count(Counter::Filtered);
        None
    }
}
