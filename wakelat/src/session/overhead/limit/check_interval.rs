//! How often user space looks at the programs.

use super::OverheadLimit;

/// Time between two checks: ns, and ns for each ns of CPU time per ns that the limit allows. A check takes up to 300 µs of
/// CPU time on an idle machine, whose caches are cold.
const OFTEN_NS: f64 = 1e8;
const RARELY_NS: f64 = 5e8;
const CHECK_PER_LIMIT_NS: f64 = 1e10;
/// From the start of a run to its first check, and from that to the second: ns. How often the kernel calls the programs is not
/// known before, and the calls of stopped programs until a later check can cost what a small limit allows in a second. The
/// first check is so early that it can miss what the load does.
const FIRST_INTERVALS_NS: [u64; 2] = [10_000_000, 40_000_000];
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
        let often = (self.limit * CHECK_PER_LIMIT_NS).max(OFTEN_NS);
        (often * (1.0 + self.idle_share.value() / (CHECKS_SHARE * self.inflow()))).min(RARELY_NS) as u64
    }
}
