//! How long to measure, and in which intervals.

use super::{ConfigError, duration};

/// The shortest interval: reading the kernel's counters and showing a result takes a good part of it. If
/// it takes longer, intervals are skipped.
const MIN_INTERVAL_NS: u64 = 1_000_000;

/// How long to measure, and in which intervals. If several limits are given, the first one reached ends
/// the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowConfig {
    /// How long to measure: ns, at least 1; none to measure until Ctrl-C.
    pub duration_ns: Option<u64>,
    /// The interval at which to report and reset: ns; none for one report at the end.
    pub interval_ns: Option<u64>,
    /// Number of intervals, at least 1 and only with an interval; none for no limit.
    pub count: Option<u64>,
    /// How long to measure without counting before the window begins: ns.
    pub warm_up_ns: u64,
}

impl WindowConfig {
    pub(super) fn set_intervals(&mut self, interval_ns: Option<u64>, count: Option<u64>) -> Result<(), ConfigError> {
        if interval_ns.is_some_and(|interval| interval < MIN_INTERVAL_NS) {
            return Err(ConfigError::Usage("the interval is too short; expected at least `1ms`".to_owned()));
        }
        let whole = count.unwrap_or(1).checked_mul(interval_ns.unwrap_or(0));
        if whole.is_none_or(|whole| whole > duration::MAX_NS) {
            return Err(ConfigError::Usage("too many intervals; expected at most `3650d` in total".to_owned()));
        }
        (self.interval_ns, self.count) = (interval_ns, count);
        Ok(())
    }
}
