//! `sched_switch` when a timeline is requested and the run queue's own clock measures the waits: emits a switch record
//! for every switch, with the wait that it ends.
//!
//! [`switch_queue_clock`](crate::switch_queue_clock) measures, and [`switch_events`] emits. The records are timed by
//! CLOCK_MONOTONIC, like those of all other events.

use aya_ebpf::{
    btf_maps::PerCpuArray,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
    programs::tracing::StackIdContext,
};
use wakelat_common::{
    Class,
    cpu_words::CpuWords,
    pending_wait::PrevState,
    sample::DELIVERY_UNKNOWN,
    timeline::{NO_WAIT, feature, flag},
};

use crate::{
    kernel_structs::{QueuedTask as _, Read, RunQueueFields as _, Task, TaskFields as _},
    maps::feature_enabled,
    stack,
    switch_events::{self, WaitInfo, WaitSource},
    switch_queue_clock::{SwitchHooks, switch_with},
    throttled_clocks,
    wait_settings::LoadedSettings,
    window,
};

/// What is kept of a switch until its record is sent: in a map, because the record takes most of the stack.
#[repr(C)]
struct SwitchUnderway {
    /// ns of CLOCK_MONOTONIC.
    now: u64,
    /// The wait that it ended.
    wait: WaitInfo,
    /// What becomes of `prev`.
    leaving: PrevState,
}

/// The switch that this CPU is handling.
#[btf_map]
static SWITCH_UNDERWAY: PerCpuArray<SwitchUnderway, 1> = PerCpuArray::new();

/// Handles both halves of a switch on the CPU with these words, `prev` first.
#[inline(always)]
pub fn switch<R: Read>(ctx: &impl StackIdContext, words: *mut CpuWords, preempt: bool, prev: Task<R>, next: Task<R>) {
    switch_with::<LoadedSettings, Task<R>, _>(
        words,
        preempt,
        prev,
        next,
        #[inline(always)]
        |_, _| {
            let underway = SWITCH_UNDERWAY.get_ptr_mut(0)?;
            // SAFETY: no arguments, no side effects.
            let now = unsafe { bpf_ktime_get_ns() };
            if !window::contains(now) {
                return None;
            }
            // SAFETY: this CPU's own entry; `sched_switch` runs with interrupts off, so no other run of this program
            // comes between.
            unsafe {
                (&raw mut (*underway).now).write_volatile(now);
                (&raw mut (*underway).wait.class).write_volatile(NO_WAIT);
                (&raw mut (*underway).leaving).write_volatile(PrevState::Runnable);
            }
            switch_events::read_first(prev, next)?;
            Some(RecordHooks { ctx, prev, underway })
        },
    );
}

/// Records a switch.
struct RecordHooks<'a, C, R: Read> {
    ctx: &'a C,
    prev: Task<R>,
    /// This CPU's entry.
    underway: *mut SwitchUnderway,
}

impl<C: StackIdContext, R: Read> SwitchHooks<Task<R>> for RecordHooks<'_, C, R> {
    const SENDS_WAITS: bool = true;

    /// There is only one period: events are not recorded under an overhead limit.
    #[inline(always)]
    fn begin(&mut self, _: bool, _: u8) {}

    #[inline(always)]
    fn switch_out(&mut self, prev: Task<R>, pid: u32, leaving: PrevState) {
        // SAFETY: this CPU's own entry: see `switch`.
        unsafe { (&raw mut (*self.underway).leaving).write_volatile(leaving) };
        stack::of_prev(self.ctx, prev, pid, leaving, self.now());
        if feature_enabled(feature::CLOCKS) {
            // SAFETY: no arguments, no side effects.
            throttled_clocks::switch_out(prev, pid, leaving, unsafe { bpf_get_smp_processor_id() }, 0);
        }
    }

    #[inline(always)]
    fn measured(&mut self, class: Class, latency_ns: u64) {
        // SAFETY: this CPU's own entry: see `switch`.
        unsafe {
            (&raw mut (*self.underway).wait.class).write_volatile(class as u8);
            (&raw mut (*self.underway).wait.latency_ns).write_volatile(latency_ns);
        }
    }

    #[inline(always)]
    fn end(&mut self, next: Task<R>, pid: u32) -> Option<bool> {
        // SAFETY: no arguments, no side effects.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        self.complete(next, pid, cpu);
        // SAFETY: this CPU's own entry: see `switch`.
        let leaving = unsafe { (&raw const (*self.underway).leaving).read_volatile() };
        let prev = (self.prev, self.prev.pid(), leaving);
        let is_sent = switch_events::emit(self.now(), cpu, prev, (next, pid), KeptWait(self.underway));
        (self.class() != NO_WAIT).then_some(is_sent)
    }
}

/// The wait in this CPU's entry.
#[derive(Clone, Copy)]
struct KeptWait(*const SwitchUnderway);

impl WaitSource for KeptWait {
    #[inline(always)]
    fn wait(self) -> WaitInfo {
        // SAFETY: this CPU's own entry: see `switch`.
        unsafe { (*self.0).wait }
    }
}

impl<C, R: Read> RecordHooks<'_, C, R> {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: this CPU's own entry: see `switch`.
        unsafe { (&raw const (*self.underway).now).read_volatile() }
    }

    #[inline(always)]
    fn class(&self) -> u8 {
        // SAFETY: this CPU's own entry: see `switch`.
        unsafe { (&raw const (*self.underway).wait.class).read_volatile() }
    }

    /// Completes what the record says about the wait. The queue's clock knows neither the waker nor the delivery.
    #[inline(always)]
    fn complete(&self, next: Task<R>, pid: u32, cpu: u32) {
        let queue = next.run_queue();
        // SAFETY: this CPU's own entry: see `switch`. No other reference to it is in use.
        let wait = unsafe { &mut (*self.underway).wait };
        *wait = WaitInfo {
            class: wait.class,
            latency_ns: wait.latency_ns,
            delivery_ns: DELIVERY_UNKNOWN,
            flags: flag::STOLEN_TOTAL,
            stolen_ns: if feature_enabled(feature::CLOCKS) { queue.stolen_ns() } else { 0 },
            ..WaitInfo::NONE
        };
        if wait.class == NO_WAIT {
            return;
        }
        // A migration adds the part on the queue that the task leaves to its `run_delay`.
        if wait.latency_ns == queue.clock_ns().wrapping_sub(next.last_queued_ns()) {
            wait.wait_cpu = cpu;
        } else {
            wait.migrations = 1;
        }
        if !feature_enabled(feature::CLOCKS) {
            return;
        }
        let throttled_ns = throttled_clocks::since_switch_out(next, pid, cpu, 0);
        if throttled_ns != 0 {
            wait.throttled_ns = if throttled_ns < wait.latency_ns { throttled_ns } else { wait.latency_ns };
            wait.flags |= flag::THROTTLED_AT_START;
        }
    }
}
