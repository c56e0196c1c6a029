//! The windows of a recording: the waits that a view selects, with the coverage of the readings around them.

use wakelat_common::{Class, Classes};

use super::{GroupHistogram, run_times::RecordedRunTimes};
use crate::{
    aggregate::{
        Groups, RecordedKey,
        key::{Key, Names},
    },
    report::{CoverageTerms, LatencyFrom, Report, SwitchInTerms, Threshold},
    timeline::{Breakdown, event::Event},
    wait::Wait,
};

/// How a view shows the waits of a recording.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// The keys that waits are grouped by.
    pub by: Vec<Key>,
    /// Whether all classes are merged into run-queue latency.
    pub merged: bool,
    /// Number of groups that are kept before further ones are merged into one.
    pub max_groups: usize,
    /// The event that starts a wakeup's latency, in the waits as they are added.
    pub from: LatencyFrom,
    /// The classes that are selected.
    pub classes: Classes,
    /// The shortest wait that is selected: ns.
    pub threshold_ns: Option<u64>,
    /// Whether a filter excludes waits.
    pub has_filter: bool,
    /// Whether groups have run times, if all keys are properties of a task that runs.
    pub with_run_times: bool,
}

/// Why a recorded wait is not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// Its class is not selected.
    Class,
    /// The filter excludes it.
    Filter,
    /// It is shorter than the threshold.
    BelowThreshold,
}

/// The waits of a recording since the begin of the current window.
#[derive(Debug)]
pub struct RecordedWindow {
    options: WindowOptions,
    groups: Groups,
    /// The reading at the begin of the window; `None` at the begin of the recording.
    before: Option<Report>,
    wakeups: ExcludedWaits,
    preemptions: ExcludedWaits,
    /// Selected waits: all of them reach the threshold.
    selected: u64,
    run_times: Option<RecordedRunTimes>,
}

/// Recorded waits of a window that are not selected.
#[derive(Clone, Copy, Debug, Default)]
struct ExcludedWaits {
    by_class: u64,
    by_filter: u64,
    below_threshold: u64,
}

impl RecordedWindow {
    /// The first window.
    pub fn new(options: WindowOptions) -> Self {
        Self {
            groups: Groups::new(options.by.clone(), options.merged, options.max_groups),
            run_times: RecordedRunTimes::by(&options.by).filter(|_| options.with_run_times),
            options,
            before: None,
            wakeups: ExcludedWaits::default(),
            preemptions: ExcludedWaits::default(),
            selected: 0,
        }
    }

    /// Adds a selected wait.
    pub fn record(&mut self, wait: &Wait) {
        self.selected += 1;
        if !self.options.by.contains(&Key::Component) {
            self.groups.record(wait);
        }
    }

    /// Follows an event, whose tasks are marked as those that the filter accepts, for run times.
    pub fn follow(&mut self, event: &Event) {
        if let Some(run_times) = &mut self.run_times {
            run_times.follow(event);
        }
    }

    /// The warm-up has ended: earlier events only explain later ones.
    pub fn warmed_up(&mut self) {
        self.run_times.iter_mut().for_each(RecordedRunTimes::warmed_up);
    }

    /// Adds the components of a selected wait; without effect unless waits are grouped by component.
    pub fn record_breakdown(&mut self, breakdown: &Breakdown) {
        self.groups.record_breakdown(breakdown);
    }

    /// Adds the selected waits of a recorded group.
    pub fn record_group(&mut self, group: RecordedKey, waits: &GroupHistogram, names: &dyn Names) {
        let count = waits.count();
        self.selected = self.selected.saturating_add(count);
        self.groups.add_recorded(group, count, |distribution| waits.add_to(distribution, names));
    }

    /// Counts waits of a class that are not selected.
    pub fn exclude(&mut self, class: Class, count: u64, why: Exclusion) {
        let excluded = match class {
            Class::Wakeup | Class::New => &mut self.wakeups,
            Class::Preempted => &mut self.preemptions,
        };
        let excluded = match why {
            Exclusion::Class => &mut excluded.by_class,
            Exclusion::Filter => &mut excluded.by_filter,
            Exclusion::BelowThreshold => &mut excluded.below_threshold,
        };
        *excluded = excluded.saturating_add(count);
    }

