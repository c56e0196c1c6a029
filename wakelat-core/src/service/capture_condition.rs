//! A condition on the waits of a cgroup: `p99>20ms for 30s`.

use crate::{render::units, why::counted::GroupTotal};

/// What of the waits of a cgroup a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatistic {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
    /// The longest wait.
    Max,
}

impl WaitStatistic {
    /// All statistics.
    pub const ALL: [Self; 5] = [Self::P50, Self::P90, Self::P99, Self::P999, Self::Max];

    /// The name in a condition.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }

    /// How many of 1,000 waits do not exceed it.
    const fn per_mille(self) -> u64 {
        match self {
            Self::P50 => 500,
            Self::P90 => 900,
            Self::P99 => 990,
            Self::P999 => 999,
            Self::Max => 1_000,
        }
    }

    /// Its value: ns. A percentile is at most a quarter too high, and never above the longest wait.
    pub fn value_ns(self, waits: &GroupTotal) -> u64 {
        match self {
            Self::Max => waits.max_ns,
            _ => waits.quantile_bound_ns(self.per_mille()),
        }
    }

    /// Whether it certainly exceeds `limit_ns`: a percentile counts only the waits in buckets that begin above the limit.
    fn exceeds(self, waits: &GroupTotal, limit_ns: u64) -> bool {
        if self == Self::Max {
            return waits.max_ns > limit_ns;
        }
        let above: u64 = waits.buckets().filter(|(from_ns, ..)| *from_ns > limit_ns).map(|(.., waits)| waits).sum();
        u128::from(above) * 1_000 > u128::from(waits.waits) * u128::from(1_000 - self.per_mille())
    }
}

/// A condition on the waits of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureCondition {
    /// What is compared.
    pub statistic: WaitStatistic,
    /// What it has to exceed: ns.
    pub limit_ns: u64,
    /// For how long: ns. 0: once is enough.
    pub hold_ns: u64,
}

/// The longest time whose waits are judged together: ns.
const LONGEST_WINDOW_NS: u64 = 5_000_000_000;

impl CaptureCondition {
    /// The time whose waits are judged together: ns. 0: those between two readings of the kernel's tables.
    pub(super) fn window_ns(&self) -> u64 {
        self.hold_ns.min(LONGEST_WINDOW_NS)
    }

    /// Whether these waits meet the condition.
    pub(super) fn is_met_by(&self, waits: &GroupTotal) -> bool {
        self.statistic.exceeds(waits, self.limit_ns)
    }
}

/// A condition that has held for long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureReason {
    /// The index of the condition.
    pub condition: usize,
    /// The cgroup whose waits meet it.
    pub cgroup: String,
    /// What the condition is about.
    pub statistic: WaitStatistic,
    /// Its value in all waits of that time: ns.
    pub value_ns: u64,
    /// How long the condition has held: ns.
    pub held_ns: u64,
}

impl CaptureReason {
    /// The reason as a sentence: `p99 of waits of /system.slice/db.service was 31.4 ms for 30.0 s`. The first window of a
    /// cgroup has no length: the sentence about a longest wait in it names none.
    pub fn sentence(&self) -> String {
        let Self { cgroup, statistic, value_ns, held_ns, .. } = self;
        let [value, held] = [*value_ns, *held_ns].map(|ns| units::duration(ns, true));
        match statistic {
            WaitStatistic::Max if *held_ns == 0 => format!("the longest wait of {cgroup} was {value}"),
            WaitStatistic::Max => format!("the longest wait of {cgroup} in {held} was {value}"),
            _ => format!("{} of waits of {cgroup} was {value} for {held}", statistic.name()),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use wakelat_common::cause_sums::GroupSums;

    use super::*;

    /// `count` waits of `ns` each.
    pub fn waits(count: u64, ns: u64) -> GroupTotal {
        let mut sums = GroupSums::EMPTY;
        (0..count).for_each(|_| sums.begin_wait(ns));
        GroupTotal::from(&sums)
    }

    /// The condition that `statistic` exceeds 20 ms.
    pub fn above_20_ms(statistic: WaitStatistic, hold_ns: u64) -> CaptureCondition {
        CaptureCondition { statistic, limit_ns: 20_000_000, hold_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{above_20_ms, waits},
        *,
    };

    #[test]
    fn a_percentile_exceeds_the_limit_if_more_waits_than_the_others_do() {
        for (statistic, long, expected) in [
            (WaitStatistic::P50, 500, false),
            (WaitStatistic::P50, 501, true),
            (WaitStatistic::P90, 100, false),
            (WaitStatistic::P90, 101, true),
            (WaitStatistic::P99, 10, false),
            (WaitStatistic::P99, 11, true),
            (WaitStatistic::P999, 1, false),
            (WaitStatistic::P999, 2, true),
            (WaitStatistic::Max, 0, false),
            (WaitStatistic::Max, 1, true),
        ] {
            let mut all = waits(1_000 - long, 1_000_000);
            all.merge(&waits(long, 30_000_000));
            assert_eq!(above_20_ms(statistic, 0).is_met_by(&all), expected, "{long} of 1,000 above {statistic:?}");
        }
    }

    #[test]
    fn a_percentile_that_only_its_bound_puts_above_the_limit_does_not_count() {
        // Both are in the bucket from 16.8 ms to 21.0 ms, and may be below 20 ms.
        let close = waits(100, 19_999_999);
        assert!(WaitStatistic::P99.value_ns(&close) <= 19_999_999);
        let mut both = close.clone();
        both.merge(&waits(100, 20_500_000));
        let condition = |statistic| above_20_ms(statistic, 0).is_met_by(&both);
        assert_eq!([WaitStatistic::P50, WaitStatistic::Max].map(condition), [false, true]);
        assert!(!above_20_ms(WaitStatistic::P50, 0).is_met_by(&GroupTotal::default()));
    }

    #[test]
    fn a_reason_is_a_sentence() {
        let reason = CaptureReason {
            condition: 0,
            cgroup: "/a.slice/b".to_owned(),
            statistic: WaitStatistic::P999,
            value_ns: 31_400_000,
            held_ns: 30_000_000_000,
        };
        assert_eq!(reason.sentence(), "p99.9 of waits of /a.slice/b was 31.4 ms for 30.0 s");
        let longest = CaptureReason { statistic: WaitStatistic::Max, ..reason };
        assert_eq!(longest.sentence(), "the longest wait of /a.slice/b in 30.0 s was 31.4 ms");
        let one = CaptureReason { held_ns: 0, ..longest };
        assert_eq!(one.sentence(), "the longest wait of /a.slice/b was 31.4 ms");
    }
}
