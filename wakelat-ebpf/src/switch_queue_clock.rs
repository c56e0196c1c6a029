//! `sched_switch` with the run queue's own clock: one program measures all classes of waits, and no program
//! on a wakeup is needed. The rules, and how it works: [`wakelat_common::queue_clock`].

use core::arch::asm;

use aya_ebpf::{
    Global,
    bindings::BPF_F_MMAPABLE,
    btf_maps::Array,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
};
use wakelat_common::{
    Class,
    cpu_words::CpuWords,
    pending_wait::PrevState,
    queue_clock::{MeasuringPeriod, QueueSlot, QueueState, QueueWait, SchedInfo, SwitchCounter, TaskTag, UnseenWaits},
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN, KernelCounts},
};

use crate::{
    filter, histogram,
    kernel_structs::{QueuedTask, RunQueueFields as _, TaskFields},
    maps::wants,
    program_run_budget,
    wait_record::{self, WaitPart},
    wait_settings::WaitSettings,
    window,
};

/// Key: the low bits of a TID. Value: what is kept of the thread, also over pauses. The loader sets the number of
/// slots, a power of two.
#[btf_map]
static QUEUE_SLOTS: Array<QueueSlot, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The bits of a TID that select its slot: the number of slots, less one.
#[unsafe(no_mangle)]
static QUEUE_SLOT_MASK: Global<u32> = Global::new(0);

/// What a program does at a switch besides measuring the wait of `next`.
pub trait SwitchHooks<T: QueuedTask> {
    /// Whether [`Self::end`] sends the wait, in place of a sample or a histogram.
    const SENDS_WAITS: bool = false;

    /// Called first. `unseen`: there may have been switches on this CPU since the last one, which were not seen. `period`:
    /// the number of the measuring period.
    fn begin(&mut self, unseen: bool, period: u8);

    /// `prev`, which is not idle, leaves its CPU.
    fn switch_out(&mut self, prev: T, pid: u32, leaving: PrevState);

    /// The wait of `next` is measured. Called only with [`Self::SENDS_WAITS`].
    #[inline(always)]
    fn measured(&mut self, _: Class, _: u64) {}

    /// The wait of `next` is measured, and aggregated in `half`. User space may swap the halves at any time, so what else
    /// is kept of this wait belongs in the same one.
    #[inline(always)]
    fn aggregated(&mut self, _half: u32, _: Class, _: u64) {}

    /// Called last, in every case. With [`Self::SENDS_WAITS`], returns whether the wait was sent, if there is one.
    fn end(&mut self, next: T, pid: u32) -> Option<bool>;
}

/// Nothing besides.
struct NoHooks;

impl<T: QueuedTask> SwitchHooks<T> for NoHooks {
    #[inline(always)]
    fn begin(&mut self, _: bool, _: u8) {}

    #[inline(always)]
    fn switch_out(&mut self, _: T, _: u32, _: PrevState) {}

    #[inline(always)]
    fn end(&mut self, _: T, _: u32) -> Option<bool> {
        None
    }
}

/// Handles both halves of a switch on the CPU with these words, `prev` first.
#[inline(always)]
pub fn switch<S: WaitSettings, T: QueuedTask>(words: *mut CpuWords, preempt: bool, prev: T, next: T) {
    switch_with::<S, T, _>(words, preempt, prev, next, |_, _| Some(NoHooks));
}

