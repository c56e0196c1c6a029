//! What the BPF programs and user space agree on.
//!
//! Everything here is plain data or a pure function, the very same code on both sides of the ring buffer. Without the
//! `user` feature the crate builds without std, for the BPF target.
#![cfg_attr(not(any(feature = "user", test)), no_std)]

pub mod bucket;
pub mod class;
pub mod counter;
pub mod course;
pub mod filter;
pub mod glob;
pub mod histogram;
pub mod record;
pub mod sample;
pub mod share;
pub mod stack;
pub mod start;
pub mod timeline;
pub mod tracer;

pub use class::{Class, Classes};
pub use counter::{Counter, Counters};
pub use sample::Sample;

#[cfg(feature = "user")]
mod pod {
    // SAFETY: repr(C), integers only, without padding: any bytes are a value, and every byte is initialised.
    unsafe impl aya::Pod for crate::Counters {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::course::TrackedTask {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::course::Slot {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::timeline::CpuState {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::stack::StackBudget {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::filter::Filter {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::record::Offsets {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::histogram::Histogram {}
    // SAFETY: as above.
    unsafe impl aya::Pod for crate::share::CpuRuns {}
}
