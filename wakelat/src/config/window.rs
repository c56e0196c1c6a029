//! For how long and in which steps.

use super::{ConfigError, span};
use crate::cli::WindowFlags;

/// The shortest interval: reading the kernel's counters and showing a result takes a good part of it. Where it takes more,
/// intervals are skipped.
const MIN_INTERVAL_NS: u64 = 1_000_000;

/// For how long and in which steps. All ns; where several limits are given, the first one reached ends the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowConfig {
    /// How long to measure; none for until Ctrl-C. At least 1.
    pub duration_ns: Option<u64>,
    /// After how long to show the result and begin anew; none for one result at the end.
    pub interval_ns: Option<u64>,
    /// How many intervals; none for any number. At least 1, and only where there is an interval.
    pub count: Option<u64>,
    /// How long to measure without counting before the window begins.
    pub warm_up_ns: u64,
}

impl WindowConfig {
    pub(crate) fn new(flags: &WindowFlags) -> Self {
        Self { duration_ns: flags.duration, warm_up_ns: flags.warm_up, ..Self::default() }
    }

    pub(super) fn set_intervals(&mut self, interval_ns: Option<u64>, count: Option<u64>) -> Result<(), ConfigError> {
        if interval_ns.is_some_and(|interval| interval < MIN_INTERVAL_NS) {
            return Err(ConfigError::Usage("the interval is too short; expected at least `1ms`".to_owned()));
        }
        let whole = count.unwrap_or(1).checked_mul(interval_ns.unwrap_or(0));
        if whole.is_none_or(|whole| whole > span::MAX_NS) {
            return Err(ConfigError::Usage("the intervals are too many; expected at most `3650d` together".to_owned()));
        }
        (self.interval_ns, self.count) = (interval_ns, count);
        Ok(())
    }
}
