//! What the loader decides about the waits to measure, as a program reads it.
//!
//! The usual settings have a program of their own, in which they are constants when it is compiled. The verifier also
//! removes what the loader's settings exclude, but only after the compiler has reserved registers and stack for it, and not
//! the loads of the settings themselves.

use wakelat_common::filter::part;

use crate::{
    maps::{AGGREGATE, FILTER_PARTS, GROUP_PARTS, THRESHOLD_NS},
    task_sampling::SAMPLING,
};

/// The settings of a program, constants of the program by the time it is verified.
pub trait WaitSettings {
    /// The parts of the filter in use: bits of [`part`].
    fn filter_parts() -> u32;

    /// Whether there is an overhead limit, so that the programs pause and tasks are sampled.
    fn is_sampling() -> bool;

    /// Whether waits are aggregated in the kernel, and no sample is sent.
    fn aggregates() -> bool;

    /// The properties of a task that groups differ in: bits of [`wakelat_common::group::part`]; 0 if waits are not grouped.
    fn group_parts() -> u32;

    /// The shortest wait to report: ns.
    fn threshold_ns() -> u64;
}

/// Those that the loader has set.
pub struct LoadedSettings;

impl WaitSettings for LoadedSettings {
    #[inline(always)]
    fn filter_parts() -> u32 {
        FILTER_PARTS.load()
    }

    #[inline(always)]
    fn is_sampling() -> bool {
        SAMPLING.load() != 0
    }

    #[inline(always)]
    fn aggregates() -> bool {
        AGGREGATE.load() != 0
    }

    #[inline(always)]
    fn group_parts() -> u32 {
        GROUP_PARTS.load()
    }

    #[inline(always)]
    fn threshold_ns() -> u64 {
        THRESHOLD_NS.load()
    }
}

/// One histogram for all waits of a class: without groups and without an overhead limit, of all tasks or of all but
/// wakelat's own.
pub struct OneHistogram;

impl WaitSettings for OneHistogram {
    #[inline(always)]
    fn filter_parts() -> u32 {
        FILTER_PARTS.load() & part::OTHERS
    }

    #[inline(always)]
    fn is_sampling() -> bool {
        false
    }

    #[inline(always)]
    fn aggregates() -> bool {
        true
    }

    #[inline(always)]
    fn group_parts() -> u32 {
        0
    }

    #[inline(always)]
    fn threshold_ns() -> u64 {
        0
    }
}
