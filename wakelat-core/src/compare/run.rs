//! One run of an arm: its waits by group and interval, and under which conditions it was measured.

use std::collections::BTreeMap;

use super::{bootstrap::Interval, latencies::LatencyCounts};
use crate::report::{KeyPart, Mode, Report};

/// One run.
#[derive(Clone, Debug, Default)]
pub struct ComparedRun {
    /// The name of its file.
    pub name: String,
    /// How it was measured.
    pub conditions: Conditions,
    /// The length of each interval: ns.
    pub intervals_ns: Vec<u64>,
    /// The waits of each class, and those of each group.
    pub groups: BTreeMap<GroupName, GroupRun>,
    /// Whether the causes of the waits are known.
    pub has_causes: bool,
}

/// How a run was measured: runs that differ in some of this are not comparable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// The host name, if it is known.
    pub host: Option<String>,
    /// The kernel's release and version.
    pub kernel: String,
    /// The scheduler of fair tasks, if it is known.
    pub scheduler: Option<String>,
    /// The CPUs that were online, if they are known.
    pub cpus: Option<String>,
    /// The event from which latency is measured.
    pub from: String,
    /// The classes that were measured, if they are known.
    pub classes: Option<Vec<String>>,
    /// The shortest wait that was measured: ns.
    pub threshold_ns: Option<u64>,
    /// Under a limit of the overhead: at the lowest and at the highest sampling shift, one task in this many was measured.
    pub sampled_one_in: Option<[u32; 2]>,
    /// The latencies are only known by bucket.
    pub is_by_bucket: bool,
    /// The causes that are separated from run time, if they are known.
    pub collected: Option<String>,
    /// Waits that were lost, and waits that were to be measured.
    pub lost: [u64; 2],
    /// The share of all CPU time that measuring took: 0 to 1; `None` if it is not known.
    pub overhead: Option<f64>,
}

/// The name of a group, by which it is found in other runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// The class.
    pub class: String,
    /// Name and value of each key, by name; empty for all waits of the class.
    pub key: Vec<(String, String)>,
}

/// The waits of a group in a run.
#[derive(Clone, Debug, Default)]
pub struct GroupRun {
    /// The latencies and their sum (ns) in each interval that has waits, by its number.
    pub intervals: BTreeMap<usize, (LatencyCounts, u128)>,
    /// The longest latency: ns.
    pub max_ns: u64,
    /// The time of each cause: ns. Empty if the causes are not known.
    pub causes: BTreeMap<String, u128>,
    /// The number of waits in which the task migrated, if it is known.
    pub migrated: Option<u64>,
}

impl GroupName {
    /// The name of the group with this key.
    pub fn new(class: &str, key: &[KeyPart]) -> Self {
        let mut key: Vec<_> = key.iter().map(|part| (part.name.to_owned(), part.value.to_string())).collect();
        key.sort();
        Self { class: class.to_owned(), key }
    }

    /// The name of all waits of its class.
    #[must_use]
    pub fn of_class(&self) -> Self {
        Self { class: self.class.clone(), key: Vec::new() }
    }
}

impl Conditions {
    /// Adds waits that were lost, and others that were to be measured, as far as they can be counted: the figures of a
    /// file can be any numbers.
    pub fn add_losses(&mut self, lost: u64, others: u64) {
        let [all_lost, all] = &mut self.lost;
        *all_lost = all_lost.saturating_add(lost);
        *all = all.saturating_add(lost).saturating_add(others);
    }

    /// Notes the sampling of an interval.
    pub fn add_sampling(&mut self, [least, most]: [u32; 2]) {
        let [all_least, all_most] = self.sampled_one_in.unwrap_or([least, most]);
        self.sampled_one_in = Some([all_least.min(least), all_most.max(most)]);
    }
}

impl std::fmt::Display for GroupName {
    /// `wakeup`, or `wakeup, comm nginx`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.class)?;
        self.key.iter().try_for_each(|(name, value)| write!(f, ", {name} {value}"))
    }
}

impl ComparedRun {
    /// The length of the run: ns.
    pub fn duration_ns(&self) -> f64 {
        self.intervals_ns.iter().sum::<u64>() as f64
    }

