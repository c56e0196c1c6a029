//! Which tasks are watched where not all may be: whole tasks at random, one in 2^level.
//!
//! A thread's number and a number drawn for the run decide, so that any wait of a task is watched if one is, and a task
//! that is watched at a level is so at each below it. A wait is judged where it begins, and keeps the level of then.

/// The highest level: one task in 32,768.
pub const MAX_SAMPLING_SHIFT: u8 = 15;

/// Runs of the programs that a CPU takes from the budget of all CPUs at once: so few runs share a cache line with others.
pub const RUNS_PER_BATCH: i64 = 32;

/// Runs of all programs on one CPU, under a limit.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CpuRuns {
    /// Runs that measured, since the start.
    pub measured: u64,
    /// Runs after the programs had stopped.
    pub stopped: u64,
    /// Runs that this CPU has taken from the budget and not used yet.
    pub reserved: i64,
}

/// Whether thread `pid` is watched at `level`, in the run of `salt`.
#[inline(always)]
pub const fn is_sampled(pid: u32, salt: u64, level: u8) -> bool {
    fmix64(pid as u64 ^ salt) & ((1 << level) - 1) == 0
}

/// Any number to one of which each bit depends on all of its: the finalizer of MurmurHash3.
#[inline(always)]
pub const fn fmix64(value: u64) -> u64 {
    let mut value = value;
    value ^= value >> 33;
    value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    value ^= value >> 33;
    value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn who_is_watched_at_a_level_is_watched_below_it(pid: u32, salt: u64, level in 1..=MAX_SAMPLING_SHIFT) {
            prop_assert!(!is_sampled(pid, salt, level) || is_sampled(pid, salt, level - 1));
            prop_assert!(is_sampled(pid, salt, 0));
        }

        #[test]
        fn of_many_tasks_the_share_is_watched(salt: u64, first in 0..1u32 << 21, level in 0..6u8) {
            // Numbers of threads follow each other.
            let tasks = 1u32 << 16;
            let watched = (first..first + tasks).filter(|pid| is_sampled(*pid, salt, level)).count() as f64;
            let expected = f64::from(tasks >> level);
            // Six standard deviations: one draw in a billion.
            prop_assert!((watched - expected).abs() <= 6.0 * expected.sqrt(), "{watched} of {expected}");
        }
    }
}
