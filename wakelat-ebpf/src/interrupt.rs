//! Interrupts and softirqs (`irq_handler_*`, `softirq_*`, `irq_vectors:*`), which take a CPU from its
//! task without a switch: emits an [`InterruptRecord`] when one ends, or counts its time.
//!
//! The start time is all that has to be stored, one per CPU and source, because no two of a source
//! overlap on a CPU: handlers and the CPU's own interrupts run with interrupts off, handlers of a shared
//! interrupt one after the other (kernel/irq/handle.c), and softirqs likewise (kernel/softirq.c). NMIs
//! are not recorded.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use wakelat_common::{
    sample::COMM_LEN,
    timeline::{InterruptRecord, kind},
};

use crate::{cpu_state, interrupt_clock, ring_buffers, window};

/// An interrupt or softirq of `source` begins: stores the time.
#[inline(always)]
pub fn enter(source: u8) {
    if !window::is_open() {
        return;
    }
    if interrupt_clock::is_used() {
        return interrupt_clock::enter(source);
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: the pointer is to this CPU's own entry, and only this source writes this word while it is
    // active; the helper has no arguments and no side effects.
    unsafe { (*here).from_ns[usize::from(source)] = bpf_ktime_get_ns() };
}

/// An interrupt or softirq of source `from` ends: emits its record, unless its beginning was not seen or
/// the CPU has switched tasks since (in a softirq on PREEMPT_RT).
#[inline(always)]
pub fn exit(from: u8, number: u32, name: impl FnOnce() -> [u8; COMM_LEN]) {
    if !window::is_open() {
        return;
    }
    if interrupt_clock::is_used() {
        return interrupt_clock::exit(from);
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: the pointer is to this CPU's own entry, and only this source writes this word while it is
    // active.
    let from_ns = core::mem::take(unsafe { &mut (*here).from_ns[usize::from(from)] });
    if from_ns == 0 {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (to_ns, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(to_ns) {
        return;
    }
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
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
    ring_buffers::submit(slot, cpu, false);
}

/// The name of everything but a device's interrupt. Zeros instead would compile to a call of `memset`,
/// byte by byte.
#[inline(always)]
pub fn nameless() -> [u8; COMM_LEN] {
    *b"nameless\0\0\0\0\0\0\0\0"
}
