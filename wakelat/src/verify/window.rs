//! The same window on both sides.
//!
//! Triggers cannot be switched at the very instant at which wakelat begins to count. So wakelat measures for longer than
//! the window, and each wait's own times say whether it lies inside. Only what falls into the short moments of switching
//! is ambiguous: one side alone may have it.

/// Something was switched, somewhere between two readings of the clock: ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBracket {
    /// Read before.
    pub before_ns: u64,
    /// Read after.
    pub after_ns: u64,
}

impl TimeBracket {
    /// Does something and notes when.
    ///
    /// # Errors
    /// Those of what is done.
    pub fn of<T, E>(now_ns: impl Fn() -> u64, act: impl FnOnce() -> Result<T, E>) -> Result<(Self, T), E> {
        let before_ns = now_ns();
        let done = act()?;
        Ok((Self { before_ns, after_ns: now_ns() }, done))
    }

    /// How long it took: ns.
    pub fn length_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }

    /// Where an instant lies, read by a clock that may differ from this one's by `clock_ns`.
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

/// Where an instant lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BracketSide {
    /// Before the moment.
    Before,
    /// Maybe before it, maybe after it.
    Between,
    /// After it.
    After,
}

/// Where a wait lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPosition {
    /// Neither side counts it.
    Outside,
    /// One side alone may count it.
    Ambiguous,
    /// Both sides count it.
    Inside,
}

/// The window, as it comes about.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyWindow {
    /// Starts were recorded by the trigger from here on.
    pub starts_on: TimeBracket,
    /// Ends were.
    pub ends_on: TimeBracket,
    /// Waits were counted.
    pub counting_on: TimeBracket,
    /// They were counted no more; none while they are.
    pub counting_off: Option<TimeBracket>,
    /// By how much the two sides' readings for one event may differ: ns.
    pub clock_ns: u64,
}

impl VerifyWindow {
    /// Where a wait lies that began and ended at these times.
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

    /// Whether the trigger may have recorded the start of this wait, but not its end: then the start stays behind in its
    /// table, and the end of another wait may be taken for its own.
    pub fn leaves_start_behind(&self, began_ns: u64, ended_ns: u64) -> bool {
        self.side(self.starts_on, began_ns) != BracketSide::Before
            && self.side(self.ends_on, ended_ns) != BracketSide::After
    }

    /// How long it was: ns; 0 while it is open.
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
    fn a_wait_counts_where_both_sides_saw_its_start_and_its_end() {
        let window = window();
        assert_eq!(window.position(1_016, 3_016), WindowPosition::Inside);
        assert_eq!(window.position(8_000, 8_994), WindowPosition::Inside);
        assert_eq!(window.position(990, 5_000), WindowPosition::Outside, "its start was recorded by one side");
        assert_eq!(window.position(2_500, 2_900), WindowPosition::Outside, "it ended before counting began");
        assert_eq!(window.position(8_000, 9_016), WindowPosition::Outside, "it ended after counting ended");
        assert_eq!(window.length_ns(), 5_990);
    }

    #[test]
    fn what_falls_into_a_moment_of_switching_is_ambiguous() {
        let window = window();
        for (began, ended) in [(1_000, 5_000), (1_015, 5_000), (2_000, 2_995), (2_000, 3_015), (2_000, 9_005)] {
            assert_eq!(window.position(began, ended), WindowPosition::Ambiguous, "{began} to {ended}");
        }
    }

    #[test]
    fn an_end_that_the_trigger_did_not_see_leaves_its_start_behind() {
        let window = window();
        assert!(window.leaves_start_behind(1_500, 1_800));
        assert!(!window.leaves_start_behind(500, 1_800), "there was nothing that recorded the start");
        assert!(!window.leaves_start_behind(1_500, 2_500), "the end was seen");
    }

    #[test]
    fn an_open_window_has_no_end() {
        let window = VerifyWindow { counting_off: None, ..window() };
        assert_eq!(window.position(5_000, u64::MAX), WindowPosition::Inside);
    }
}