    /// The report of the window that ends at `reading`, the report of the whole recording so far.
    pub fn report(&mut self, reading: &Report, names: &dyn Names) -> Report {
        let mut report = match &self.before {
            Some(before) => reading.since(before),
            None => reading.clone(),
        };
        report.groups = self.groups.report(names, None);
        report.files = names.files();
        if let Some(run_times) = &mut self.run_times {
            let runs = run_times.until((!report.files.are_several()).then_some(reading), names);
            report.groups.iter_mut().for_each(|group| group.run_ns = runs.get(&group.key).copied());
        }
        report.from = self.options.from;
        let Self { wakeups, preemptions, .. } = *self;
        let classes = self.options.classes;
        let has_wakeups = classes.contains(Class::Wakeup) || classes.contains(Class::New);
        let coverage = &mut report.coverage;
        coverage.wakeups =
            if has_wakeups { wakeups.subtracted_from(&coverage.wakeups) } else { CoverageTerms::default() };
        coverage.preemptions = coverage
            .preemptions
            .filter(|_| classes.contains(Class::Preempted))
            .map(|terms| preemptions.subtracted_from(&terms));
        coverage.switch_ins = coverage
            .switch_ins
            .map(|terms| preemptions.subtracted_from_switch_ins(&wakeups.subtracted_from_switch_ins(&terms)));
        coverage.groups_merged = self.groups.merged();
        coverage.group_table_full = self.groups.table_full();
        coverage.filtered_is_own &= !self.options.has_filter;
        let over = self.selected;
        report.threshold = self.options.threshold_ns.map(|threshold_ns| Threshold { threshold_ns, over });
        report
    }

    /// Begins the next window at `reading`.
    pub fn begin(&mut self, reading: Report) {
        self.run_times.iter_mut().for_each(|run_times| run_times.begin(&reading));
        self.before = Some(reading);
        self.groups.clear();
        (self.wakeups, self.preemptions) = Default::default();
        self.selected = 0;
    }
}

impl ExcludedWaits {
    fn all(self) -> u64 {
        self.by_class.saturating_add(self.by_filter).saturating_add(self.below_threshold)
    }

    /// The terms with these waits excluded instead of measured, and no waits of another class: a measurement of
    /// the selected classes does not see them.
    fn subtracted_from(self, terms: &CoverageTerms) -> CoverageTerms {
        let excluded = self.by_filter.saturating_add(self.below_threshold);
        CoverageTerms {
            seen: terms.seen.saturating_sub(self.by_class),
            measured: terms.measured.saturating_sub(self.all()),
            filtered: terms.filtered.saturating_add(excluded),
            below_threshold: terms.below_threshold.saturating_add(self.below_threshold),
            ..*terms
        }
    }