/// Handles both halves of a switch on the CPU with these words, `prev` first, with the hooks that `hooks` makes from the queue and its clock in
/// ns; if there are none, the switch is not seen.
#[inline(always)]
pub fn switch_with<S: WaitSettings, T: QueuedTask, H: SwitchHooks<T>>(
    words: *mut CpuWords,
    preempt: bool,
    prev: T,
    next: T,
    hooks: impl FnOnce(T::Queue, u64) -> Option<H>,
) {
    if !window::is_open() || !program_run_budget::allows_run_by::<S>() {
        return;
    }
    // SAFETY: this CPU's own entry; `sched_switch` runs with interrupts off, so no other run of this program
    // comes between.
    let state = unsafe { &mut (*words).queue };
    let queue = next.run_queue();
    let clock_ns = queue.clock_ns();
    if !is_in_window(state, clock_ns) {
        return;
    }
    let Some(mut hooks) = hooks(queue, clock_ns) else { return };
    state.started += 1;
    let follows = state.count_switch(queue.nr_switches());
    let period = period::<S>(state, clock_ns);
    hooks.begin(!follows, period.number);
    let prev_pid = prev.pid();
    if prev_pid != 0 {
        let leaving = prev.prev_state(preempt);
        switch_out::<S, T>(state, prev, prev_pid, leaving, period.number);
        hooks.switch_out(prev, prev_pid, leaving);
    }
    let pid = next.pid();
    if pid == 0 {
        state.add(SwitchCounter::ToIdle, 1);
    } else {
        state.add(SwitchCounter::Seen, 1);
        switch_in::<S, T, H>(state, prev, next, pid, SwitchIn { clock_ns, period }, &mut hooks);
    }
    if let Some(is_sent) = hooks.end(next, pid) {
        state.add(if is_sent { SwitchCounter::Measured } else { SwitchCounter::RingBufferFull }, 1);
    }
    state.finished += 1;
}

/// Whether an event at `clock_ns` of this CPU's queue is before the end of the window, which is an instant of
/// CLOCK_MONOTONIC.
///
/// Reading that clock takes longer than the rest of the program, and the end is mostly far away: after each
/// reading, it is not read again until half of the remaining time has passed by the queue's clock. Both
/// clocks count ns, and neither is ever twice as fast as the other.
#[inline(always)]
fn is_in_window(state: &mut QueueState, clock_ns: u64) -> bool {
    let end_at_ns = window::end_at_ns();
    if clock_ns < state.check_at_clock_ns && state.end_at_ns == end_at_ns {
        return true;
    }
    // SAFETY: no arguments, no side effects.
    let now = unsafe { bpf_ktime_get_ns() };
    if !window::contains(now) {
        return false;
    }
    state.end_at_ns = end_at_ns;
    state.check_at_clock_ns = clock_ns.wrapping_add(end_at_ns.wrapping_sub(now) / 2);
    true
}

/// The current period of measuring, at a switch at `clock_ns` of this CPU's queue.
#[inline(always)]
fn period<S: WaitSettings>(state: &mut QueueState, clock_ns: u64) -> MeasuringPeriod {
    if !S::is_sampling() {
        return MeasuringPeriod { number: 0, age_ns: 0 };
    }
    let (number, began_at_ns) = window::period();
    // SAFETY: no arguments, no side effects.
    state.period(number, began_at_ns, clock_ns, || unsafe { bpf_ktime_get_ns() })
}

/// Notes what `prev` does, and counts the waits that it had unseen.
#[inline(always)]
fn switch_out<S: WaitSettings, T: QueuedTask>(
    state: &mut QueueState,
    prev: T,
    pid: u32,
    leaving: PrevState,
    period: u8,
) {
    let Some(slot) = QUEUE_SLOTS.get_ptr_mut(slot_index(pid)) else { return };
    let (kept, unseen) = load(slot).switch_out(TaskTag::of(prev.stack()), prev.sched_info(), leaving, period);
    store(slot, kept);
    if unseen.count != 0 {
        count_unseen::<S, T>(state, prev, pid, unseen);
    }
}

/// When a task is switched in.
#[derive(Clone, Copy)]
struct SwitchIn {
    /// The queue's clock: ns.
    clock_ns: u64,
    period: MeasuringPeriod,
}

