//! Compares two histograms of the same waits.
//!
//! Both instruments see the same events and read the same clock, but each reads it separately. They agree
//! if and only if
//!
//! 1. neither dropped anything;
//! 2. both counted the same number of waits, except for those that the ends of the window may have cut off
//!    on one side;
//! 3. no more waits moved across an edge between two buckets than lie within the clock's tolerance of that
//!    edge, counted one by one on the side that sees every wait, plus as many as rule 2 allows;
//! 4. the sums differ by no more than that tolerance for each wait, if both sides have a sum.
//!
//! Rule 3 is exact: a wait whose two readings differ by no more than the tolerance cannot cross an edge
//! that is further away. The clock does not cause a difference that this rule leaves unexplained, however
//! small the difference is.

use super::side::{BucketRange, ExactCounts, SideCounts};
use wakelat_core::render::units::{counted, thousands};

/// Maximum difference of two clock readings for the same wait, in ns. Both programs read the clock at each
/// end of a wait, and the tracepoint's list of probes runs between the two readings: a few hundred ns, and
/// a few µs if an interrupt comes in between. An emulated machine needs more.
pub const CLOCK_NS: u64 = 5_000;

/// How many waits the two sides may legitimately count differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Waits that only one side may have, because the two sides do not begin and end at the same instant. 0
    /// if all measured tasks live inside the window.
    pub waits: u64,
    /// Waits that may have been delayed, for any time, between the two clock readings at one of their ends:
    /// by a non-maskable interrupt, or by a hypervisor or emulator that takes the CPU away. They may be in
    /// any bucket.
    pub held_up: u64,
}

/// Longest time for which a CPU may be taken away at once, in ns: the time slice of QEMU's emulator
/// (`TCG_KICK_PERIOD`, accel/tcg/tcg-accel-ops-rr.c) and of most hypervisors.
const HELD_UP_NS: u128 = 100_000_000;

/// One bucket with the counts of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedBucket {
    /// The bucket's bounds.
    pub range: BucketRange,
    /// Waits on wakelat's side.
    pub bpf: u64,
    /// Waits on the trigger's side.
    pub trigger: u64,
    /// Waits that moved across the bucket's upper edge: how many more wakelat has below that edge than the
    /// trigger.
    pub moved: i128,
    /// How many of the moved waits the tolerances explain.
    pub explained: u64,
}

/// The two sides and the result of comparing them.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// wakelat's side.
    pub bpf: SideCounts,
    /// The trigger's side.
    pub trigger: SideCounts,
    /// Maximum difference of two clock readings, in ns.
    pub clock_ns: u64,
    /// How many waits the two sides may count differently.
    pub tolerance: Tolerance,
    /// Every bucket that is not empty on both sides, in ascending order.
    pub rows: Vec<ComparedBucket>,
    /// Kolmogorov–Smirnov distance: the largest difference between the two cumulative distributions at the
    /// edges of the buckets, 0 to 1.
    pub distance: f64,
    /// Why the two sides disagree, in the order of the rules; empty if they agree.
    pub mismatches: Vec<Mismatch>,
}

/// Why two sides disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Neither side has a wait, so nothing was compared.
    NoWaits,
    /// A table or the ring buffer was full.
    Dropped {
        /// Events that were not counted.
        dropped: u64,
    },
    /// The two sides have different numbers of waits.
    Count {
        /// Waits on wakelat's side.
        bpf: u64,
        /// Waits on the trigger's side.
        trigger: u64,
        /// Maximum difference.
        tolerated: u64,
    },
    /// More waits moved across an edge than the tolerances explain.
    Moved {
        /// The largest value below the edge, in ns.
        edge_ns: u64,
        /// Waits that moved.
        moved: u64,
        /// How many of them are explained.
        explained: u64,
    },
    /// The sums of the latencies differ by more than the clock explains.
    Sum {
        /// The difference, in ns.
        difference_ns: u128,
        /// How much of the difference is explained, in ns.
        explained_ns: u128,
    },
}

