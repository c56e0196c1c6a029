//! Reads the samples of the timerlat and osnoise tracers, which they pass to their tracepoints.

use core::marker::PhantomData;

use super::Read;
use crate::accessors::{osnoise_sample, timerlat_sample};

/// A sample of the timerlat tracer (include/linux/trace.h, from 6.15 on).
pub struct KernelTimerlatSample<R> {
    raw: *const timerlat_sample,
    how: PhantomData<R>,
}

impl<R: Read> KernelTimerlatSample<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    #[inline(always)]
    pub fn latency_ns(&self) -> u64 {
        R::read(timerlat_sample::timer_latency(self.raw))
    }

    /// Index of the activation, counted per CPU.
    #[inline(always)]
    pub fn seqnum(&self) -> u32 {
        R::read(timerlat_sample::seqnum(self.raw))
    }

    /// 0 interrupt, 1 thread, 2 return to user space.
    #[inline(always)]
    pub fn context(&self) -> i32 {
        R::read(timerlat_sample::context(self.raw))
    }
}

/// A sample of the osnoise tracer (include/linux/trace.h, from 6.15 on).
pub struct KernelOsnoiseSample<R> {
    raw: *const osnoise_sample,
    how: PhantomData<R>,
}

impl<R: Read> KernelOsnoiseSample<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    #[inline(always)]
    pub fn runtime_us(&self) -> u64 {
        R::read(osnoise_sample::runtime(self.raw))
    }

    #[inline(always)]
    pub fn noise_us(&self) -> u64 {
        R::read(osnoise_sample::noise(self.raw))
    }

    /// The longest single noise: µs.
    #[inline(always)]
    pub fn max_us(&self) -> u64 {
        R::read(osnoise_sample::max_sample(self.raw))
    }

    /// Number of noises from hardware, NMIs, interrupts, softirqs and threads, in this order.
    #[inline(always)]
    pub fn counts(&self) -> [u32; 5] {
        [
            R::read(osnoise_sample::hw_count(self.raw)) as u32,
            R::read(osnoise_sample::nmi_count(self.raw)) as u32,
            R::read(osnoise_sample::irq_count(self.raw)) as u32,
            R::read(osnoise_sample::softirq_count(self.raw)) as u32,
            R::read(osnoise_sample::thread_count(self.raw)) as u32,
        ]
    }
}
