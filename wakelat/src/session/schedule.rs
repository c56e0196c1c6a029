//! When windows end: pure, on instants given.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Window;

/// What happens at an instant of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The warm-up is over: the first window begins.
    WarmUp,
    /// An interval is over, and another begins.
    Interval,
    /// The run is over.
    End,
}

/// The instants of a run that are known beforehand.
#[derive(Clone, Debug)]
pub struct Schedule {
    warm_up: Option<Instant>,
    interval: Option<Duration>,
    /// End of the interval under way.
    next_interval: Option<Instant>,
    end: Option<Instant>,
    begun: Instant,
}

impl Schedule {
    /// A run that begins `now`.
    pub fn new(window: &Window, now: Instant) -> Self {
        let warm_up = Duration::from_nanos(window.warm_up_ns);
        let begun = now + warm_up;
        let interval = window.interval_ns.map(Duration::from_nanos);
        let by_duration = window.duration_ns.map(Duration::from_nanos);
        // What is too far in the future for the clock never comes.
        let by_count = interval.zip(window.count).map(|(interval, count)| {
            u32::try_from(count).ok().and_then(|count| interval.checked_mul(count)).unwrap_or(Duration::MAX)
        });
        let length = [by_duration, by_count].into_iter().flatten().min();
        Self {
            warm_up: (window.warm_up_ns > 0).then_some(begun),
            interval,
            next_interval: interval.and_then(|interval| begun.checked_add(interval)),
            end: length.and_then(|length| begun.checked_add(length)),
            begun,
        }
    }

    /// Whether anything is to come.
    pub fn has_next(&self) -> bool {
        self.next().is_some()
    }

    /// When the next cut is; some instant that has passed where there is none.
    pub fn next_at(&self) -> Instant {
        self.next().map_or(self.begun, |(at, _)| at)
    }

    /// Passes the next cut, and says which it was.
    pub fn pass(&mut self) -> Cut {
        let Some((at, cut)) = self.next() else { return Cut::End };
        match cut {
            Cut::WarmUp => self.warm_up = None,
            // From where it was due, not from now: delays do not add up.
            Cut::Interval => self.next_interval = self.interval.and_then(|interval| at.checked_add(interval)),
            Cut::End => {}
        }
        cut
    }

    /// Whether no window has begun yet.
    pub fn is_warming_up(&self) -> bool {
        self.warm_up.is_some()
    }

    /// When the first window begins, and when the run ends, where that is known.
    pub fn span(&self) -> (Instant, Option<Instant>) {
        (self.begun, self.end)
    }

    fn next(&self) -> Option<(Instant, Cut)> {
        if let Some(at) = self.warm_up {
            return Some((at, Cut::WarmUp));
        }
        // An end at the end of an interval is an end.
        match (self.next_interval, self.end) {
            (Some(interval), Some(end)) if interval < end => Some((interval, Cut::Interval)),
            (_, Some(end)) => Some((end, Cut::End)),
            (Some(interval), None) => Some((interval, Cut::Interval)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn cuts(window: Window, limit: usize) -> Vec<(u64, Cut)> {
        let now = Instant::now();
        let mut schedule = Schedule::new(&window, now);
        let mut cuts = Vec::new();
        while schedule.has_next() && cuts.len() < limit {
            let at = (schedule.next_at() - now).as_secs();
            let cut = schedule.pass();
            cuts.push((at, cut));
            if cut == Cut::End {
                break;
            }
        }
        cuts
    }

    #[test]
    fn a_duration_is_one_window() {
        let window = Window { duration_ns: Some(3 * SECOND), ..Window::default() };
        assert_eq!(cuts(window, 9), [(3, Cut::End)]);
    }

    #[test]
    fn a_count_of_intervals_ends_with_the_last_one() {
        let window = Window { interval_ns: Some(2 * SECOND), count: Some(3), ..Window::default() };
        assert_eq!(cuts(window, 9), [(2, Cut::Interval), (4, Cut::Interval), (6, Cut::End)]);
    }

    #[test]
    fn whichever_limit_comes_first_ends_the_run() {
        let window = Window {
            interval_ns: Some(2 * SECOND),
            count: Some(9),
            duration_ns: Some(3 * SECOND),
            ..Window::default()
        };
        assert_eq!(cuts(window, 9), [(2, Cut::Interval), (3, Cut::End)]);
    }

    #[test]
    fn the_warm_up_is_not_part_of_any_window() {
        let window = Window {
            warm_up_ns: 5 * SECOND,
            interval_ns: Some(SECOND),
            duration_ns: Some(2 * SECOND),
            ..Window::default()
        };
        assert_eq!(cuts(window, 9), [(5, Cut::WarmUp), (6, Cut::Interval), (7, Cut::End)]);
    }

    #[test]
    fn without_a_limit_only_a_signal_ends_it() {
        assert_eq!(cuts(Window::default(), 9), []);
        let window = Window { interval_ns: Some(SECOND), ..Window::default() };
        assert_eq!(cuts(window, 2), [(1, Cut::Interval), (2, Cut::Interval)]);
    }

    #[test]
    fn an_end_beyond_the_clock_never_comes() {
        let window = Window { interval_ns: Some(u64::MAX), count: Some(u64::MAX), ..Window::default() };
        assert!(Schedule::new(&window, Instant::now()).pass() != Cut::WarmUp);
    }
}
