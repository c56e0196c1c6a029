//! The bar of the time: which part of it is selected.

use crate::top_screen::{data::measured_time::MeasuredTime, view::selection::TimeSpan};

/// The bar, and the part of the time that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBar {
    /// The part of the time that is shown.
    pub span: TimeSpan,
    /// The bar is visible.
    pub is_visible: bool,
    /// Left and right move along the bar.
    pub has_keys: bool,
    /// What was shown before a part was selected.
    before: TimeSpan,
}

impl TimeBar {
    /// All of the time is shown, with or without the bar.
    pub fn new(is_visible: bool) -> Self {
        Self { is_visible, ..Self::default() }
    }

    /// The bar takes the keys, with the last interval selected; or gives them back, and the selection with them.
    pub fn toggle(&mut self, measured: &MeasuredTime) {
        if self.has_keys {
            self.drop();
            return;
        }
        (self.is_visible, self.has_keys) = (true, true);
        if !matches!(self.span, TimeSpan::Between(..)) {
            self.before = self.span;
            let last = measured.intervals.last().map_or(0, |(number, _)| *number);
            self.span = Self::between(last, last + 1, measured);
        }
    }

    /// Shows what was shown before a part was selected.
    pub fn drop(&mut self) {
        self.has_keys = false;
        if matches!(self.span, TimeSpan::Between(..)) {
            self.span = self.before;
        }
    }

    /// Changes between the last interval and all of the time.
    pub fn change_span(&mut self) {
        self.has_keys = false;
        self.span = if self.span == TimeSpan::All { TimeSpan::Last } else { TimeSpan::All };
    }

    /// Moves the selected part by intervals, and makes it longer or shorter.
    pub fn shift(&mut self, by: i64, longer: i64, measured: &MeasuredTime) {
        let TimeSpan::Between(from_ns, to_ns) = self.span else { return };
        let [Some((first, _)), Some((last, _))] = [measured.intervals.first(), measured.intervals.last()] else {
            return;
        };
        let interval_ns = measured.interval_ns.max(1);
        let (from, to) = (from_ns / interval_ns, to_ns.div_ceil(interval_ns));
        let most = last + 1 - first;
        let length = to.saturating_sub(from).saturating_add_signed(longer).clamp(1, most);
        let from = from.saturating_add_signed(by).clamp(*first, last + 1 - length);
        self.span = Self::between(from, from + length, measured);
    }

    fn between(from: u64, to: u64, measured: &MeasuredTime) -> TimeSpan {
        let at = |number: u64| number.saturating_mul(measured.interval_ns);
        TimeSpan::Between(at(from), at(to))
    }
}
