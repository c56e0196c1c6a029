//! How often user space looks at the programs.

use super::OverheadLimit;

/// Time between two checks: ns, and ns for each ns of CPU time per ns that the limit allows. A check takes up to 300 µs of
/// CPU time on an idle machine, whose caches are cold.
const OFTEN_NS: f64 = 1e8;
const RARELY_NS: f64 = 5e8;
const CHECK_PER_LIMIT_NS: f64 = 2e10;
/// The part of the inflow for checks in a pause that does not make them rarer.
const CHECKS_SHARE: f64 = 0.2;

impl OverheadLimit {
    /// How often to check in a period whether the programs may run more often: ns.
    pub fn check_interval_ns(&self) -> u64 {
        if self.is_calm { self.pause_check_interval_ns() } else { OFTEN_NS as u64 }
    }

    /// How often to check in a pause what calling the stopped programs costs: ns. Calls that are unnoticed must not exceed
    /// the limit, and neither must the checks.
    pub fn pause_check_interval_ns(&self) -> u64 {
        let often = (self.limit * CHECK_PER_LIMIT_NS).max(OFTEN_NS);
        (often * (1.0 + self.idle_share / (CHECKS_SHARE * self.inflow()))).min(RARELY_NS) as u64
    }
}
