//! Which part of the tasks is sampled.

use wakelat_common::task_sampling::MAX_SAMPLING_SHIFT;

/// One task in 8. At this rate, calling the programs costs about as much as what they and the reader do for
/// the sampled tasks: with fewer tasks, much less would be measured, and little would be saved.
pub(super) const MAX_SHIFT: u8 = 3;

const _: () = assert!(MAX_SHIFT <= MAX_SAMPLING_SHIFT);

/// Sampling twice as many tasks at most doubles the overhead: the inflow allows it if the overhead is at most
/// this part of the inflow.
const HEADROOM: f64 = 0.47;
/// Consecutive periods with headroom before more tasks are sampled.
const CALM_PERIODS: u32 = 3;

/// One task in 2^shift is sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledTasks {
    shift: u8,
    max_shift: u8,
    calm_periods: u32,
}

impl Default for SampledTasks {
    /// All tasks, at first.
    fn default() -> Self {
        Self { max_shift: MAX_SHIFT, ..Self::ALL }
    }
}

impl SampledTasks {
    /// All tasks, whatever measuring costs.
    pub(super) const ALL: Self = Self { shift: 0, max_shift: 0, calm_periods: 0 };

    /// The sampling shift.
    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// Samples fewer or more tasks, after measuring took `share` of a CPU's time, of which `inflow` is allowed. Returns
    /// whether more tasks are sampled from now on.
    pub(super) fn adjust(&mut self, share: f64, inflow: f64) -> bool {
        if share > inflow {
            // What is to be had by sampling fewer is proportional to them, at best.
            let halvings = (share / inflow).log2().ceil().max(1.0) as u8;
            self.shift = self.shift.saturating_add(halvings).min(self.max_shift);
            self.calm_periods = 0;
            return false;
        }
        self.calm_periods = if share <= HEADROOM * inflow { self.calm_periods + 1 } else { 0 };
        let samples_more = self.calm_periods >= CALM_PERIODS && self.shift > 0;
        if samples_more {
            self.shift -= 1;
            self.calm_periods = 0;
        }
        samples_more
    }
}
