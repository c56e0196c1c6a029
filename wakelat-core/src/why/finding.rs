//! Findings: the causes of a window that are large enough to report. docs/why.md describes the thresholds.

use super::{
    causes::{Cause, CauseName, Causes},
    sums::{BreakdownSum, TimeSum},
};
use crate::{timeline::component::Component, wait::Comm};

/// Minimum share of a cause in all wait time, or in that of one victim: percent.
pub const MIN_SHARE_PERCENT: u128 = 20;

/// Minimum share of unexplained time in all wait time: percent.
pub const MIN_UNEXPLAINED_PERCENT: u128 = 5;

/// Minimum share of a task name in all wait time to be considered as a victim: percent.
pub const MIN_VICTIM_PERCENT: u128 = 10;

/// The minimum time of a cause is the window's length divided by this.
pub const WINDOW_DIVISOR: u128 = 1000;

/// Minimum of a cause's longest time in one wait, unless it meets [`MIN_MEAN_NS`]: ns.
pub const MIN_LONGEST_NS: u64 = 1_000_000;

/// Minimum of a cause's mean time over the waits it contributed to, unless it meets [`MIN_LONGEST_NS`]: ns.
pub const MIN_MEAN_NS: u128 = 50_000;

/// Maximum number of victims that a finding names.
const MAX_VICTIMS: usize = 3;

/// A cause that is large enough to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// The time of the cause in all waits.
    pub sum: TimeSum,
    /// The time of all waits: ns.
    pub total_ns: u128,
    /// The task names in whose waits the cause has a large share, the one with the most time of it first. Empty if the
    /// share is large only in all waits together.
    pub victims: Vec<Victim>,
}

/// A task name in whose waits a cause has a large share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The name.
    pub comm: Comm,
    /// The time of the cause in its waits: ns.
    pub ns: u128,
    /// The time of its waits: ns.
    pub total_ns: u128,
}

/// The findings of a window of `duration_ns`, the largest first. `all` is the sum of its waits.
pub fn findings(causes: &Causes, all: &BreakdownSum, duration_ns: u64) -> Vec<Finding> {
    let whole_ns = all.ns;
    let hardest_hit = causes.victims((whole_ns * MIN_VICTIM_PERCENT).div_ceil(100));
    let victims_of = |cause: Cause| {
        let victim =
            |(comm, of_ns): &(Comm, u128)| Victim { comm: *comm, ns: causes.victim_ns(*comm, cause), total_ns: *of_ns };
        let hit = |victim: &Victim| victim.ns > 0 && victim.ns * 100 >= victim.total_ns * MIN_SHARE_PERCENT;
        let mut victims: Vec<Victim> = hardest_hit.iter().map(victim).filter(hit).collect();
        victims.sort_by_key(|victim| (std::cmp::Reverse(victim.ns), victim.comm));
        victims.truncate(MAX_VICTIMS);
        victims
    };
    let mut findings = Vec::new();
    let mut others = Vec::new();
    for (cause, sum) in causes.ranking() {
        let least = if cause.component == Component::Unexplained { MIN_UNEXPLAINED_PERCENT } else { MIN_SHARE_PERCENT };
        let victims = if cause.component == Component::Unexplained { Vec::new() } else { victims_of(cause) };
        let stands_out = sum.ns * 100 >= whole_ns * least || !victims.is_empty();
        if stands_out && is_significant(cause.component, &sum, duration_ns) {
            findings.push(Finding { cause, sum, total_ns: whole_ns, victims });
        } else {
            others.push((cause, sum));
        }
    }
    for component in [Component::Higher, Component::Same, Component::Lower] {
        let (sum, tasks) = remaining_tasks(component, all, &findings, &others);
        // No single name is large enough, but all of them together are.
        if tasks > 1 && sum.ns * 100 >= whole_ns * MIN_SHARE_PERCENT && is_significant(component, &sum, duration_ns) {
            let cause = Cause { component, name: CauseName::Many(tasks) };
            findings.push(Finding { cause, sum, total_ns: whole_ns, victims: Vec::new() });
        }
    }
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.sum.ns), finding.cause));
    findings
}

/// The time in a component of all tasks that are not a finding of their own, evicted ones included, and the number of
/// their names, without evicted ones.
fn remaining_tasks(
    component: Component,
    all: &BreakdownSum,
    findings: &[Finding],
    others: &[(Cause, TimeSum)],
) -> (TimeSum, usize) {
    let whole = all.component(component);
    let found = findings.iter().filter(|finding| finding.cause.component == component);
    let found_ns: u128 = found.map(|finding| finding.sum.ns).sum();
    let others = others.iter().filter(|(cause, _)| cause.component == component);
    let tasks = others.clone().count();
    // If some are findings, the time that the others had together in one wait is unknown. It is at least the longest
    // time of one of them.
    let max_ns = if found_ns == 0 { whole.max_ns } else { others.map(|(_, sum)| sum.max_ns).max().unwrap_or_default() };
    (TimeSum { ns: whole.ns - found_ns, max_ns, waits: whole.waits }, tasks)
}

