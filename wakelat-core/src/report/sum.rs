//! The sum of the reports of several recordings.

use super::{Coverage, CoverageTerms, Overhead, ProgramTime, Report, SwitchInTerms};

impl Report {
    /// The sum of these reports, each with the number of its file: without groups and threshold. All have the same
    /// classes. The length is the sum of the lengths, and the start is the earliest.
    #[must_use]
    pub fn sum<'a>(reports: impl IntoIterator<Item = (u32, &'a Self)>) -> Self {
        let numbered = reports.into_iter().map(|(number, report)| {
            let mut report = report.clone();
            report.coverage.missing_ends.iter_mut().for_each(|missing| missing.file = number);
            report
        });
        numbered.reduce(|sum, report| sum.plus(&report)).unwrap_or_default()
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        if !self.kernel.split(", ").any(|kernel| kernel == other.kernel) {
            self.kernel = [&*self.kernel, &*other.kernel].join(", ");
        }
        Self {
            kernel: self.kernel,
            start_unix_ns: self.start_unix_ns.min(other.start_unix_ns),
            duration_ns: self.duration_ns.saturating_add(other.duration_ns),
            requested_ns: both(self.requested_ns, other.requested_ns),
            skipped_intervals: self.skipped_intervals.saturating_add(other.skipped_intervals),
            reader_waited_ns: both(self.reader_waited_ns, other.reader_waited_ns),
            not_written: self.not_written.saturating_add(other.not_written),
            unix_offset_ns: self.unix_offset_ns,
            from: self.from,
            mode: self.mode,
            groups: Vec::new(),
            files: self.files,
            coverage: self.coverage.plus(&other.coverage),
            threshold: None,
            // The share of the CPU time is only known if the machines are of the same size.
            overhead: self
                .overhead
                .zip(other.overhead)
                .filter(|(one, other)| one.cpus == other.cpus)
                .map(|(one, other)| one.plus(&other)),
            sampling: self.sampling,
        }
    }
}

/// The sum, if both are known.
fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.saturating_add(other))
}

/// The sum of those that are known.
fn either(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    both(one, other).or(one).or(other)
}

impl Coverage {
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.missing_ends.extend_from_slice(&other.missing_ends);
        Self {
            wakeups: self.wakeups.plus(&other.wakeups),
            preemptions: match (self.preemptions, other.preemptions) {
                (Some(one), Some(other)) => Some(one.plus(&other)),
                (one, other) => one.or(other),
            },
            switch_ins: match (self.switch_ins, other.switch_ins) {
                (Some(one), Some(other)) => Some(one.plus(&other)),
                (one, other) => one.or(other),
            },
            missed: both(self.missed, other.missed),
            events_lost: either(self.events_lost, other.events_lost),
            oldest_waiting: [self.oldest_waiting, other.oldest_waiting]
                .into_iter()
                .flatten()
                .max_by_key(|oldest| oldest.latency_ns),
            groups_merged: self.groups_merged.saturating_add(other.groups_merged),
            group_table_full: self.group_table_full.saturating_add(other.group_table_full),
            filtered_is_own: self.filtered_is_own && other.filtered_is_own,
            missing_ends: self.missing_ends,
            // A text is shown alone.
            text: None,
        }
    }
}

/// Adds the fields of two structs that are numbers; the others follow.
macro_rules! sum_fields {
    ($type:ident, $one:expr, $other:expr, $($field:ident)+ $(; $given:ident)?) => {
        $type { $($field: $one.$field.saturating_add($other.$field)),+ $(, $given)? }
    };
}

impl CoverageTerms {
    /// The terms of both, each of which adds up.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        sum_fields!(CoverageTerms, self, other, seen carried measured already_running already_queued filtered
            below_threshold not_sampled task_table_full ring_buffer_full invalid missed_switch still_waiting paused)
    }
}

impl SwitchInTerms {
    /// The terms of both, each of which adds up.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let still_waiting = both(self.still_waiting, other.still_waiting);
        sum_fields!(SwitchInTerms, self, other, seen measured filtered below_threshold other_class ring_buffer_full
            invalid unknown_start after_unseen not_timed unknown_ns unseen unseen_ns to_idle unseen_switches;
            still_waiting)
    }
}

impl Overhead {
    fn plus(&self, other: &Self) -> Self {
        Self {
            cpus: self.cpus,
            tool_ns: self.tool_ns.saturating_add(other.tool_ns),
            programs: sum_fields!(ProgramTime, self.programs, other.programs, ns switches timed_runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::MissingEnd, *};

    #[test]
    fn the_sum_of_reports_adds_up_and_names_the_file_without_an_end() {
        let terms = CoverageTerms { seen: 9, measured: 5, filtered: 3, still_waiting: 1, ..Default::default() };
        let of = |kernel: &str, start_unix_ns, cpus, missing: bool| Report {
            kernel: kernel.to_owned(),
            start_unix_ns,
            duration_ns: 10,
            coverage: Coverage {
                wakeups: terms,
                preemptions: Some(terms),
                missed: Some(2),
                missing_ends: missing.then_some(MissingEnd { file: 0, at: 7, is_damaged: true }).into_iter().collect(),
                ..Default::default()
            },
            overhead: Some(Overhead { cpus, tool_ns: 4, programs: ProgramTime { ns: 0, switches: 0, timed_runs: 0 } }),
            ..Default::default()
        };
        let reports = [of("6.1", 30, 2, false), of("6.12", 20, 2, true), of("6.1", 40, 2, false)];
        let sum = Report::sum((0..).zip(&reports));
        assert_eq!((&*sum.kernel, sum.start_unix_ns, sum.duration_ns), ("6.1, 6.12", 20, 30));
        let coverage = &sum.coverage;
        assert_eq!((coverage.wakeups.seen, coverage.wakeups.measured, coverage.wakeups.unaccounted()), (27, 15, 0));
        assert_eq!((coverage.preemptions.map(|terms| terms.unaccounted()), coverage.missed), (Some(0), Some(6)));
        assert_eq!(coverage.missing_ends, [MissingEnd { file: 1, at: 7, is_damaged: true }]);
        let share = |sum: &Report| sum.overhead.map(|one| (one.total_ns(), one.capacity_ns(sum.duration_ns)));
        assert_eq!(share(&sum), Some((12, 60)));
        let unequal = [of("6.1", 0, 2, false), of("6.1", 0, 4, false)];
        assert_eq!(Report::sum((0..).zip(&unequal)).overhead, None);
    }
}
