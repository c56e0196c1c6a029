//! Counts periods without an activation. The tracer skips periods for which it is too late
//! (`wait_next_period`, kernel/trace/trace_osnoise.c, 5.14 to 7.2) and does not number them, so only the
//! clock shows them.

use std::collections::BTreeMap;

/// Counts the periods without an activation of all CPUs.
#[derive(Clone, Debug)]
pub struct PeriodCounter {
    period_ns: u64,
    cpus: BTreeMap<u32, Stretch>,
    /// Skipped periods of stretches that have ended.
    skipped: u64,
}

/// Consecutive activations of a CPU, between two restarts of its trace.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: Due,
    last: Due,
}

/// The number of an activation, and when its timer was due.
#[derive(Clone, Copy, Debug)]
struct Due {
    seq: u64,
    at_ns: u64,
}

impl PeriodCounter {
    /// Creates a counter that has seen no activation.
    pub fn new(period_ns: u64) -> Self {
        Self { period_ns, cpus: BTreeMap::new(), skipped: 0 }
    }

    /// Adds activation `seq` of `cpu`, which was due at `at_ns`. The activations of a CPU must be in order:
    /// a number or a time that goes back starts a new stretch.
    pub fn push(&mut self, cpu: u32, seq: u64, at_ns: u64) {
        let due = Due { seq, at_ns };
        match self.cpus.get_mut(&cpu) {
            Some(stretch) if seq > stretch.last.seq && at_ns > stretch.last.at_ns => stretch.last = due,
            _ => {
                let ended = self.cpus.insert(cpu, Stretch { first: due, last: due });
                self.skipped += ended.map_or(0, |ended| ended.skipped(self.period_ns));
            }
        }
    }

    /// The number of periods without an activation.
    pub fn skipped(&self) -> u64 {
        self.skipped + self.cpus.values().map(|stretch| stretch.skipped(self.period_ns)).sum::<u64>()
    }
}

impl Stretch {
    /// Counts from the first to the last activation. Only the two ends matter, so inaccurate times do not
    /// add up.
    fn skipped(&self, period_ns: u64) -> u64 {
        let span_ns = self.last.at_ns - self.first.at_ns;
        let periods = (span_ns + period_ns / 2) / period_ns.max(1);
        periods.saturating_sub(self.last.seq - self.first.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_000;

    fn skipped(dues: &[(u32, u64, u64)]) -> u64 {
        let mut periods = PeriodCounter::new(PERIOD_NS);
        dues.iter().for_each(|(cpu, seq, at_ns)| periods.push(*cpu, *seq, *at_ns));
        periods.skipped()
    }

    #[test]
    fn only_the_clock_shows_a_period_without_an_activation() {
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 2, 6_000), (0, 3, 7_010)]), 0);
        // The numbers are consecutive although three periods have passed.
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 2, 6_020), (0, 3, 8_990)]), 2);
        assert_eq!(skipped(&[(0, 1, 5_000), (1, 1, 5_000), (1, 2, 8_000), (0, 2, 7_000)]), 3);
    }

    #[test]
    fn lost_activations_are_not_skipped_periods() {
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 4, 8_000)]), 0);
    }

    #[test]
    fn inaccurate_times_do_not_add_up() {
        let dues: Vec<_> = (0..1_000).map(|seq| (0, seq, seq * PERIOD_NS + seq % 2 * 900)).collect();
        assert_eq!(skipped(&dues), 1);
        assert_eq!(skipped(&dues[..999]), 0);
    }

    #[test]
    fn another_trace_starts_a_new_stretch() {
        let dues = [(0, 1, 5_000), (0, 2, 7_000), (0, 1, 50_000), (0, 2, 51_000), (0, 3, 10), (0, 4, 2_010)];
        assert_eq!(skipped(&dues), 2);
    }
}