/// Whether a cause had enough time to matter.
fn is_significant(component: Component, sum: &TimeSum, duration_ns: u64) -> bool {
    let long = sum.max_ns >= MIN_LONGEST_NS || sum.ns >= u128::from(sum.waits) * MIN_MEAN_NS;
    // Unexplained time puts everything else in doubt, however short the waits are.
    sum.ns > 0 && (component == Component::Unexplained || long && sum.ns * WINDOW_DIVISOR >= u128::from(duration_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            event::TaskInfo,
            testing::{EventStream, fifo, task},
        },
        why::places::Places,
    };

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// The findings of a window in which nginx waits this many times, each time while the tasks of `behind` run.
    fn found(waits: u64, behind: impl Fn(u64) -> Vec<(TaskInfo, u64)>) -> Vec<Finding> {
        let (mut stream, mut at_ns) = (EventStream::default(), 1);
        for wait in 0..waits {
            let from_ns = at_ns;
            for (runs, ns) in behind(wait) {
                stream.switch(0, at_ns, runs);
                at_ns += ns;
            }
            stream.end_wait(0, (from_ns, at_ns), task(1, "nginx"));
            at_ns += US;
        }
        let (mut timeline, mut causes, mut sums) =
            (Timeline::new(LatencyFrom::Wakeup), Causes::default(), BreakdownSum::default());
        let mut places = Places::default();
        for event in &stream.events {
            if let Some(breakdown) = timeline.push(event) {
                causes.add(breakdown);
                sums.add(breakdown, &mut places);
            }
        }
        findings(&causes, &sums, SECOND)
    }

    fn named(found: &[Finding]) -> Vec<(CauseName, u64, u64)> {
        found.iter().map(|found| (found.cause.name, found.sum.waits, found.sum.max_ns)).collect()
    }

    #[test]
    fn a_wait_behind_many_tasks_of_one_name_counts_once() {
        let found = found(20, |_| (0..30).map(|worker| (task(100 + worker, "worker"), 40 * US)).collect());
        assert_eq!(named(&found), [(CauseName::Task(Comm::new(b"worker")), 20, 1_200 * US)]);
    }

    #[test]
    fn short_waits_are_no_finding_whatever_their_number() {
        let found = found(1_000, |_| vec![(task(100, "worker"), 20 * US), (task(101, "worker"), 20 * US)]);
        assert_eq!(named(&found), []);
    }

    #[test]
    fn many_names_are_one_finding_with_their_time_together() {
        let name = |n: u64| format!("job-{n}");
        let found = found(20, |wait| (0..30).map(|n| (task(100 + n as u32, &name(30 * wait + n)), 40 * US)).collect());
        assert_eq!(named(&found), [(CauseName::Many(600), 20, 1_200 * US)]);
    }

    #[test]
    fn many_names_beside_a_finding_have_the_remaining_time() {
        let found = found(10, |wait| {
            let mut behind = vec![(task(7, "hog"), 3_000 * US)];
            behind.extend((0..10).map(|n| (task(100 + n, &format!("job-{wait}-{n}")), 200 * US)));
            behind
        });
        // 2 of 5 ms, and more than 50 us of each wait.
        assert_eq!(
            named(&found),
            [(CauseName::Task(Comm::new(b"hog")), 10, 3_000 * US), (CauseName::Many(100), 10, 200 * US)]
        );
        assert_eq!(found[1].sum.ns, 20_000_000);
    }

    #[test]
    fn one_name_in_two_components_is_two_causes() {
        let found = found(10, |_| vec![(task(7, "hog"), 2_000 * US), (fifo(8, "hog", 49), 2_000 * US)]);
        let components: Vec<Component> = found.iter().map(|found| found.cause.component).collect();
        assert_eq!(components, [Component::Higher, Component::Same]);
    }

    #[test]
    fn a_hog_that_comes_after_very_many_tasks_is_found() {
        // More names than the tables have room for, and then one hog.
        let found = found(20_000, |wait| match wait {
            0..19_000 => vec![(task(100 + wait as u32, &format!("job-{wait}")), 20 * US)],
            _ => vec![(task(7, "hog"), 500 * US)],
        });
        assert_eq!(found[0].cause.name, CauseName::Task(Comm::new(b"hog")));
        assert_eq!((found[0].sum.ns, found[0].sum.waits), (500_000_000, 1_000));
    }
}
