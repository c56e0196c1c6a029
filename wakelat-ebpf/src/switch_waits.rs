//! `sched_switch`: begins the wait of a preempted `prev` and ends the wait of `next`, which it sends as a
//! sample or counts in a histogram.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::{
    Class, Counter, cpu_words::CpuWords, pending_wait::PrevState, task_table::TrackedTask, timeline::feature,
};

use crate::{
    ended_wait::EndedWait,
    filter, histogram,
    kernel_structs::TaskFields,
    maps::{AGGREGATE, CpuCounters, FROM_WAKING, THRESHOLD_NS, TRIGGER_RULES, feature_enabled, wants},
    program_run_budget, task_sampling, task_table, throttle_steal_clocks, wait_record, window,
};

/// When and where a switch happens.
pub trait SwitchContext {
    /// ns of CLOCK_MONOTONIC, the same for both halves of the switch; `None` after the end of the window.
    fn now(&mut self) -> Option<u64>;

    /// The CPU that switches.
    fn cpu(&self) -> u32;

    /// The counters of that CPU; `None` if they cannot be found.
    fn counters(&self, class: Class) -> Option<CpuCounters>;
}

/// Reads time and CPU only when they are needed, and the time at most once: many switches need neither, and the clock is
/// most of what a program costs.
struct LazySwitchContext {
    /// The words of the CPU that switches.
    words: *mut CpuWords,
    /// 0 until it is read.
    now_ns: u64,
}

impl SwitchContext for LazySwitchContext {
    #[inline(always)]
    fn now(&mut self) -> Option<u64> {
        if self.now_ns == 0 {
            // SAFETY: no arguments, no side effects.
            self.now_ns = unsafe { bpf_ktime_get_ns() };
        }
        window::contains(self.now_ns).then_some(self.now_ns)
    }

    #[inline(always)]
    fn cpu(&self) -> u32 {
        // SAFETY: no arguments, no side effects.
        unsafe { bpf_get_smp_processor_id() }
    }

    #[inline(always)]
    fn counters(&self, class: Class) -> Option<CpuCounters> {
        Some(CpuCounters::among(self.words, class))
    }
}

/// Handles both halves of a switch on the CPU with these words, `prev` first.
#[inline(always)]
pub fn switch<T: TaskFields>(words: *mut CpuWords, preempt: bool, prev: T, next: T) {
    if !window::is_open() || !program_run_budget::allows_run() {
        return;
    }
    let mut at = LazySwitchContext { words, now_ns: 0 };
    let prev_pid = prev.pid();
    // Idle neither waits nor is preempted, and its number is one for all CPUs.
    if prev_pid != 0 {
        switch_out(prev, prev_pid, prev.prev_state(preempt), &mut at);
    }
    if next.pid() == 0 {
        return;
    }
    switch_in(next, &mut at, |ending| {
        if AGGREGATE.load() != 0 {
            histogram::add(ending, prev, next);
        } else {
            wait_record::emit(CpuCounters::among(words, ending.class), ending, prev, next);
        }
    });
}

/// Handles `prev`: it was on the CPU, so it cannot have been waiting; if it is still runnable, it waits
/// from now.
#[inline(always)]
pub fn switch_out<T: TaskFields>(prev: T, pid: u32, leaving: PrevState, at: &mut impl SwitchContext) {
    // A hist trigger ignores a task that leaves its CPU. Only dead tasks are handled here, to free their
    // entries.
    if TRIGGER_RULES.load() != 0 && leaving != PrevState::Dead {
        return;
    }
    let known = task_table::find(prev);
    if let Some(entry) = known {
        // SAFETY: the entry is this task's. The switch holds the lock of its run queue; so do the wakeup that
        // begins a wait and the one that finds the task on the queue. `sched_waking` holds only the task's
        // `pi_lock`: on another CPU it may run in parallel with this switch, and write what it knows
        // of the waker meanwhile: words of their own, each written at once, which no wait that begins here shows.
        let left = unsafe { (*entry).pending.switch_out() };
        if let Some(tally) = left.and_then(|class| at.counters(class)) {
            tally.count(Counter::MissedSwitch);
        }
        if leaving == PrevState::Dead {
            // The last switch: its address may be another task's soon.
            task_table::remove(prev);
            return;
        }
    }
    let mut wanted = wants(Class::Preempted);
    if !leaving.starts_wait(wanted) {
        return;
    }
    let Some(tally) = at.counters(Class::Preempted) else { return };
    if wanted {
        tally.count(Counter::Seen);
    }
    let shift = task_sampling::sampled(pid);
    if shift.is_none() && wanted {
        tally.count(Counter::NotSampled);
        // From here on the task is handled as if class `preempted` had not been requested.
        wanted = false;
        if !leaving.starts_wait(wanted) {
            return;
        }
    }
    let shift = shift.unwrap_or(0);
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
        entry.pending.sampling_shift = shift;
        if feature_enabled(feature::SWITCHES) {
            entry.context.begin(cpu, false, throttle_steal_clocks::at_start(prev));
        }
    };
    if let Some(entry) = known {
        // SAFETY: the entry is this task's, and the lock of its run queue is held (see above for
        // `sched_waking`).
        begin(unsafe { &mut *entry });
        return;
    }
    let mut entry = TrackedTask::IDLE;
    begin(&mut entry);
    if !task_table::insert(prev, entry) && wanted {
        let counter = if filter::wants_cpu(|| cpu) { Counter::TaskTableFull } else { Counter::Filtered };
        tally.count(counter);
    }
}

/// Handles `next`: ends its wait, which is consumed on every path unless the window ended first. Calls
/// `deliver` with the wait if it is to be reported, and counts it otherwise.
#[inline(always)]
pub fn switch_in<T: TaskFields, Delivered>(
    next: T,
    at: &mut impl SwitchContext,
    deliver: impl FnOnce(EndedWait) -> Delivered,
) -> Option<Delivered> {
    let entry = task_table::find(next)?;
    // SAFETY: the entry is this task's, and the lock of its run queue is held (see `switch_out` for
    // `sched_waking`).
    let TrackedTask { pending: start, context: course } = unsafe { &mut *entry };
    // A wait that ends after the window is left pending, and counts as still waiting.
    let now = if start.is_wanted() { at.now()? } else { 0 };
    start.switch_in(|start| {
        let class = Class::from_u8(start.class)?;
        if !filter::wants_cpu(|| at.cpu()) {
            at.counters(class)?.count(Counter::Filtered);
            return None;
        }
        let Some(latency_ns) = start.latency_ns(now, FROM_WAKING.load() != 0) else {
            at.counters(class)?.count(Counter::Invalid);
            return None;
        };
        if latency_ns < THRESHOLD_NS.load() {
            let tally = at.counters(class)?;
            tally.count(Counter::Filtered);
            tally.count(Counter::BelowThreshold);
            return None;
        }
        Some(deliver(EndedWait { class, pending: start, context: course, now, latency_ns }))
    })
}
