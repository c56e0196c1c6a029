//! Which tasks are sampled under `--max-overhead`: whole tasks at random, one in 2^shift.
//!
//! The decision depends only on the TID and on the seed of the run, so either all waits of a task are
//! sampled or none, and a task that is sampled at one shift is sampled at every smaller shift. It is
//! made when a wait begins, and the wait keeps the shift of that moment.

/// The largest sampling shift: one task in 32,768.
pub const MAX_SAMPLING_SHIFT: u8 = 15;

/// Whether thread `pid` is sampled at `shift`, in the run with `seed`.
#[inline(always)]
pub const fn is_sampled(pid: u32, seed: u64, shift: u8) -> bool {
    fmix64(pid as u64 ^ seed) & ((1 << shift) - 1) == 0
}

/// Mixes a number so that each bit of the result depends on all bits of `value`: the finalizer of
/// MurmurHash3.
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
        fn a_sampled_task_is_sampled_at_every_smaller_shift(pid: u32, seed: u64, shift in 1..=MAX_SAMPLING_SHIFT) {
            prop_assert!(!is_sampled(pid, seed, shift) || is_sampled(pid, seed, shift - 1));
            prop_assert!(is_sampled(pid, seed, 0));
        }

        #[test]
        fn the_expected_share_of_many_tasks_is_sampled(seed: u64, first in 0..1u32 << 21, shift in 0..6u8) {
            // TIDs are assigned in sequence.
            let tasks = 1u32 << 16;
            let sampled = (first..first + tasks).filter(|pid| is_sampled(*pid, seed, shift)).count() as f64;
            let expected = f64::from(tasks >> shift);
            // Six standard deviations: one failure in a billion.
            prop_assert!((sampled - expected).abs() <= 6.0 * expected.sqrt(), "{sampled} of {expected}");
        }
    }
}
