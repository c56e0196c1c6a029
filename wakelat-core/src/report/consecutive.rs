//! The report of consecutive windows.

use super::{Coverage, CoverageTerms, Report, SwitchInTerms, TextCoverage, Threshold};

impl Report {
    /// The report of this window and the `next` one, which begins where this one ends: without groups and without a
    /// requested length. The inverse of [`Report::since`].
    #[must_use]
    pub fn followed_by(self, next: &Self) -> Self {
        let coverage = self.coverage.followed_by(&next.coverage);
        let threshold = self.threshold.clone().zip(next.threshold.clone()).map(|(one, other)| {
            let over = one.over.saturating_add(other.over);
            Threshold { over, ..other }
        });
        Self { requested_ns: None, coverage, threshold, sampling: next.sampling, ..self.plus(next) }
    }
}

impl Coverage {
    fn followed_by(&self, next: &Self) -> Self {
        let preemptions = self.preemptions.zip(next.preemptions);
        let switch_ins = self.switch_ins.zip(next.switch_ins);
        let text = self.text.as_ref().zip(next.text.as_ref());
        Self {
            wakeups: self.wakeups.followed_by(&next.wakeups),
            preemptions: preemptions.map(|(one, other)| one.followed_by(&other)).or(next.preemptions),
            switch_ins: switch_ins.map(|(one, other)| one.followed_by(&other)).or(next.switch_ins),
            oldest_waiting: next.oldest_waiting,
            missing_ends: next.missing_ends.clone(),
            text: text.map(|(one, other)| one.followed_by(other)).or_else(|| next.text.clone()),
            ..self.clone().plus(next)
        }
    }
}

impl CoverageTerms {
    /// Waits that were carried from this window into the next one have been seen here.
    fn followed_by(&self, next: &Self) -> Self {
        let both = self.plus(next);
        Self {
            seen: both.seen.saturating_sub(next.carried),
            carried: self.carried,
            still_waiting: next.still_waiting,
            ..both
        }
    }
}

impl SwitchInTerms {
    fn followed_by(&self, next: &Self) -> Self {
        Self { still_waiting: next.still_waiting, ..self.plus(next) }
    }
}

impl TextCoverage {
    fn followed_by(&self, next: &Self) -> Self {
        Self {
            unknown_start: self.unknown_start.saturating_add(next.unknown_start),
            skipped_lines: self.skipped_lines.saturating_add(next.skipped_lines),
            first_skipped: self.first_skipped.clone().or_else(|| next.first_skipped.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_windows_are_the_window_of_both() {
        let terms = |seen, measured, still_waiting| {
            let none = CoverageTerms::default();
            CoverageTerms { seen, measured, still_waiting, ..none }
        };
        let reading = |duration_ns: u64, wakeups: CoverageTerms, lines: u64| Report {
            start_unix_ns: 100,
            duration_ns,
            reader_waited_ns: Some(duration_ns / 10),
            coverage: Coverage {
                wakeups,
                preemptions: Some(wakeups),
                switch_ins: Some(SwitchInTerms { seen: wakeups.seen, still_waiting: Some(1), ..Default::default() }),
                missed: Some(wakeups.seen),
                events_lost: Some(3),
                text: Some(TextCoverage { skipped_lines: lines, ..Default::default() }),
                ..Default::default()
            },
            threshold: Some(Threshold { threshold_ns: 5, over: lines }),
            ..Default::default()
        };
        let [first, second, third] =
            [reading(10, terms(9, 7, 2), 1), reading(20, terms(19, 18, 1), 2), reading(30, terms(30, 26, 4), 4)];
        let windows = [first.clone(), second.since(&first), third.since(&second)];
        assert_eq!(windows[2].coverage.wakeups.carried, 1);
        let mut whole = windows[0].clone();
        for window in &windows[1..] {
            // A difference has no threshold of its own.
            let window = Report { threshold: Some(Threshold { threshold_ns: 5, over: 1 }), ..window.clone() };
            whole = whole.followed_by(&window);
        }
        assert_eq!((whole.start_unix_ns, whole.duration_ns, whole.reader_waited_ns), (100, 30, Some(3)));
        assert_eq!(whole.coverage, third.coverage);
        assert_eq!(whole.threshold.map(|threshold| threshold.over), Some(3));
    }
}
