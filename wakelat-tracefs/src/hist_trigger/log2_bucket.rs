//! The kernel's own `.log2` buckets, whose bounds differ from those of other tools.

/// Largest power that a `.log2` key can show.
pub const MAX_LOG2: u8 = 64;

/// Smallest and largest value of the bucket `~ 2^power`: above 2^(power−1) and up to 2^power, because the
/// kernel rounds up (`hist_field_log2`: `ilog2(roundup_pow_of_two(value))`,
/// kernel/trace/trace_events_hist.c, 4.7 to 7.2); 2^0 holds 0 and 1. Values above 2^63 have no defined
/// bucket: rounding up overflows, and the result differs between kernels.
pub const fn log2_range(power: u8) -> (u64, u64) {
    match power {
        0 => (0, 1),
        1..=63 => ((1 << (power - 1)) + 1, 1 << power),
        _ => ((1 << 63) + 1, u64::MAX),
    }
}

/// The bucket `~ 2^k` in which the kernel counts `value`.
pub const fn log2_bucket(value: u64) -> u8 {
    match value {
        0 | 1 => 0,
        _ => (64 - (value - 1).leading_zeros()) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t19_every_power_of_two_and_its_neighbours_fall_in_their_bucket() {
        assert_eq!((log2_bucket(0), log2_bucket(1), log2_bucket(2), log2_bucket(3)), (0, 0, 1, 2));
        for power in 0..64 {
            for value in [(1u64 << power) - 1, 1 << power, (1 << power) + 1] {
                let (from, to) = log2_range(log2_bucket(value));
                assert!(from <= value && value <= to, "{value}: {from}..={to}");
            }
        }
        assert_eq!(log2_bucket(u64::MAX), MAX_LOG2);
    }

    #[test]
    fn buckets_cover_u64_without_gap_or_overlap() {
        assert_eq!(log2_range(0).0, 0);
        for power in 0..MAX_LOG2 {
            assert_eq!(log2_range(power).1 + 1, log2_range(power + 1).0);
        }
        assert_eq!(log2_range(MAX_LOG2).1, u64::MAX);
    }
}
