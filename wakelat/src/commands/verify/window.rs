//! The window that both sides measure.
//!
//! The triggers cannot be switched at the exact instant at which wakelat starts to count. So wakelat
//! measures for longer than the window, and the times of each wait decide whether it lies inside. A wait is
//! ambiguous only if it begins or ends during the short time of a switch: then only one side may have it.

/// Two clock readings in ns of CLOCK_MONOTONIC, between which something happened, such as switching a
/// trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBracket {
    /// The reading before.
    pub before_ns: u64,
    /// The reading after.
    pub after_ns: u64,
}

impl TimeBracket {
    /// Runs `act` between two clock readings.
    ///
    /// # Errors
    /// The error of `act`.
    pub fn of<T, E>(now_ns: impl Fn() -> u64, act: impl FnOnce() -> Result<T, E>) -> Result<(Self, T), E> {
        let before_ns = now_ns();
        let done = act()?;
        Ok((Self { before_ns, after_ns: now_ns() }, done))
    }

    /// The time between the two readings in ns.
    pub fn length_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }

    /// Where an instant lies, if its clock reading may differ from these by `clock_ns`.
    pub fn side(&self, at_ns: u64, clock_ns: u64) -> BracketSide {
        if at_ns.saturating_add(clock_ns) < self.before_ns {
            BracketSide::Before
        } else if at_ns > self.after_ns.saturating_add(clock_ns) {
            BracketSide::After
        } else {
            BracketSide::Between
        }
    }
}

/// Where an instant lies relative to a [`TimeBracket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BracketSide {
    /// Before the bracket.
    Before,
    /// Inside the bracket, or too close to it to be sure.
    Between,
    /// After the bracket.
    After,
}

/// Where a wait lies relative to a [`VerifyWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPosition {
    /// Neither side counts it.
    Outside,
    /// Only one side may count it.
    Ambiguous,
    /// Both sides count it.
    Inside,
}

/// The times at which the parts of the measurement were switched.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyWindow {
    /// When the trigger began to record starts of waits.
    pub starts_on: TimeBracket,
    /// When the trigger began to record ends of waits.
    pub ends_on: TimeBracket,
    /// When the trigger began to count waits.
    pub counting_on: TimeBracket,
    /// When the trigger stopped counting waits; none while it counts.
    pub counting_off: Option<TimeBracket>,
    /// Maximum difference in ns of the two sides' clock readings for one event.
    pub clock_ns: u64,
}

impl VerifyWindow {
    /// Where a wait that began and ended at these times lies.
    pub fn position(&self, began_ns: u64, ended_ns: u64) -> WindowPosition {
        let off = self.counting_off.map_or(BracketSide::Before, |off| self.side(off, ended_ns));
        match (self.side(self.starts_on, began_ns), self.side(self.counting_on, ended_ns), off) {
            (BracketSide::Before, ..) | (_, BracketSide::Before, _) | (.., BracketSide::After) => {
                WindowPosition::Outside
            }
            (BracketSide::After, BracketSide::After, BracketSide::Before) => WindowPosition::Inside,
            _ => WindowPosition::Ambiguous,
        }
    }

    /// Whether the trigger may have recorded the start of this wait but not its end. The start then stays
    /// in the trigger's table and may be paired with the end of another wait.
    pub fn leaves_start_behind(&self, began_ns: u64, ended_ns: u64) -> bool {
        self.side(self.starts_on, began_ns) != BracketSide::Before
            && self.side(self.ends_on, ended_ns) != BracketSide::After
    }

    /// The length of the window in ns; 0 while it is open.
    pub fn length_ns(&self) -> u64 {
        self.counting_off.map_or(0, |off| off.before_ns.saturating_sub(self.counting_on.after_ns))
    }

    fn side(&self, moment: TimeBracket, at_ns: u64) -> BracketSide {
        moment.side(at_ns, self.clock_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ns: u64) -> TimeBracket {
        TimeBracket { before_ns: at_ns, after_ns: at_ns + 10 }
    }

    fn window() -> VerifyWindow {
        VerifyWindow {
            starts_on: moment(1_000),
            ends_on: moment(2_000),
            counting_on: moment(3_000),
            counting_off: Some(moment(9_000)),
            clock_ns: 5,
        }
    }

    #[test]
    fn a_wait_counts_if_both_sides_saw_its_start_and_end() {
        let window = window();
        assert_eq!(window.position(1_016, 3_016), WindowPosition::Inside);
        assert_eq!(window.position(8_000, 8_994), WindowPosition::Inside);
        assert_eq!(window.position(990, 5_000), WindowPosition::Outside, "only one side recorded its start");
        assert_eq!(window.position(2_500, 2_900), WindowPosition::Outside, "it ended before counting began");
        assert_eq!(window.position(8_000, 9_016), WindowPosition::Outside, "it ended after counting ended");
        assert_eq!(window.length_ns(), 5_990);
    }

    #[test]
    fn a_wait_that_begins_or_ends_during_a_switch_is_ambiguous() {
        let window = window();
        for (began, ended) in [(1_000, 5_000), (1_015, 5_000), (2_000, 2_995), (2_000, 3_015), (2_000, 9_005)] {
            assert_eq!(window.position(began, ended), WindowPosition::Ambiguous, "{began} to {ended}");
        }
    }

    #[test]
    fn a_wait_whose_end_the_trigger_missed_leaves_its_start_behind() {
        let window = window();
        assert!(window.leaves_start_behind(1_500, 1_800));
        assert!(!window.leaves_start_behind(500, 1_800), "no trigger recorded the start");
        assert!(!window.leaves_start_behind(1_500, 2_500), "the trigger saw the end");
    }

    #[test]
    fn an_open_window_has_no_end() {
        let window = VerifyWindow { counting_off: None, ..window() };
        assert_eq!(window.position(5_000, u64::MAX), WindowPosition::Inside);
    }
}
