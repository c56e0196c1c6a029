//! The types and functions that the BPF programs and user space share.
//!
//! Everything here is plain data or a pure function, so both sides of the ring buffer run the very same
//! code. Without the `user` feature the crate builds without std, for the BPF target.
#![cfg_attr(not(any(feature = "user", test)), no_std)]

pub mod branch_free;
pub mod bucket;
pub mod cause_sums;
pub mod classic_fields;
pub mod counter;
pub mod cpu_state;
pub mod cpu_words;
pub mod direct_table;
pub mod filter;
pub mod glob;
pub mod group;
pub mod histogram;
pub mod interrupt_clock;
pub mod osnoise_tracers;
pub mod pending_wait;
pub mod program_run_budget;
pub mod program_runs;
pub mod queue_clock;
#[cfg(feature = "user")]
pub mod record_bytes;
pub mod record_slots;
pub mod sample;
pub mod stack;
pub mod task_sampling;
pub mod task_table;
pub mod timeline;
pub mod wait_class;
pub mod wait_context;
pub mod wait_division;
pub mod window;

pub use counter::{Counter, Counters};
pub use sample::Sample;
pub use wait_class::{Class, Classes};

#[cfg(feature = "aya")]
mod pod {
    // SAFETY: repr(C), integers only, without padding: any bytes are a value, and every byte is
    // initialised.
    unsafe impl aya::Pod for crate::Counters {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::task_table::TrackedTask {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::task_table::Slot {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cpu_state::CpuState {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::stack::StackBudget {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::filter::Filter {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::classic_fields::Offsets {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::histogram::Histogram {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::program_run_budget::CpuRuns {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cpu_words::CpuWords {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::record_slots::RecordSlot {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::window::WindowWords {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::queue_clock::QueueSlot {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::group::DirectElement {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::group::GroupElement {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::DirectGroup {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::DirectPair {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::GroupSums {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::GroupSumsKey {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::PairSum {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::cause_sums::PairKey {}
    // SAFETY: repr(C), integers only, without padding.
    unsafe impl aya::Pod for crate::wait_division::ThrottledClock {}
}