    fn subtracted_from_switch_ins(self, terms: &SwitchInTerms) -> SwitchInTerms {
        SwitchInTerms {
            measured: terms.measured.saturating_sub(self.all()),
            other_class: terms.other_class.saturating_add(self.by_class),
            filtered: terms.filtered.saturating_add(self.by_filter).saturating_add(self.below_threshold),
            below_threshold: terms.below_threshold.saturating_add(self.below_threshold),
            ..*terms
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{recording::RecordedNames, render::testing::wait};

    fn options(threshold_ns: Option<u64>, classes: Classes) -> WindowOptions {
        let (from, has_filter) = (LatencyFrom::Wakeup, false);
        WindowOptions {
            by: vec![Key::Tid],
            merged: false,
            max_groups: 16,
            from,
            classes,
            threshold_ns,
            has_filter,
            with_run_times: false,
        }
    }

    fn all() -> Classes {
        Class::ALL.into_iter().fold(Classes::NONE, Classes::with)
    }

    /// The report of a recording after these waits, when `open` tasks still wait and the ends of `missed` waits were not
    /// seen.
    fn reading(waits: &[Wait], missed: u64, open: u64) -> Report {
        let of = |preempted: bool| {
            let measured = waits.iter().filter(|wait| (wait.class == Class::Preempted) == preempted).count() as u64;
            let [still_waiting, missed_switch] = if preempted { [0, 0] } else { [open, missed] };
            let seen = measured + still_waiting + missed_switch;
            CoverageTerms { seen, measured, still_waiting, missed_switch, ..CoverageTerms::default() }
        };
        let mut report = Report { duration_ns: waits.len() as u64 * 1_000, ..Report::default() };
        (report.coverage.wakeups, report.coverage.preemptions) = (of(false), Some(of(true)));
        report
    }

    fn any_wait() -> impl Strategy<Value = Wait> {
        (0u32..4, 0u64..1_000, prop::sample::select(Class::ALL.to_vec())).prop_map(|(tid, latency_ns, class)| Wait {
            tid,
            latency_ns,
            class,
            ..wait()
        })
    }

    proptest! {
        /// Every wait is in exactly one window, and each window accounts for all of its waits.
        #[test]
        fn windows_add_up_to_the_recording(
            waits in prop::collection::vec(any_wait(), 0..60),
            lengths in prop::collection::vec((0usize..20, 0u64..5), 0..6),
            threshold_ns in prop::option::of(1u64..1_000),
            with_preempted in any::<bool>(),
        ) {
            let classes = if with_preempted { all() } else { Classes::NONE.with(Class::Wakeup).with(Class::New) };
            let names = RecordedNames::default();
            let mut window = RecordedWindow::new(options(threshold_ns, classes));
            let mut whole = RecordedWindow::new(options(threshold_ns, classes));
            let (mut at, mut measured, mut in_groups, mut missed) = (0, 0, 0, 0);
            for (length, open) in lengths.into_iter().chain([(waits.len(), 0)]) {
                let end = (at + length).min(waits.len());
                for wait in &waits[at..end] {
                    let why = if !classes.contains(wait.class) {
                        Some(Exclusion::Class)
                    } else if threshold_ns.is_some_and(|threshold_ns| wait.latency_ns < threshold_ns) {
                        Some(Exclusion::BelowThreshold)
                    } else {
                        None
                    };
                    for window in [&mut window, &mut whole] {
                        match why {
                            Some(why) => window.exclude(wait.class, 1, why),
                            None => window.record(wait),
                        }
                    }
                }
                let now = reading(&waits[..end], missed, open);
                missed += open;
                let report = window.report(&now, &names);
                let coverage = &report.coverage;
                prop_assert_eq!(coverage.wakeups.unaccounted(), 0);
                prop_assert_eq!(coverage.preemptions.map_or(0, |terms| terms.unaccounted()), 0);
                prop_assert_eq!(coverage.preemptions.is_some(), with_preempted);
                prop_assert_eq!(report.duration_ns, (end - at) as u64 * 1_000);
                let of_groups: u64 = report.groups.iter().map(|group| group.distribution.count()).sum();
                let of_coverage = coverage.wakeups.measured + coverage.preemptions.map_or(0, |terms| terms.measured);
                prop_assert_eq!(of_groups, of_coverage);
                prop_assert_eq!(report.threshold.map(|threshold| threshold.over), threshold_ns.map(|_| of_groups));
                (measured, in_groups, at) = (measured + of_coverage, in_groups + of_groups, end);
                window.begin(now);
            }
            let whole = whole.report(&reading(&waits, missed, 0), &names);
            let terms = |report: &Report| {
                report.coverage.wakeups.measured + report.coverage.preemptions.map_or(0, |terms| terms.measured)
            };
            prop_assert_eq!(measured, terms(&whole));
            prop_assert_eq!(in_groups, whole.groups.iter().map(|group| group.distribution.count()).sum::<u64>());
        }
    }

    #[test]
    fn switch_ins_keep_their_sum_whatever_is_selected() {
        let mut window = RecordedWindow::new(options(Some(10), all()));
        let mut reading = Report::default();
        let measured = SwitchInTerms { seen: 10, measured: 8, filtered: 2, ..SwitchInTerms::default() };
        reading.coverage.switch_ins = Some(measured);
        for (class, why) in [
            (Class::Wakeup, Exclusion::Class),
            (Class::New, Exclusion::Filter),
            (Class::Preempted, Exclusion::BelowThreshold),
        ] {
            window.exclude(class, 1, why);
        }
        (0..5).for_each(|_| window.record(&wait()));
        let terms = window.report(&reading, &RecordedNames::default()).coverage.switch_ins.unwrap();
        assert_eq!((terms.unaccounted(), terms.measured, terms.filtered), (0, 5, 4));
        assert_eq!((terms.other_class, terms.below_threshold), (1, 1));
    }

    #[test]
    fn a_view_without_a_filter_sees_no_wait_of_another_class_and_excludes_none_by_a_filter() {
        let waits = [Class::Wakeup, Class::New, Class::New, Class::Preempted].map(|class| Wait { class, ..wait() });
        let mut window = RecordedWindow::new(options(None, Classes::NONE.with(Class::Wakeup)));
        for wait in &waits {
            match wait.class {
                Class::Wakeup => window.record(wait),
                other => window.exclude(other, 1, Exclusion::Class),
            }
        }
        let mut reading = reading(&waits, 0, 5);
        reading.coverage.filtered_is_own = true;
        let coverage = window.report(&reading, &RecordedNames::default()).coverage;
        let CoverageTerms { seen, measured, filtered, still_waiting, .. } = coverage.wakeups;
        assert_eq!((seen, measured, filtered, still_waiting), (6, 1, 0, 5));
        assert_eq!((coverage.wakeups.unaccounted(), coverage.preemptions), (0, None));
        assert!(coverage.filtered_is_own);
    }

    #[test]
    fn a_filter_of_the_view_excludes_more_than_wakelats_own_threads() {
        let mut window = RecordedWindow::new(WindowOptions { has_filter: true, ..options(None, all()) });
        window.exclude(Class::Wakeup, 1, Exclusion::Filter);
        let mut reading = reading(&[wait()], 0, 0);
        reading.coverage.filtered_is_own = true;
        let coverage = window.report(&reading, &RecordedNames::default()).coverage;
        assert!(!coverage.filtered_is_own && coverage.wakeups.filtered == 1, "{coverage:?}");
    }
}
