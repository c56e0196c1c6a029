//! `--max-overhead`, where the fewest tasks are still too dear: how long to rest, from what measuring has taken so far. Pure.
//!
//! What was taken above the limit is owed, and rested for after each period in which was measured. A period is as long as was
//! known before it, and a rest ends at random: neither has to do with what happens meanwhile, so that the
//! periods are a fair sample of the time.

use super::limit::AIM;

/// A period and the rest after it are about as long as this together: ns. So a run of some seconds has several.
const ROUND_NS: f64 = 1e9;
/// How short a period may be: to begin and to end one takes some hundred µs, and a wait longer than it is never seen whole.
const SHORTEST_PERIOD_NS: f64 = 1e8;
/// A rest is worth it from here on: ns.
const SHORTEST_REST_NS: f64 = 5e7;
/// What is owed from earlier is rested for in rests up to this: ns.
const LONGEST_REST_NS: f64 = 2e9;

/// What measuring may take, and has taken.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// ns of CPU time that may be taken in a ns.
    allowed: f64,
    /// ns of CPU time above what was allowed.
    owed_ns: f64,
    period_ns: f64,
}

impl Budget {
    /// Of so many millionths of the time of `cpus`.
    pub fn new(ppm: u32, cpus: u32) -> Self {
        Self { allowed: AIM * f64::from(ppm) / 1e6 * f64::from(cpus), owed_ns: 0.0, period_ns: SHORTEST_PERIOD_NS }
    }

    /// How long the next period is to be: ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns as u64
    }

    /// A rest, if there was one, and the period after it have lasted `length_ns` together, and measuring took `taken_ns` of CPU
    /// time. Returns how long to rest now, if `may_rest`: ns. `random` is from 0 to 1.
    pub fn rest_ns(&mut self, length_ns: u64, taken_ns: u64, may_rest: bool, random: f64) -> Option<u64> {
        let taken_ns = taken_ns as f64;
        // Nothing is saved up: what was not taken may not be taken later.
        self.owed_ns = (self.owed_ns + taken_ns - self.allowed * length_ns as f64).max(0.0);
        let due_ns = self.owed_ns / self.allowed;
        // As long as it takes to pay for this period, at least.
        let rest_ns = due_ns.min((taken_ns / self.allowed).max(LONGEST_REST_NS));
        if !may_rest || rest_ns < SHORTEST_REST_NS {
            self.period_ns = ROUND_NS;
            return None;
        }
        let watched = self.period_ns / (self.period_ns + rest_ns);
        self.period_ns = (ROUND_NS * watched).clamp(SHORTEST_PERIOD_NS, ROUND_NS);
        Some((rest_ns * (0.5 + random)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::share::scatter;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A run in which measuring takes `per_ns` of CPU time in a ns, and `per_rest_ns` for each rest. Returns its length, what was taken,
    /// the rests, and the periods: ns.
    fn run(budget: &mut Budget, periods: u64, per_ns: f64, per_rest_ns: u64) -> (u64, u64, Vec<u64>, Vec<u64>) {
        let (mut length_ns, mut all_taken_ns, mut rests, mut watched) = (0, 0, Vec::new(), Vec::new());
        let mut rest_ns = 0;
        for number in 0..periods {
            let period_ns = budget.period_ns();
            let taken_ns = (period_ns as f64 * per_ns) as u64 + if rest_ns > 0 { per_rest_ns } else { 0 };
            length_ns += rest_ns + period_ns;
            all_taken_ns += taken_ns;
            watched.push(period_ns);
            let random = scatter(number + 1) as f64 / u64::MAX as f64;
            rest_ns = budget.rest_ns(rest_ns + period_ns, taken_ns, true, random).unwrap_or(0);
            rests.push(rest_ns);
        }
        (length_ns + rest_ns, all_taken_ns, rests, watched)
    }

    #[test]
    fn what_is_below_the_limit_needs_no_rest() {
        let (.., rests, _) = run(&mut Budget::new(10_000, 2), 100, 0.017, 0);
        assert!(rests.iter().all(|rest| *rest == 0), "{rests:?}");
    }

    #[test]
    fn who_may_not_rest_owes() {
        let mut budget = Budget::new(10_000, 1);
        assert_eq!(budget.rest_ns(SECOND_NS, SECOND_NS / 20, false, 0.5), None);
        let rest_ns = budget.rest_ns(SECOND_NS / 10, SECOND_NS / 1_000, true, 0.5);
        assert_eq!(rest_ns, Some(2 * SECOND_NS));
    }

    #[test]
    fn a_load_that_has_gone_is_measured_without_rests_again() {
        let mut budget = Budget::new(5_000, 2);
        run(&mut budget, 50, 0.05, 500_000);
        let (.., rests, periods) = run(&mut budget, 20, 0.001, 0);
        assert!(rests[2..].iter().all(|rest| *rest == 0), "{rests:?}");
        assert_eq!(periods.last(), Some(&SECOND_NS));
    }

    proptest! {
        #[test]
        fn a_steady_load_is_held_below_the_limit_and_not_far_below(
            ppm in 500..50_000u32, times in 1.2..50.0f64, per_rest_ns in 0..1_000_000u64,
        ) {
            let mut budget = Budget::new(ppm, 2);
            let limit = 2.0 * f64::from(ppm) / 1e6;
            let (length_ns, taken_ns, rests, periods) = run(&mut budget, 400, limit * times, per_rest_ns);
            let share = taken_ns as f64 / length_ns as f64 / limit;
            prop_assert!((0.8..=0.92).contains(&share), "{share}: {rests:?}, {periods:?}");
            prop_assert!(periods.iter().all(|period| *period >= SECOND_NS / 10), "{periods:?}");
        }
    }
}