impl Comparison {
    /// Compares the waits that wakelat measured with those that a hist trigger counted.
    pub fn new(exact: &ExactCounts, trigger: SideCounts, tolerance: Tolerance) -> Self {
        let bpf = &exact.side;
        let (bpf_count, trigger_count) = (bpf.count(), trigger.count());
        let mut ranges: Vec<BucketRange> = bpf.counts.keys().chain(trigger.counts.keys()).copied().collect();
        ranges.sort_unstable();
        ranges.dedup();
        let (mut below_bpf, mut below_trigger, mut distance) = (0u64, 0u64, 0f64);
        let mut rows = Vec::with_capacity(ranges.len());
        for (index, range) in ranges.iter().copied().enumerate() {
            // All buckets between this row and the next are empty on both sides: a wait that moved crossed
            // all of them.
            let last_edge = ranges.get(index + 1).map_or(range.1, |next| next.0 - 1);
            let count = |side: &SideCounts| side.counts.get(&range).copied().unwrap_or(0);
            let (here_bpf, here_trigger) = (count(bpf), count(&trigger));
            below_bpf += here_bpf;
            below_trigger += here_trigger;
            let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
            distance = distance.max((share(below_bpf, bpf_count) - share(below_trigger, trigger_count)).abs());
            rows.push(ComparedBucket {
                range,
                bpf: here_bpf,
                trigger: here_trigger,
                moved: i128::from(below_bpf) - i128::from(below_trigger),
                explained: exact
                    .may_cross(range.1, last_edge)
                    .saturating_add(tolerance.waits)
                    .saturating_add(tolerance.held_up),
            });
        }
        let mut comparison = Self {
            bpf: bpf.clone(),
            trigger,
            clock_ns: exact.clock_ns(),
            tolerance,
            rows,
            distance,
            mismatches: Vec::new(),
        };
        comparison.mismatches = comparison.find_mismatches(bpf_count, trigger_count);
        comparison
    }

