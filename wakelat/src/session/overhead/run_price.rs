//! The price of a run of a BPF program: pure.

use wakelat_common::program_runs::RunTimeSums;

use super::recent_mean::RecentMean;

/// The cost of a run of a program, by the runs that were timed.
#[derive(Clone, Copy, Debug)]
pub struct RunPrice {
    /// ns of a run; the weight of a value is a number of runs.
    mean: RecentMean,
}

impl RunPrice {
    /// A price that is assumed to be `ns`, which counts like the times of `assumed_runs` runs. Later, new times of `many_runs`
    /// runs count as much as all earlier ones.
    pub const fn assumed(ns: f64, assumed_runs: f64, many_runs: f64) -> Self {
        Self { mean: RecentMean::assumed(ns, assumed_runs, many_runs) }
    }

    /// Mean time of a run: ns.
    pub fn ns(&self) -> f64 {
        self.mean.value()
    }

    /// Assumes that runs take twice the time from now on.
    pub fn double(&mut self) {
        self.mean.scale(2.0);
    }

    /// Adds what the runs timed between two readings took.
    pub fn update(&mut self, before: &RunTimeSums, now: &RunTimeSums) {
        let runs = (now.runs - before.runs) as f64;
        if runs == 0.0 {
            return;
        }
        let shown = time(now) - time(before);
        // Few runs show little: they may be the first in a while, or prolonged by an interrupt or the hypervisor.
        self.mean.add((shown / runs).max(0.0), runs);
    }

    /// The time of `count` runs, of which the timed ones show `times`: ns.
    pub fn total_ns(&self, count: u64, times: &RunTimeSums) -> f64 {
        time(times) + (count as f64 - times.runs as f64) * self.ns()
    }
}

/// Time of the runs, and of timing them: ns.
fn time(times: &RunTimeSums) -> f64 {
    (times.programs_ns() + times.timing_ns()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(runs: u64, ns: u64) -> RunTimeSums {
        RunTimeSums { timed: runs / 64, runs, ns, clock_ns: 0 }
    }

    #[test]
    fn a_few_long_runs_change_the_price_little() {
        let mut price = RunPrice::assumed(100.0, 1_000.0, 1_000.0);
        price.update(&times(0, 0), &times(64, 640_000));
        assert!((100.0..1_000.0).contains(&price.ns()), "{}", price.ns());
        let later = |n: u64| times(64 + n * 10_000, 640_000 + n * 2_000_000);
        (0..20).for_each(|n| price.update(&later(n), &later(n + 1)));
        assert!((price.ns() - 200.0).abs() < 1.0, "{}", price.ns());
    }

    #[test]
    fn runs_that_were_not_timed_yet_have_the_price_of_the_others() {
        let price = RunPrice::assumed(100.0, 1_000.0, 1_000.0);
        assert_eq!(price.total_ns(5, &RunTimeSums::default()), 500.0);
        assert_eq!(price.total_ns(700, &times(640, 640)), 6_640.0);
        // The last timed run also stands for runs of the other kind.
        assert_eq!(price.total_ns(600, &times(640, 64_000)), 60_000.0);
    }
}
