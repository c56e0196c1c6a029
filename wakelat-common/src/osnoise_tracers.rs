//! The records of the timerlat and osnoise tracers, as they are passed through the ring buffer.

use crate::sample::COMM_LEN;

/// Maximum length of an interrupt's name in bytes; longer ones are cut.
pub const NAME_LEN: usize = 32;

/// Values of [`TracerRecord::kind`], by tracepoint. They are distinct from
/// [`crate::sample::KIND_SAMPLE`].
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

/// One sample of a tracer, or one noise that it reports. Fields that a kind does not have are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct TracerRecord {
    /// One of [`kind`].
    pub kind: u32,
    /// The CPU on which the event fired.
    pub cpu: u32,
    /// When the event fired: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// When a noise began: ns of the CPU's local clock (`trace_clock_local`).
    pub start_ns: u64,
    /// Duration of a noise, net of what interrupted it: ns. In a timerlat sample, the latency: ns. In an
    /// osnoise sample, all noise: µs.
    pub duration_ns: u64,
    /// In an osnoise sample, how long was measured: µs. In `sample_threshold`, the number of
    /// interferences.
    pub extra: u64,
    /// In an osnoise sample, the longest single noise: µs.
    pub max_us: u64,
    /// The current thread.
    pub pid: u32,
    /// The vector of an interrupt or the TID of a thread; in a timerlat sample the context: 0 interrupt,
    /// 1 thread, 2 user.
    pub number: i32,
    /// In a timerlat sample, the index of the activation. In an osnoise sample, the number of noises
    /// from hardware, NMIs, interrupts, softirqs and threads.
    pub counts: [u32; 5],
    /// Zero.
    pub reserved: u32,
    /// The name of the current thread.
    pub comm: [u8; COMM_LEN],
    /// The name of the interrupt or thread.
    pub name: [u8; NAME_LEN],
}

// The layout is a contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = {
    assert!(size_of::<TracerRecord>() == 128);
    assert!(core::mem::offset_of!(TracerRecord, pid) == 48);
    assert!(core::mem::offset_of!(TracerRecord, comm) == 80);
};
