//! How long interrupts and softirqs had this CPU, counted by the programs on their tracepoints: see
//! [`wakelat_common::interrupt_clock`].

use core::arch::asm;

use aya_ebpf::{Global, btf_maps::PerCpuArray, helpers::bpf_ktime_get_ns, macros::btf_map};
use wakelat_common::{interrupt_clock::InterruptClock, wait_division::LongestInterrupt};

use crate::program_run_budget;

/// This CPU's clock.
#[btf_map]
static INTERRUPT_CLOCK: PerCpuArray<InterruptClock, 1> = PerCpuArray::new();

/// 1: the programs on the tracepoints of interrupts only count their time, and send no records.
#[unsafe(no_mangle)]
static COUNT_INTERRUPTS: Global<u32> = Global::new(0);

/// Whether the programs count interrupts instead of sending records of them.
#[inline(always)]
pub fn is_used() -> bool {
    COUNT_INTERRUPTS.load() != 0
}

/// An interrupt or softirq of `source` begins.
#[inline(always)]
pub fn enter(source: u8) {
    let Some(clock) = allowed() else { return };
    let starts = clock.enter(source);
    write_before_going_on();
    if starts {
        // SAFETY: no arguments, no side effects.
        clock.start(unsafe { bpf_ktime_get_ns() });
    }
}

/// An interrupt or softirq of `source` ends.
#[inline(always)]
pub fn exit(source: u8) {
    let Some(clock) = allowed() else { return };
    if clock.is_last(source) {
        // SAFETY: no arguments, no side effects.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        // With PREEMPT_RT, the program may have been preempted meanwhile: a switch forgets what is active.
        write_before_going_on();
        if clock.is_last(source) {
            clock.stop(now_ns);
        }
    }
    write_before_going_on();
    clock.leave(source);
}

/// This CPU's clock, unless the programs have stopped: then they see no end of what is active.
#[inline(always)]
fn allowed() -> Option<&'static mut InterruptClock> {
    let clock = get()?;
    if program_run_budget::allows_run() {
        return Some(clock);
    }
    clock.forget_active();
    None
}

/// What has been written so far is in memory before the compiler goes on: an interrupt may come.
#[inline(always)]
fn write_before_going_on() {
    // SAFETY: copies a register to itself. An instruction, because 5.10 refuses line info without one.
    unsafe { asm!("{0} = {0}", inout(reg) 0_u64 => _, options(preserves_flags)) };
}

/// The time in interrupts and softirqs until a switch on this CPU: ns. Writes the longest of them since the switch before
/// to `longest`, in memory, so that the verifier knows nothing of it later. `to_ksoftirqd`: the next task is the `ksoftirqd`
/// of this CPU.
///
/// A function of its own, so that it takes no registers from a switch that has no use for it.
#[inline(never)]
pub fn at_switch(longest: *mut LongestInterrupt, to_ksoftirqd: bool) -> u64 {
    let Some(clock) = get() else { return 0 };
    let counted = clock.at_switch(to_ksoftirqd);
    let began_before_end_ns = match counted.longest_ns {
        0 => 0,
        // SAFETY: no arguments, no side effects.
        _ => unsafe { bpf_ktime_get_ns() }.wrapping_sub(counted.longest_since_ns),
    };
    // SAFETY: the caller's pointer is to a value of a map.
    unsafe { longest.write_volatile(LongestInterrupt { ns: counted.longest_ns, began_before_end_ns }) };
    counted.sum_ns
}

#[inline(always)]
fn get() -> Option<&'static mut InterruptClock> {
    // SAFETY: this CPU's own entry. A program that interrupts another one finds what that wrote last: see `InterruptClock`.
    INTERRUPT_CLOCK.get_ptr_mut(0).map(|clock| unsafe { &mut *clock })
}
