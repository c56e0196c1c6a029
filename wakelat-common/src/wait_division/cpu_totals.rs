//! What a CPU has done in total until an instant, by cause.

use super::{DividedCause, slice_times::SliceTimes};

/// Causes in which a CPU spends its time, by their numbers: the first ones, up to [`DividedCause::Stolen`].
const TOTALLED_CAUSES: usize = DividedCause::Stolen as usize + 1;

/// The index in [`CpuTotals`] of all time together.
pub(super) const ALL_TIME: usize = TOTALLED_CAUSES;

/// The number of totals: a power of two, so that a mask keeps an index within bounds.
const TOTALS: usize = ALL_TIME + 1;

const _: () = assert!(TOTALS.is_power_of_two());

/// What a CPU has done in total until an instant: ns by cause, and all of it at [`ALL_TIME`]. Only differences have a
/// meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct CpuTotals([u64; TOTALS]);

impl CpuTotals {
    pub(super) const ZERO: Self = Self([0; TOTALS]);

    /// Sets these totals to the ones `before` a slice and what it took: `cause`, besides stolen time and interrupts.
    #[inline(always)]
    pub(super) const fn set_after(&mut self, before: &Self, cause: u32, took: SliceTimes) {
        let mut index = 0;
        while index < TOTALS {
            self.0[index] = before.0[index];
            index += 1;
        }
        self.add(cause as usize, took.ran_ns());
        self.add(DividedCause::Interrupt as usize, took.irq_ns);
        self.add(DividedCause::Stolen as usize, took.stolen_ns);
        self.add(ALL_TIME, took.clock_ns);
    }

    #[inline(always)]
    const fn add(&mut self, index: usize, ns: u64) {
        let total = &mut self.0[index & (TOTALS - 1)];
        *total = total.wrapping_add(ns);
    }

    /// The time of a cause, or of [`ALL_TIME`], since `earlier`: ns.
    #[inline(always)]
    pub(super) const fn since(&self, earlier: &Self, index: usize) -> u64 {
        self.0[index & (TOTALS - 1)].wrapping_sub(earlier.0[index & (TOTALS - 1)])
    }

    /// What the slice between two switches took.
    #[inline(always)]
    pub(super) const fn slice_since(&self, earlier: &Self) -> SliceTimes {
        SliceTimes {
            clock_ns: self.since(earlier, ALL_TIME),
            stolen_ns: self.since(earlier, DividedCause::Stolen as usize),
            irq_ns: self.since(earlier, DividedCause::Interrupt as usize),
        }
    }
}