    /// Adds the next interval.
    pub fn add_interval(&mut self, report: &Report) {
        let number = self.begin_interval(report.measured_ns());
        self.conditions.is_by_bucket |= report.mode == Mode::Aggregate;
        if let Some(sampling) = &report.sampling {
            self.conditions.add_sampling([sampling.one_in_least, sampling.one_in_most]);
        }
        let waits = [Some(&report.coverage.wakeups), report.coverage.preemptions.as_ref()];
        let waits =
            waits.into_iter().flatten().map(|terms| [terms.lost(), terms.measured.saturating_add(terms.filtered)]);
        let queued =
            report.coverage.switch_ins.map(|terms| [terms.lost(), terms.measured.saturating_add(terms.filtered)]);
        for [lost, others] in waits.chain(queued) {
            self.conditions.add_losses(lost, others);
        }
        for group in &report.groups {
            let name = GroupName::new(group.class.name(), &group.key);
            let (latencies, sum_ns) = (LatencyCounts::of(&group.distribution), group.distribution.sum_ns());
            self.add_waits(number, &name, &latencies, (sum_ns, group.distribution.max_ns()));
        }
    }

    /// Begins the next interval, and returns its number.
    pub fn begin_interval(&mut self, duration_ns: u64) -> usize {
        self.intervals_ns.push(duration_ns);
        self.intervals_ns.len() - 1
    }

    /// Adds waits of a group to an interval: their latencies, and the sum and the longest of them (ns).
    pub fn add_waits(
        &mut self,
        number: usize,
        name: &GroupName,
        latencies: &LatencyCounts,
        (sum_ns, max_ns): (u128, u64),
    ) {
        let whole = (!name.key.is_empty()).then(|| name.of_class());
        for name in [Some(name.clone()), whole].into_iter().flatten() {
            let group = self.groups.entry(name).or_default();
            let interval = group.intervals.entry(number).or_default();
            interval.0.add(latencies);
            interval.1 += sum_ns;
            group.max_ns = group.max_ns.max(max_ns);
        }
    }

    /// The waits of a group in all intervals, also in those without waits.
    pub fn intervals_of(&self, group: &GroupRun) -> Vec<Interval> {
        let of = |(number, duration_ns): (usize, &u64)| {
            let (latencies, sum_ns) = group.intervals.get(&number).cloned().unwrap_or_default();
            Interval { latencies, sum_ns: sum_ns as f64, duration_ns: *duration_ns as f64 }
        };
        self.intervals_ns.iter().enumerate().map(of).collect()
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.groups.iter().filter(|(name, _)| name.key.is_empty()).map(|(_, group)| group.count()).sum()
    }
}

impl GroupRun {
    /// The latencies of the whole run.
    pub fn latencies(&self) -> LatencyCounts {
        let mut all = LatencyCounts::default();
        self.intervals.values().for_each(|(latencies, _)| all.add(latencies));
        all
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.intervals.values().map(|(latencies, _)| latencies.count()).sum()
    }

    /// The sum of the waits: ns.
    pub fn sum_ns(&self) -> u128 {
        self.intervals.values().map(|(_, sum_ns)| sum_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_common::Class;

    use crate::{
        compare::saved_report,
        render::{report_document::ReportDocument, testing},
        report::{CoverageTerms, SwitchInTerms},
    };

    #[test]
    fn losses_count_of_wakeups_preemptions_and_switch_ins_also_in_a_saved_report() {
        let mut report = testing::report(vec![testing::group(&[], Class::Wakeup, [1_000])]);
        let terms = CoverageTerms { ring_buffer_full: 1, measured: 10, filtered: 5, ..CoverageTerms::default() };
        report.coverage.wakeups = terms;
        report.coverage.preemptions =
            Some(CoverageTerms { missed_switch: 2, measured: 20, ..CoverageTerms::default() });
        report.coverage.switch_ins = Some(SwitchInTerms { invalid: 4, measured: 40, ..SwitchInTerms::default() });
        let mut run = ComparedRun::default();
        run.add_interval(&report);
        assert_eq!(run.conditions.lost, [7, 7 + 75]);
        let groups: Vec<_> = report.groups.iter().collect();
        let text = serde_json::to_string(&ReportDocument::new(&report, &groups)).unwrap();
        assert_eq!(saved_report::run("run", &text).unwrap().conditions.lost, [7, 7 + 75]);
    }
}
