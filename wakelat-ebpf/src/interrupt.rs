//! What takes a CPU from its task without a switch: handlers of devices' interrupts, the CPU's own interrupts, softirqs;
//! and the C-states of an idle CPU.
//!
//! Each of the three begins and ends on one CPU without another of its kind between, so that the time of its beginning is
//! all there is to remember: handlers run with interrupts off, those of a shared interrupt in turn (kernel/irq/handle.c),
//! and so do softirqs (kernel/softirq.c). NMIs are not told.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::{
    sample::COMM_LEN,
    timeline::{InterruptRecord, kind},
};

use crate::{sample, timeline, window};

/// Something of `source` begins.
#[inline(always)]
pub fn enter(source: u8) {
    if !window::is_open() {
        return;
    }
    let Some(here) = timeline::cpu_state() else { return };
    // SAFETY: the pointer is to this CPU's own entry, and only this source writes this word while it is under way; no
    // arguments, no side effects.
    unsafe { (*here).from_ns[usize::from(source)] = bpf_ktime_get_ns() };
}

/// It ends. Where its beginning was not seen, or its CPU was switched meanwhile, nothing is told of it.
#[inline(always)]
pub fn exit(from: u8, number: u32, name: impl FnOnce() -> [u8; COMM_LEN]) {
    if !window::is_open() {
        return;
    }
    let Some(here) = timeline::cpu_state() else { return };
    // SAFETY: as in `enter`.
    let from_ns = core::mem::take(unsafe { &mut (*here).from_ns[usize::from(from)] });
    if from_ns == 0 {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (to_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(to_ns) {
        return;
    }
    let Some((mut slot, lost)) = timeline::reserve(here) else { return };
    slot.write(InterruptRecord {
        kind: kind::INTERRUPT,
        source: from,
        reserved: 0,
        cpu,
        lost,
        number,
        from_ns,
        to_ns,
        name: name(),
    });
    sample::submit(slot, false);
}

/// Nothing has a name but a device's interrupt. Not zeros, which would be a call of `memset`, byte by byte.
#[inline(always)]
pub fn nameless() -> [u8; COMM_LEN] {
    *b"nameless\0\0\0\0\0\0\0\0"
}

/// The CPU enters a C-state, or leaves the one it was in.
#[inline(always)]
pub fn idle(state: u32) {
    // `PWR_EVENT_EXIT` (include/trace/events/power.h) is -1.
    if state >= u8::MAX.into() || !window::is_open() {
        return;
    }
    let Some(here) = timeline::cpu_state() else { return };
    // SAFETY: the pointer is to this CPU's own entry, of which only the idle task and switches write these words, and no switch
    // is under way while the CPU idles; no arguments, no side effects.
    unsafe {
        (*here).idle_state = state + 1;
        if (*here).current.pid != 0 && (*here).idle_since_ns == 0 {
            (*here).idle_since_ns = bpf_ktime_get_ns();
        }
    }
}
