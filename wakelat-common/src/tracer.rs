//! What the timerlat and osnoise tracers say, as it travels through the ring buffer.

use crate::sample::COMM_LEN;

/// Bytes of an interrupt's name; longer ones are cut.
pub const NAME_LEN: usize = 32;

/// [`TracerRecord::kind`]: what was said. They have numbers of their own, beside [`crate::sample::KIND_SAMPLE`].
pub mod kind {
    /// `osnoise:irq_noise`.
    pub const IRQ: u32 = 16;
    /// `osnoise:softirq_noise`.
    pub const SOFTIRQ: u32 = 17;
    /// `osnoise:nmi_noise`.
    pub const NMI: u32 = 18;
    /// `osnoise:thread_noise`.
    pub const THREAD: u32 = 19;
    /// `osnoise:sample_threshold`.
    pub const THRESHOLD: u32 = 20;
    /// `osnoise:timerlat_sample`.
    pub const TIMERLAT: u32 = 21;
    /// `osnoise:osnoise_sample`.
    pub const OSNOISE: u32 = 22;
}

/// One thing that a tracer or an interference said. What a kind has not is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TracerRecord {
    /// Of [`kind`].
    pub kind: u32,
    /// Where.
    pub cpu: u32,
    /// When: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// When an interference began: ns of the CPU's local clock (`trace_clock_local`).
    pub start_ns: u64,
    /// How long it took, net of what interrupted it; of a sample of timerlat, the latency: ns.
    /// Of a sample of osnoise, all noise: µs.
    pub duration_ns: u64,
    /// Of a sample of osnoise: how long was measured, µs. Of `sample_threshold`: how many interferences.
    pub extra: u64,
    /// Of a sample of osnoise: the longest single noise, µs.
    pub max_us: u64,
    /// Who ran.
    pub pid: u32,
    /// An interrupt's vector, a thread's id, or of a sample of timerlat the context: 0 interrupt, 1 thread, 2 user.
    pub number: i32,
    /// Of a sample of timerlat: its activation. Of osnoise: noises that hardware made, NMIs, interrupts, softirqs, threads.
    pub counts: [u32; 5],
    /// Zero.
    pub reserved: u32,
    /// Who ran: the name.
    pub comm: [u8; COMM_LEN],
    /// The interrupt's or the thread's name.
    pub name: [u8; NAME_LEN],
}

// The layout is a contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = {
    assert!(size_of::<TracerRecord>() == 128);
    assert!(core::mem::offset_of!(TracerRecord, pid) == 48);
    assert!(core::mem::offset_of!(TracerRecord, comm) == 80);
};