    /// Whether the two sides agree.
    pub fn agrees(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Whether the two sums are compared. A wait that only one side may have can be of any length.
    pub fn compares_sums(&self) -> bool {
        self.bpf.sum_ns.is_some() && self.trigger.sum_ns.is_some() && self.tolerance.waits == 0
    }

    fn find_mismatches(&self, bpf: u64, trigger: u64) -> Vec<Mismatch> {
        let mut faults = Vec::new();
        if bpf == 0 && trigger == 0 {
            faults.push(Mismatch::NoWaits);
        }
        let dropped = self.trigger.totals.dropped.saturating_add(self.bpf.totals.dropped);
        if dropped > 0 {
            faults.push(Mismatch::Dropped { dropped });
        }
        if bpf.abs_diff(trigger) > self.tolerance.waits {
            faults.push(Mismatch::Count { bpf, trigger, tolerated: self.tolerance.waits });
        }
        // Only the edge with the most unexplained waits: one error moves waits across many edges. Above the last bucket
        // nothing moves: a wait that is missing there is missing altogether, which the count reports.
        let edges = self.rows.split_last().map_or(&[][..], |(_, edges)| edges);
        let worst = edges.iter().max_by_key(|row| row.moved.unsigned_abs().saturating_sub(row.explained.into()));
        if let Some(row) = worst.filter(|row| row.moved.unsigned_abs() > row.explained.into()) {
            faults.push(Mismatch::Moved {
                edge_ns: row.range.1,
                moved: u64::try_from(row.moved.unsigned_abs()).unwrap_or(u64::MAX),
                explained: row.explained,
            });
        }
        let sums = self.bpf.sum_ns.zip(self.trigger.sum_ns).filter(|_| self.compares_sums());
        if let Some((bpf_ns, trigger_ns)) = sums {
            let by_clock_ns = u128::from(bpf.max(trigger)) * u128::from(self.clock_ns);
            let explained_ns = by_clock_ns + u128::from(self.tolerance.held_up) * HELD_UP_NS;
            let difference_ns = bpf_ns.abs_diff(trigger_ns);
            if difference_ns > explained_ns {
                faults.push(Mismatch::Sum { difference_ns, explained_ns });
            }
        }
        faults
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoWaits => {
                f.write_str("neither result has a wait, so nothing was compared; measure longer, or widen the filter")
            }
            Self::Dropped { dropped } => write!(
                f,
                "{}: a table or the ring buffer was full (raise `--max-tasks` and `--ring-size`), no tracepoint showed a \
                 switch, or the kernel skipped a program",
                match dropped {
                    1 => "1 wait or event was dropped".to_owned(),
                    _ => format!("{} waits or events were dropped", thousands(*dropped)),
                }
            ),
            Self::Count { bpf, trigger, tolerated } => write!(
                f,
                "the counts differ by {}: {} by wakelat, {} by the hist trigger; {} may be in one result only",
                thousands(bpf.abs_diff(*trigger)),
                thousands(*bpf),
                thousands(*trigger),
                counted(*tolerated, "wait"),
            ),
            Self::Moved { edge_ns, moved, explained } => write!(
                f,
                "{} on the other side of {} ns in one of the results; differences between clock readings explain {}",
                match moved {
                    1 => "1 wait is".to_owned(),
                    _ => format!("{} waits are", thousands(*moved)),
                },
                thousands(*edge_ns),
                thousands(*explained)
            ),
            Self::Sum { difference_ns, explained_ns } => write!(
                f,
                "the sums differ by {} ns; differences between clock readings explain {} ns",
                thousands(*difference_ns),
                thousands(*explained_ns)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use wakelat_tracefs::hist_trigger::wakeup_latency::Buckets;

    const BUCKETS: [Buckets; 2] = [Buckets::Log2, Buckets::Linear { width_ns: 10_000, size: 4096 }];

    fn exact(values: &[u64], buckets: Buckets, clock_ns: u64) -> ExactCounts {
        let mut exact = ExactCounts::new(buckets, clock_ns);
        values.iter().for_each(|value| exact.record(*value));
        exact
    }

    /// The counts of a trigger that saw these values.
    fn trigger(values: &[u64], buckets: Buckets) -> SideCounts {
        exact(values, buckets, 0).side
    }

    fn compared(bpf: &[u64], other: &[u64], buckets: Buckets) -> Comparison {
        Comparison::new(&exact(bpf, buckets, CLOCK_NS), trigger(other, buckets), Tolerance::default())
    }

    /// Waits with a realistic distribution: most around 50 µs, some much longer.
    fn waits() -> Vec<u64> {
        (0..10_000u64).map(|i| 20_000 + i * 7919 % 60_000 + if i % 50 == 0 { i * 1_000 } else { 0 }).collect()
    }

    #[test]
    fn the_same_waits_agree() {
        for buckets in BUCKETS {
            let comparison = compared(&waits(), &waits(), buckets);
            assert!(comparison.agrees(), "{:?}", comparison.mismatches);
            assert_eq!(comparison.distance, 0.0);
            assert!(comparison.rows.iter().all(|row| row.bpf == row.trigger && row.moved == 0));
        }
    }

    #[test]
    fn one_lost_wait_in_a_hundred_is_detected() {
        let lost: Vec<u64> = waits().into_iter().enumerate().filter(|(i, _)| i % 100 != 0).map(|(_, v)| v).collect();
        let comparison = compared(&lost, &waits(), BUCKETS[0]);
        assert!(
            comparison.mismatches.contains(&Mismatch::Count { bpf: 9_900, trigger: 10_000, tolerated: 0 }),
            "{:?}",
            comparison.mismatches
        );
    }

    #[test]
    fn a_shift_by_one_bucket_is_detected() {
        let doubled: Vec<u64> = waits().into_iter().map(|value| value * 2).collect();
        let comparison = compared(&doubled, &waits(), BUCKETS[0]);
        assert!(matches!(comparison.mismatches[0], Mismatch::Moved { .. }), "{:?}", comparison.mismatches);
        let moved: Vec<u64> = waits().into_iter().map(|value| value + 10_000).collect();
        assert!(!compared(&moved, &waits(), BUCKETS[1]).agrees());
    }

    #[test]
    fn t6_restarted_clocks_are_detected() {
        // One wait in twenty is measured from a second wakeup halfway through it.
        let restarted: Vec<u64> =
            waits().into_iter().enumerate().map(|(i, v)| if i % 20 == 0 { v / 2 } else { v }).collect();
        for buckets in BUCKETS {
            let comparison = compared(&restarted, &waits(), buckets);
            assert!(
                comparison.mismatches.iter().any(|mismatch| matches!(mismatch, Mismatch::Moved { .. })),
                "{:?}",
                comparison.mismatches
            );
        }
    }

    #[test]
    fn a_single_wait_that_moved_too_far_is_detected() {
        let mut other = waits();
        other[7] += 3 * CLOCK_NS;
        // No other wait lies near the edge that this one crosses.
        let far: Vec<u64> = other.iter().map(|value| value - value % 16_384 + 8_192).collect();
        let mut moved = far.clone();
        moved[7] += 65_536;
        assert!(!compared(&far, &moved, Buckets::Linear { width_ns: 16_384, size: 2048 }).agrees());
    }

    #[test]
    fn a_wait_that_moved_across_an_empty_bucket_is_detected() {
        let near_the_edge = [16_380; 10];
        let mut jumped = near_the_edge;
        jumped[0] = 40_000;
        let comparison = compared(&near_the_edge, &jumped, BUCKETS[0]);
        assert!(
            comparison.mismatches.iter().any(|mismatch| matches!(mismatch, Mismatch::Moved { .. })),
            "{:?}",
            comparison.mismatches
        );
    }

    #[test]
    fn t27_dropped_events_are_a_mismatch() {
        let mut side = trigger(&waits(), BUCKETS[0]);
        side.totals.dropped = 3;
        let comparison = Comparison::new(&exact(&waits(), BUCKETS[0], CLOCK_NS), side, Tolerance::default());
        assert_eq!(comparison.mismatches, [Mismatch::Dropped { dropped: 3 }]);
    }

    #[test]
    fn two_empty_sides_do_not_agree() {
        assert_eq!(compared(&[], &[], BUCKETS[0]).mismatches, [Mismatch::NoWaits]);
    }

    #[test]
    fn only_the_given_number_of_waits_at_the_window_ends_is_tolerated() {
        let all = waits();
        let compared = |waits| {
            Comparison::new(
                &exact(&all[3..], BUCKETS[0], CLOCK_NS),
                trigger(&all, BUCKETS[0]),
                Tolerance { waits, held_up: 0 },
            )
        };
        assert!(compared(3).agrees(), "{:?}", compared(3).mismatches);
        assert!(!compared(2).agrees());
    }

    fn latency() -> impl Strategy<Value = u64> {
        (0u64..1 << 34, 0u32..34).prop_map(|(value, shift)| value >> shift)
    }

    proptest! {
        #[test]
        fn clock_readings_within_the_tolerance_always_agree(
            waits in prop::collection::vec((latency(), -(CLOCK_NS as i64)..=CLOCK_NS as i64), 1..200),
            linear: bool,
        ) {
            let buckets = BUCKETS[usize::from(linear)];
            let bpf: Vec<u64> = waits.iter().map(|(latency, _)| *latency).collect();
            let other: Vec<u64> = waits.iter().map(|(latency, jitter)| latency.saturating_add_signed(*jitter)).collect();
            let comparison = compared(&bpf, &other, buckets);
            prop_assert!(comparison.agrees(), "{:?}", comparison.mismatches);
        }

        #[test]
        fn losing_any_waits_is_detected(waits in prop::collection::vec(latency(), 2..200), lost in 1usize..100) {
            let lost = lost.min(waits.len());
            prop_assert!(!compared(&waits[lost..], &waits, BUCKETS[0]).agrees());
        }

        #[test]
        fn distance_is_the_largest_difference_of_the_cumulative_distributions(
            a in prop::collection::vec(latency(), 1..60),
            b in prop::collection::vec(latency(), 1..60),
        ) {
            let comparison = compared(&a, &b, BUCKETS[0]);
            let at = |values: &[u64], edge: u64| {
                values.iter().filter(|value| **value <= edge).count() as f64 / values.len() as f64
            };
            let expected = comparison
                .rows
                .iter()
                .map(|row| (at(&a, row.range.1) - at(&b, row.range.1)).abs())
                .fold(0.0, f64::max);
            prop_assert!((comparison.distance - expected).abs() < 1e-9);
        }
    }
}
