//! How long the hypervisor had a CPU during a wait, from the CPU's total at each switch.

use std::collections::VecDeque;

/// The number of intervals with stolen time that are kept.
const MAX_INTERVALS: usize = 1_024;

/// When the hypervisor had one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct StolenTime {
    /// The last switch, and the total then: ns.
    last: Option<(u64, u64)>,
    /// The intervals between two switches in which time was stolen, in the order of time.
    intervals: VecDeque<StolenInterval>,
}

/// Stolen time between two switches.
#[derive(Clone, Copy, Debug)]
struct StolenInterval {
    from_ns: u64,
    to_ns: u64,
    stolen_ns: u64,
}

impl StolenTime {
    /// Notes the total at a switch.
    pub(super) fn switch(&mut self, at_ns: u64, total_ns: u64) {
        let Some((from_ns, before_ns)) = self.last.replace((at_ns, total_ns)) else { return };
        let stolen_ns = total_ns.saturating_sub(before_ns);
        if stolen_ns == 0 {
            return;
        }
        if self.intervals.len() == MAX_INTERVALS {
            self.intervals.pop_front();
        }
        self.intervals.push_back(StolenInterval { from_ns, to_ns: at_ns, stolen_ns });
    }

    /// The stolen time since `since_ns`, until the last switch: ns. In an interval that began before, the stolen time
    /// counts from there, as far as there is room.
    pub(super) fn since(&self, since_ns: u64) -> u64 {
        let later = self.intervals.iter().rev().take_while(|interval| interval.to_ns > since_ns);
        later
            .map(|interval| interval.stolen_ns.min(interval.to_ns.saturating_sub(interval.from_ns.max(since_ns))))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stolen_time(switches: &[(u64, u64)]) -> StolenTime {
        let mut stolen = StolenTime::default();
        switches.iter().for_each(|(at_ns, total_ns)| stolen.switch(*at_ns, *total_ns));
        stolen
    }

    #[test]
    fn a_wait_has_the_stolen_time_of_the_intervals_in_it() {
        let stolen = stolen_time(&[(100, 5_000), (200, 5_030), (300, 5_030), (400, 5_040)]);
        assert_eq!([100, 200, 300, 400].map(|since_ns| stolen.since(since_ns)), [40, 10, 10, 0]);
    }

    #[test]
    fn stolen_time_of_an_interval_that_began_before_the_wait_is_at_most_the_wait() {
        let stolen = stolen_time(&[(100, 0), (200, 60)]);
        assert_eq!([0, 100, 130, 140, 190].map(|since_ns| stolen.since(since_ns)), [60, 60, 60, 60, 10]);
    }

    #[test]
    fn the_total_at_the_first_switch_and_one_that_goes_backwards_count_nothing() {
        assert_eq!(stolen_time(&[(100, 7)]).since(0), 0);
        assert_eq!(stolen_time(&[(100, 7), (200, 3), (300, 4)]).since(0), 1);
        assert_eq!(stolen_time(&[(200, 0), (200, 9)]).since(0), 0);
    }

    #[test]
    fn only_the_last_intervals_are_kept() {
        let switches: Vec<(u64, u64)> = (0..3_000).map(|at_ns| (10 * at_ns, at_ns)).collect();
        assert_eq!(stolen_time(&switches).since(0), MAX_INTERVALS as u64);
    }
}