/// Measures the wait of `next`.
#[inline(always)]
fn switch_in<S: WaitSettings, T: QueuedTask, H: SwitchHooks<T>>(
    state: &mut QueueState,
    prev: T,
    next: T,
    pid: u32,
    SwitchIn { clock_ns, period }: SwitchIn,
    hooks: &mut H,
) {
    let Some(slot) = QUEUE_SLOTS.get_ptr_mut(slot_index(pid)) else { return };
    let queued_at_ns = next.last_queued_ns();
    let queued_ns = clock_ns.wrapping_sub(queued_at_ns);
    let timed_ns = (queued_at_ns != 0).then_some(queued_ns);
    let (before, tag, now) = (load(slot), TaskTag::of(next.stack()), next.sched_info());
    store(slot, QueueSlot::after_switch_in(tag, now, timed_ns, period.number));
    if !filter::wants_by::<S, T>(next, pid) {
        return state.add(SwitchCounter::Filtered, 1);
    }
    let usual = before.usual_wait(tag, now, timed_ns, period);
    let Some((class, latency_ns)) =
        usual.or_else(|| unusual_wait::<S>(state, before, EndingWait { tag, now, queued_ns, timed_ns, period }))
    else {
        return;
    };
    // SAFETY: no arguments, no side effects.
    if !filter::wants_cpu_by::<S>(|| unsafe { bpf_get_smp_processor_id() }) {
        return state.add(SwitchCounter::Filtered, 1);
    }
    deliver::<S, T, H>(state, prev, next, EndedWait { class, latency_ns }, hooks);
}

/// What the kernel has of a wait that ends.
#[derive(Clone, Copy)]
struct EndingWait {
    tag: TaskTag,
    now: SchedInfo,
    /// By the queue's clock: ns; meaningless if the kernel has not timed the wait.
    queued_ns: u64,
    timed_ns: Option<u64>,
    period: MeasuringPeriod,
}

/// A wait that is not the usual one, of a task that the filter accepts: counts what is not known of it, and returns class
/// and length (ns) if they are.
#[inline(always)]
fn unusual_wait<S: WaitSettings>(
    state: &mut QueueState,
    before: QueueSlot,
    ending: EndingWait,
) -> Option<(Class, u64)> {
    let EndingWait { tag, now, queued_ns, timed_ns, period } = ending;
    let wait = before.ended_wait(tag, now, timed_ns);
    let unseen = if let QueueWait::AfterUnseen(unseen) = wait { unseen } else { UnseenWaits { count: 0, sum_ns: 0 } };
    let unseen = UnseenWaits { count: set_on_every_path(unseen.count), sum_ns: set_on_every_path(unseen.sum_ns) };
    if unseen.count != 0 {
        // Whatever the CPU: it is not known where these waits ended.
        count(state, unseen);
    }
    let wait = if !S::is_sampling() { wait } else { before.wait_in_period(tag, wait, queued_ns, period) };
    let known_ns = set_on_every_path(wait.known_ns());
    let class = set_on_every_path(if let QueueWait::Known { class, .. } = wait { class as u64 } else { 0 });
    // SAFETY: no arguments, no side effects.
    if !filter::wants_cpu_by::<S>(|| unsafe { bpf_get_smp_processor_id() }) {
        state.add(SwitchCounter::Filtered, 1);
        return None;
    }
    match wait {
        QueueWait::NotTimed => state.add(SwitchCounter::NotTimed, 1),
        _ if (queued_ns as i64) < 0 => state.add(SwitchCounter::Invalid, 1),
        QueueWait::Known { .. } => return Class::from_u8(class as u8).map(|class| (class, known_ns)),
        QueueWait::UnknownStart { .. } => {
            state.add(SwitchCounter::UnknownStart, 1);
            state.add(SwitchCounter::UnknownNs, known_ns);
        }
        QueueWait::AfterUnseen(_) => {
            state.add(SwitchCounter::AfterUnseen, 1);
            state.add(SwitchCounter::UnknownNs, queued_ns);
        }
    }
    None
}

