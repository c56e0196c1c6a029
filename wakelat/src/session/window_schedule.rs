//! When windows end. Pure: all instants are passed in, as ns of CLOCK_MONOTONIC.

use std::future::pending;

use tokio::time::sleep_until;

use super::clock::instant;
use crate::config::WindowConfig;

/// What happens at an instant of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowBoundary {
    /// The warm-up has ended: the first window begins ([`Schedule::begin`]).
    WarmUp,
    /// An interval has ended, and another begins.
    Interval {
        /// Intervals that ended earlier without a report, because the reader was late.
        skipped: u64,
    },
    /// The run has ended.
    End,
}

/// The instants of a run that are known in advance.
#[derive(Clone, Debug)]
pub struct Schedule {
    warm_up_until_ns: Option<u64>,
    interval_ns: Option<u64>,
    length_ns: Option<u64>,
    began_at_ns: u64,
    /// End of the current interval.
    next_interval_ns: Option<u64>,
    end_at_ns: Option<u64>,
}

impl Schedule {
    /// A run that begins at `now_ns`.
    pub fn new(window: &WindowConfig, now_ns: u64) -> Self {
        let interval_ns = window.interval_ns;
        let by_count = interval_ns.zip(window.count).map(|(interval_ns, count)| interval_ns.saturating_mul(count));
        let mut schedule = Self {
            warm_up_until_ns: (window.warm_up_ns > 0).then(|| now_ns.saturating_add(window.warm_up_ns)),
            interval_ns,
            length_ns: [window.duration_ns, by_count].into_iter().flatten().min(),
            began_at_ns: now_ns.saturating_add(window.warm_up_ns),
            next_interval_ns: None,
            end_at_ns: None,
        };
        if schedule.warm_up_until_ns.is_none() {
            schedule.begin(now_ns);
        }
        schedule
    }

