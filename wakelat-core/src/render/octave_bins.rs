//! Bins of latencies for pictures, four to a doubling: the buckets of a distribution are too fine to draw.

/// Bins in each doubling of the latency.
const BINS: f64 = 4.0;

/// The bin of a latency: bin n begins at 2^(n/4) ns.
pub fn bin(ns: u64) -> u32 {
    ((ns.max(1) as f64).log2() * BINS + 1e-9) as u32
}

/// Where a bin begins: ns.
pub fn begin_ns(bin: u32) -> f64 {
    (f64::from(bin) / BINS).exp2()
}

/// The place of a latency on an axis of bins, on which bin n begins at n.
pub fn place(ns: u64) -> f64 {
    (ns.max(1) as f64).log2() * BINS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_bin_that_begins_below_it() {
        for exponent in 0..64 {
            let begin = 1u64 << exponent;
            assert_eq!((bin(begin), bin(begin.saturating_add(begin / 7))), (4 * exponent, 4 * exponent));
        }
        assert_eq!((bin(0), bin(1)), (0, 0));
    }
}