/// Returns `value`, and keeps the compiler from leaving it unset on paths that do not need it. The verifier of
/// 5.10 also follows paths that no wait takes, because it does not know which variant is on the stack, and
/// refuses to read what has not been set there (kernel/bpf/verifier.c, `check_stack_read()`).
#[inline(always)]
fn set_on_every_path(mut value: u64) -> u64 {
    // SAFETY: copies a register to itself. An instruction, because 5.10 refuses line info without one.
    unsafe { asm!("{value} = {value}", value = inout(reg) value, options(pure, nomem, preserves_flags)) };
    value
}

/// A wait that is known, and that the filter accepts.
#[derive(Clone, Copy)]
struct EndedWait {
    class: Class,
    latency_ns: u64,
}

/// Aggregates or sends a wait, or passes it to `hooks`, if its class and length are wanted.
#[inline(always)]
fn deliver<S: WaitSettings, T: QueuedTask, H: SwitchHooks<T>>(
    state: &mut QueueState,
    prev: T,
    next: T,
    EndedWait { class, latency_ns }: EndedWait,
    hooks: &mut H,
) {
    if !wants(class) {
        return state.add(SwitchCounter::OtherClass, 1);
    }
    if latency_ns < S::threshold_ns() {
        state.add(SwitchCounter::Filtered, 1);
        return state.add(SwitchCounter::BelowThreshold, 1);
    }
    if H::SENDS_WAITS {
        return hooks.measured(class, latency_ns);
    }
    let sample = |cpu| {
        let wait = WaitPart {
            class: class as u8,
            sampling_shift: 0,
            kernel_counts: KernelCounts::Yes as u8,
            // SAFETY: no arguments, no side effects.
            at_ns: unsafe { bpf_ktime_get_ns() },
            latency_ns,
            delivery_ns: DELIVERY_UNKNOWN,
            prev_cpu: CPU_UNKNOWN,
            waker_pid: 0,
        };
        wait_record::sample_on(cpu, wait, prev, next)
    };
    if S::aggregates() {
        let half = window::half();
        hooks.aggregated(half, class, latency_ns);
        // SAFETY: no arguments, no side effects.
        histogram::record::<S, T>(half, class, latency_ns, next, || sample(unsafe { bpf_get_smp_processor_id() }));
        return state.add(SwitchCounter::Measured, 1);
    }
    let sent = wait_record::send(sample, || {
        state.add(SwitchCounter::Measured, 1);
        state[SwitchCounter::Measured]
    });
    if !sent {
        state.add(SwitchCounter::RingBufferFull, 1);
    }
}

/// Counts waits of a task that ended unseen, if the filter accepts the task.
#[inline(always)]
fn count_unseen<S: WaitSettings, T: TaskFields>(state: &mut QueueState, task: T, pid: u32, unseen: UnseenWaits) {
    if filter::wants_by::<S, T>(task, pid) {
        count(state, unseen);
    }
}

#[inline(always)]
fn count(state: &mut QueueState, unseen: UnseenWaits) {
    state.add(SwitchCounter::UnseenWaits, unseen.count);
    state.add(SwitchCounter::UnseenWaitsNs, unseen.sum_ns);
}

#[inline(always)]
pub fn slot_index(pid: u32) -> u32 {
    pid & QUEUE_SLOT_MASK.load()
}

#[inline(always)]
fn load(slot: *mut QueueSlot) -> QueueSlot {
    // SAFETY: a value of the map. Another task with this slot may write a word meanwhile; then the tags differ.
    unsafe { QueueSlot::from_words([slot.cast::<u64>().read_volatile(), slot.cast::<u64>().add(1).read_volatile()]) }
}

#[inline(always)]
fn store(slot: *mut QueueSlot, kept: QueueSlot) {
    let [first, second] = kept.to_words();
    // SAFETY: a value of the map; each word is written in one access.
    unsafe {
        slot.cast::<u64>().write_volatile(first);
        slot.cast::<u64>().add(1).write_volatile(second);
    }
}
