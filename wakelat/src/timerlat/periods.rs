//! Periods without an activation. The tracer skips a period for which it is still late (`wait_next_period`,
//! kernel/trace/trace_osnoise.c, 5.14 to 7.2), and numbers no activation for it: only the clock shows it.

use std::collections::BTreeMap;

/// Counts the periods between the activations of each CPU.
#[derive(Clone, Debug)]
pub struct PeriodCounter {
    period_ns: u64,
    cpus: BTreeMap<u32, Stretch>,
    /// Of the stretches that are over.
    skipped: u64,
}

/// Activations of a CPU, one after the other.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: Due,
    last: Due,
}

/// When an activation was due.
#[derive(Clone, Copy, Debug)]
struct Due {
    seq: u64,
    at_ns: u64,
}

impl PeriodCounter {
    /// No activation has been seen yet.
    pub fn new(period_ns: u64) -> Self {
        Self { period_ns, cpus: BTreeMap::new(), skipped: 0 }
    }

    /// Activation `seq` of `cpu` was due at `at_ns`. They come in their order on each CPU; a number or an instant that goes
    /// back begins anew.
    pub fn push(&mut self, cpu: u32, seq: u64, at_ns: u64) {
        let due = Due { seq, at_ns };
        match self.cpus.get_mut(&cpu) {
            Some(stretch) if seq > stretch.last.seq && at_ns > stretch.last.at_ns => stretch.last = due,
            _ => {
                let over = self.cpus.insert(cpu, Stretch { first: due, last: due });
                self.skipped += over.map_or(0, |over| over.skipped(self.period_ns));
            }
        }
    }

    /// Periods that had no activation.
    pub fn skipped(&self) -> u64 {
        self.skipped + self.cpus.values().map(|stretch| stretch.skipped(self.period_ns)).sum::<u64>()
    }
}

impl Stretch {
    /// From its first to its last activation. Only the ends count, so that what one instant is off does not add up.
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
    fn a_period_without_an_activation_is_seen_by_the_clock_alone() {
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 2, 6_000), (0, 3, 7_010)]), 0);
        // Numbers follow each other though three periods have passed.
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 2, 6_020), (0, 3, 8_990)]), 2);
        assert_eq!(skipped(&[(0, 1, 5_000), (1, 1, 5_000), (1, 2, 8_000), (0, 2, 7_000)]), 3);
    }

    #[test]
    fn activations_that_were_lost_had_their_periods() {
        assert_eq!(skipped(&[(0, 1, 5_000), (0, 4, 8_000)]), 0);
    }

    #[test]
    fn instants_that_are_off_do_not_add_up() {
        let dues: Vec<_> = (0..1_000).map(|seq| (0, seq, seq * PERIOD_NS + seq % 2 * 900)).collect();
        assert_eq!(skipped(&dues), 1);
        assert_eq!(skipped(&dues[..999]), 0);
    }

    #[test]
    fn another_trace_begins_anew() {
        let dues = [(0, 1, 5_000), (0, 2, 7_000), (0, 1, 50_000), (0, 2, 51_000), (0, 3, 10), (0, 4, 2_010)];
        assert_eq!(skipped(&dues), 2);
    }
}