    /// Begins the first window. It has the requested length, however late it begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.warm_up_until_ns = None;
        self.began_at_ns = now_ns;
        // An instant beyond the range of the clock never comes.
        let after = |length_ns: Option<u64>| length_ns.and_then(|length_ns| now_ns.checked_add(length_ns));
        self.next_interval_ns = after(self.interval_ns);
        self.end_at_ns = after(self.length_ns);
    }

    /// When the next boundary is due; `None` if there is no further one.
    pub fn next_at_ns(&self) -> Option<u64> {
        match self.warm_up_until_ns {
            None => [self.next_interval_ns, self.end_at_ns].into_iter().flatten().min(),
            warm_up => warm_up,
        }
    }

    /// Waits until the next boundary is due.
    pub async fn next_is_due(&self) {
        match self.next_at_ns() {
            Some(at_ns) => sleep_until(instant(at_ns)).await,
            None => pending().await,
        }
    }

    /// Whether no window has begun yet.
    pub fn is_warming_up(&self) -> bool {
        self.warm_up_until_ns.is_some()
    }

    /// When the run ends; `None` if it has no planned end, or before the warm-up has ended.
    pub fn end_at_ns(&self) -> Option<u64> {
        self.end_at_ns
    }

    /// When the first window began, or is planned to begin.
    pub fn began_at_ns(&self) -> u64 {
        self.began_at_ns
    }

    /// Requested length of the window that ends at `boundary`: ns; `None` if not specified.
    pub fn requested_ns(&self, boundary: WindowBoundary) -> Option<u64> {
        match (boundary, self.interval_ns, self.length_ns) {
            (WindowBoundary::WarmUp, ..) => None,
            (WindowBoundary::Interval { .. }, interval_ns, _) => interval_ns,
            // The last interval may be shorter.
            (WindowBoundary::End, Some(interval_ns), Some(length_ns)) => match length_ns % interval_ns {
                0 => Some(interval_ns),
                remaining_ns => Some(remaining_ns),
            },
            (WindowBoundary::End, _, length_ns) => length_ns,
        }
    }

    /// Intervals that ended before `end_at_ns` without a boundary, if the run ends at `end_at_ns`.
    pub fn intervals_not_ended(&self, end_at_ns: u64) -> u64 {
        let due_ns = self.next_interval_ns.filter(|due_ns| *due_ns < end_at_ns);
        due_ns.zip(self.interval_ns).map_or(0, |(due_ns, interval_ns)| (end_at_ns - due_ns).div_ceil(interval_ns))
    }

    /// Whether the run has ended.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.end_at_ns.is_some_and(|end_at_ns| end_at_ns <= now_ns)
    }

    /// Requested length of the whole run: ns; `None` if not specified.
    pub fn length_ns(&self) -> Option<u64> {
        self.length_ns
    }

    /// Returns the boundary that is due at `now_ns`, if there is one, and advances past it. The end takes
    /// precedence; of several intervals that have ended, only the last one gets a boundary, and the others
    /// are skipped.
    pub fn take_due(&mut self, now_ns: u64) -> Option<WindowBoundary> {
        if let Some(warm_up_until_ns) = self.warm_up_until_ns {
            return (warm_up_until_ns <= now_ns).then_some(WindowBoundary::WarmUp);
        }
        // If the run and an interval end together, the run ends.
        if self.end_at_ns.is_some_and(|end_at_ns| end_at_ns <= now_ns) {
            return Some(WindowBoundary::End);
        }
        let due_ns = self.next_interval_ns.filter(|due_ns| *due_ns <= now_ns)?;
        let interval_ns = self.interval_ns?;
        let skipped = (now_ns - due_ns) / interval_ns;
        // Relative to the due time instead of now, so that delays do not add up.
        self.next_interval_ns = due_ns.checked_add((skipped + 1).saturating_mul(interval_ns));
        Some(WindowBoundary::Interval { skipped })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_000 * SECOND;
    const INTERVAL: WindowBoundary = WindowBoundary::Interval { skipped: 0 };

    /// The boundaries and their times (in seconds since the beginning) if each is handled `late_ns` late.
    fn boundaries(window: WindowConfig, limit: usize, late_ns: u64) -> Vec<(u64, WindowBoundary)> {
        let mut schedule = Schedule::new(&window, BEGIN);
        let mut boundaries = Vec::new();
        while let Some(at_ns) = schedule.next_at_ns().filter(|_| boundaries.len() < limit) {
            let now_ns = at_ns + late_ns;
            assert_eq!(schedule.take_due(at_ns - 1), None);
            let boundary = schedule.take_due(now_ns).expect("something is due");
            boundaries.push(((now_ns - BEGIN) / SECOND, boundary));
            match boundary {
                WindowBoundary::WarmUp => schedule.begin(now_ns),
                WindowBoundary::Interval { .. } => {}
                WindowBoundary::End => break,
            }
        }
        boundaries
    }

    #[test]
    fn a_duration_is_one_window() {
        let window = WindowConfig { duration_ns: Some(3 * SECOND), ..WindowConfig::default() };
        assert_eq!(boundaries(window, 9, 0), [(3, WindowBoundary::End)]);
    }

    #[test]
    fn a_count_of_intervals_ends_with_the_last_one() {
        let window = WindowConfig { interval_ns: Some(2 * SECOND), count: Some(3), ..WindowConfig::default() };
        assert_eq!(boundaries(window, 9, 0), [(2, INTERVAL), (4, INTERVAL), (6, WindowBoundary::End)]);
    }

    #[test]
    fn whichever_limit_comes_first_ends_the_run() {
        let window = WindowConfig {
            interval_ns: Some(2 * SECOND),
            count: Some(9),
            duration_ns: Some(3 * SECOND),
            ..WindowConfig::default()
        };
        assert_eq!(boundaries(window, 9, 0), [(2, INTERVAL), (3, WindowBoundary::End)]);
        let schedule = Schedule::new(&window, BEGIN);
        assert_eq!(
            (schedule.requested_ns(INTERVAL), schedule.requested_ns(WindowBoundary::End)),
            (Some(2 * SECOND), Some(SECOND))
        );
    }

    #[test]
    fn the_warm_up_is_not_part_of_any_window() {
        let window = WindowConfig {
            warm_up_ns: 5 * SECOND,
            interval_ns: Some(SECOND),
            duration_ns: Some(2 * SECOND),
            ..WindowConfig::default()
        };
        assert_eq!(boundaries(window, 9, 0), [(5, WindowBoundary::WarmUp), (6, INTERVAL), (7, WindowBoundary::End)]);
    }

    #[test]
    fn a_late_end_of_the_warm_up_does_not_shorten_the_window() {
        let window = WindowConfig { warm_up_ns: 5 * SECOND, duration_ns: Some(2 * SECOND), ..WindowConfig::default() };
        let mut schedule = Schedule::new(&window, BEGIN);
        assert_eq!((schedule.end_at_ns(), schedule.take_due(BEGIN + 8 * SECOND)), (None, Some(WindowBoundary::WarmUp)));
        schedule.begin(BEGIN + 8 * SECOND);
        assert_eq!(schedule.end_at_ns(), Some(BEGIN + 10 * SECOND));
    }

    #[test]
    fn a_run_without_a_limit_has_no_end() {
        assert_eq!(boundaries(WindowConfig::default(), 9, 0), []);
        let window = WindowConfig { interval_ns: Some(SECOND), ..WindowConfig::default() };
        assert_eq!(boundaries(window, 2, 0), [(1, INTERVAL), (2, INTERVAL)]);
    }

    #[test]
    fn intervals_missed_by_a_late_reader_are_skipped_and_counted() {
        let window = WindowConfig { interval_ns: Some(SECOND), count: Some(10), ..WindowConfig::default() };
        let late = boundaries(window, 9, 3 * SECOND + SECOND / 2);
        let three = WindowBoundary::Interval { skipped: 3 };
        assert_eq!(late, [(4, three), (8, three), (12, WindowBoundary::End)]);
    }

    #[test]
    fn the_end_takes_precedence_over_missed_intervals() {
        let window = WindowConfig { interval_ns: Some(SECOND), count: Some(1_000), ..WindowConfig::default() };
        let mut schedule = Schedule::new(&window, BEGIN);
        assert_eq!(schedule.take_due(BEGIN + 1_000 * SECOND), Some(WindowBoundary::End));
        // The missed intervals are part of the last window.
        assert_eq!(schedule.intervals_not_ended(BEGIN + 1_000 * SECOND), 999);
        assert_eq!([SECOND, SECOND + 1].map(|since_ns| schedule.intervals_not_ended(BEGIN + since_ns)), [0, 1]);
    }

    #[test]
    fn an_end_beyond_the_range_of_the_clock_never_comes() {
        let window = WindowConfig { interval_ns: Some(u64::MAX / 2), count: Some(u64::MAX), ..WindowConfig::default() };
        let mut schedule = Schedule::new(&window, BEGIN);
        assert_eq!(schedule.end_at_ns(), None);
        assert_eq!(schedule.take_due(BEGIN + u64::MAX / 2), Some(INTERVAL));
        // The end of the next interval is beyond the range of the clock.
        assert_eq!((schedule.next_at_ns(), schedule.take_due(u64::MAX)), (None, None));
    }

    proptest! {
        #[test]
        fn every_interval_is_reported_or_skipped_once(interval_ns in 1..1_000u64, steps in prop::collection::vec(0..5_000u64, 1..50)) {
            let window = WindowConfig { interval_ns: Some(interval_ns), ..WindowConfig::default() };
            let mut schedule = Schedule::new(&window, BEGIN);
            let (mut now_ns, mut passed) = (BEGIN, 0);
            for step in steps {
                now_ns += step;
                if let Some(WindowBoundary::Interval { skipped }) = schedule.take_due(now_ns) {
                    passed += skipped + 1;
                }
                prop_assert_eq!(passed, (now_ns - BEGIN) / interval_ns);
                prop_assert_eq!(schedule.take_due(now_ns), None);
            }
        }
    }
}
