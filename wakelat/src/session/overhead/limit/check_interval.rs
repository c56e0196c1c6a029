//! How often user space looks at the programs.

use super::OverheadLimit;

/// Time between two checks: ns, and ns for each ns of CPU time per ns that the limit allows. A check takes up to 300 µs of
/// CPU time on an idle machine, whose caches are cold.
const OFTEN_NS: f64 = 1e8;
const RARELY_NS: f64 = 5e8;
const CHECK_PER_LIMIT_NS: f64 = 1e10;
/// From the start of a run to its first check, from that to the second, and from that to the third: ns. How often the kernel
/// calls the programs is not known before, and the calls of stopped programs until a later check can cost what a small limit
/// allows in a second. The first check is so early that it can miss what the load does, and the second one that the price of a
/// call is still close to the assumed one.
const FIRST_INTERVALS_NS: [u64; 3] = [10_000_000, 40_000_000, 100_000_000];
/// The part of the inflow for checks in a pause that does not make them rarer.
const CHECKS_SHARE: f64 = 0.2;

impl OverheadLimit {
    /// How often to check in a period whether the programs may run more often: ns.
    pub fn check_interval_ns(&self) -> u64 {
        if self.is_calm { self.pause_check_interval_ns() } else { OFTEN_NS as u64 }
    }

    /// When to check next in a pause what calling the stopped programs costs: ns from the last check on. Calls that are
    /// unnoticed must not exceed the limit, and neither must the checks.
    pub fn pause_check_interval_ns(&self) -> u64 {
        if let Some(interval_ns) = FIRST_INTERVALS_NS.get(self.checks) {
            return *interval_ns;
        }
        self.later_interval_ns() as u64
    }

    /// What checks take in a pause: ns of CPU time per ns.
    pub(super) fn checks_share(&self) -> f64 {
        self.price_of_check.value() / self.later_interval_ns()
    }

    /// Time between two checks in a pause, after the first ones of a run: ns.
    fn later_interval_ns(&self) -> f64 {
        let often = (self.limit * CHECK_PER_LIMIT_NS).max(OFTEN_NS);
        (often + self.price_of_check.value() / (CHECKS_SHARE * self.inflow())).min(RARELY_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{LimitReading, PauseEnd},
        *,
    };

    const MS: u64 = 1_000_000;

    fn limit(ppm: u32) -> OverheadLimit {
        OverheadLimit::new(ppm, 1, 0, LimitReading::default())
    }

    /// When the next checks of a long pause are due, if each takes `check_ns` of CPU time: ms since the start of the run.
    fn due_ms<const N: usize>(limit: &mut OverheadLimit, check_ns: u64) -> [u64; N] {
        [(); N].map(|()| {
            let mut now = limit.last;
            now.at_ns += limit.pause_check_interval_ns();
            now.tool_ns += check_ns;
            assert_eq!(limit.end_pause(now, 60_000 * MS), PauseEnd::Longer(60_000 * MS));
            assert_eq!(now.at_ns % MS, 0);
            now.at_ns / MS
        })
    }

    #[test]
    fn a_run_is_checked_after_10_50_and_150_ms_and_then_every_100() {
        assert_eq!(due_ms::<5>(&mut limit(1_000), 0), [10, 50, 150, 250, 350]);
    }

    #[test]
    fn checks_are_up_to_half_a_second_apart_if_the_limit_is_large_or_they_take_much_of_it() {
        assert_eq!(due_ms::<4>(&mut limit(100_000), 0), [10, 50, 150, 650]);
        assert_eq!(due_ms::<4>(&mut limit(1_000), 150_000), [10, 50, 150, 650]);
    }

    #[test]
    fn only_the_first_pause_of_a_run_has_early_checks() {
        let mut limit = limit(1_000);
        assert_eq!(due_ms::<2>(&mut limit, 0), [10, 50]);
        let now = limit.last;
        limit.begin_period(now);
        limit.end_period(now, MS, false, 0.0);
        assert_eq!(due_ms::<2>(&mut limit, 0), [150, 250]);
    }
}
