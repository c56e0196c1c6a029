//! The waits that a report by the queue clock accounts for, compared with those that the kernel has counted.

use crate::{
    account::Account,
    report::{JsonReport, JsonSwitchIns},
};

impl Account {
    /// All waits that a report of some tasks by the queue clock accounts for: the waits in its groups, and the waits that
    /// only the terms count.
    ///
    /// # Panics
    /// If the report is not by the queue clock, or waits were lost.
    pub fn in_report(report: &JsonReport) -> Self {
        let terms = switch_ins(report);
        let measured: u64 = report.groups.iter().map(|group| group.count).sum();
        Self {
            waits: measured + terms.unknown_start + terms.after_unseen + terms.unseen,
            waited_ns: report.sum_ns() + terms.unknown_ns + terms.unseen_ns,
            ..Self::default()
        }
    }

    /// Asserts that `accounted` has all waits that the kernel has counted, to the ns.
    ///
    /// A switch that the machine hides from its tracepoints is noticed when its thread is next switched out. So if the
    /// machine hid the last time that a thread ran, its wait for that is missing. It is between two switches that were not
    /// seen; the kernel counts those for each CPU, but they show only between two switches of the CPU that were seen.
    /// Without them, one wait of each thread may be missing, and only if something ran that no instrument sees.
    ///
    /// # Panics
    /// If it has more or fewer waits.
    pub fn assert_is(self, accounted: Self, terms: &JsonSwitchIns) {
        // Old kernels also count a wait that they do not time (5.10, `sched_info_arrive()`, kernel/sched/stats.h).
        let complete = accounted.waits..=accounted.waits + terms.not_timed;
        if self.waited_ns == accounted.waited_ns && complete.contains(&self.waits) {
            return;
        }
        let missing = self.waits.saturating_sub(accounted.waits);
        let hidden = self.hidden_slices.min(self.threads).max(terms.unseen_switches / 2);
        println!("\n  {missing} waits are missing, and {hidden} may be hidden: {accounted:?}, by the kernel {self:?}");
        assert!(
            missing > 0 && missing <= hidden && accounted.waited_ns <= self.waited_ns,
            "{accounted:?}, by the kernel {self:?}: {terms:?}"
        );
    }
}

/// The terms of a report by the queue clock.
///
/// # Panics
/// If it is not by the queue clock, or waits were lost.
pub fn switch_ins(report: &JsonReport) -> JsonSwitchIns {
    let terms = report.coverage.switch_ins.unwrap_or_else(|| panic!("no switch-ins: {report:#?}"));
    assert_eq!((terms.invalid, terms.ring_buffer_full), (0, 0), "{terms:?}");
    terms
}
