//! What stands out in a window. The thresholds are those of docs/why.md.

use super::{
    causes::{Cause, CauseName, Causes},
    sums::{BreakdownSum, TimeSum},
};
use crate::{timeline::part::Component, wait::Comm};

/// Of somebody's wait, a cause has to have this much to stand out: percent.
pub const MIN_SHARE_PERCENT: u128 = 20;

/// And what is unexplained, this much of all: percent.
pub const MIN_UNEXPLAINED_PERCENT: u128 = 5;

/// Of all wait, somebody has to have this much to be looked at apart: percent.
pub const MIN_VICTIM_PERCENT: u128 = 10;

/// A cause has to have had the window's length divided by this.
pub const WINDOW_DIVISOR: u128 = 1000;

/// And as long as this in one wait: ns.
pub const MIN_LONGEST_NS: u64 = 1_000_000;

/// Or as long as this on average, of the waits in which it had a part: ns.
pub const MIN_MEAN_NS: u128 = 50_000;

/// Victims that are named.
const MAX_VICTIMS: usize = 3;

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// What it had of all wait.
    pub sum: TimeSum,
    /// All wait: ns.
    pub total_ns: u128,
    /// Those of whose wait it is a large share, the hardest hit first; empty where it is one of the whole alone.
    pub victims: Vec<Victim>,
}

/// One whose wait has a large share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its name.
    pub comm: Comm,
    /// What the cause had of its wait: ns.
    pub ns: u128,
    /// Its wait: ns.
    pub total_ns: u128,
}

/// What stands out in the waits of a window of `duration_ns`, the largest first. `all` is the sum of them.
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
    for part in [Component::Higher, Component::Same, Component::Lower] {
        let (sum, tasks) = remaining_tasks(part, all, &findings, &others);
        // None of them alone, all of them together.
        if tasks > 1 && sum.ns * 100 >= whole_ns * MIN_SHARE_PERCENT && is_significant(part, &sum, duration_ns) {
            let cause = Cause { component: part, name: CauseName::Many(tasks) };
            findings.push(Finding { cause, sum, total_ns: whole_ns, victims: Vec::new() });
        }
    }
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.sum.ns), finding.cause));
    findings
}

/// What tasks had of a part of which none stands out, those that are not told apart among them; and how many names they have.
fn remaining_tasks(
    part: Component,
    all: &BreakdownSum,
    findings: &[Finding],
    others: &[(Cause, TimeSum)],
) -> (TimeSum, usize) {
    let whole = all.component(part);
    let found_ns: u128 = findings.iter().filter(|found| found.cause.component == part).map(|found| found.sum.ns).sum();
    let others = others.iter().filter(|(cause, _)| cause.component == part);
    let tasks = others.clone().count();
    // Where some do stand out, what the others had together in one wait is not known: no more is said than the longest of one.
    let max_ns = if found_ns == 0 { whole.max_ns } else { others.map(|(_, sum)| sum.max_ns).max().unwrap_or_default() };
    (TimeSum { ns: whole.ns - found_ns, max_ns, waits: whole.waits }, tasks)
}

/// Whether a cause had enough for anybody to care.
fn is_significant(part: Component, sum: &TimeSum, duration_ns: u64) -> bool {
    let long = sum.max_ns >= MIN_LONGEST_NS || sum.ns >= u128::from(sum.waits) * MIN_MEAN_NS;
    // What is unexplained puts all else in doubt, however short the waits are.
    sum.ns > 0 && (part == Component::Unexplained || long && sum.ns * WINDOW_DIVISOR >= u128::from(duration_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            event::TaskInfo,
            fixtures::{EventStream, fifo, task},
        },
    };

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// What stands out in a window where nginx waits so many times, each time behind `behind`, one after the other.
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
        for event in &stream.events {
            if let Some(account) = timeline.push(event) {
                causes.add(account);
                sums.add(account);
            }
        }
        findings(&causes, &sums, SECOND)
    }

    fn named(found: &[Finding]) -> Vec<(CauseName, u64, u64)> {
        found.iter().map(|found| (found.cause.name, found.sum.waits, found.sum.max_ns)).collect()
    }

    #[test]
    fn a_wait_behind_many_of_one_name_is_one_wait_of_all_they_had() {
        let found = found(20, |_| (0..30).map(|worker| (task(100 + worker, "worker"), 40 * US)).collect());
        assert_eq!(named(&found), [(CauseName::Task(Comm::new(b"worker")), 20, 1_200 * US)]);
    }

    #[test]
    fn short_waits_are_none_behind_however_many_tasks() {
        let found = found(1_000, |_| vec![(task(100, "worker"), 20 * US), (task(101, "worker"), 20 * US)]);
        assert_eq!(named(&found), []);
    }

    #[test]
    fn a_crowd_is_all_that_it_had_in_a_wait() {
        let name = |n: u64| format!("job-{n}");
        let found = found(20, |wait| (0..30).map(|n| (task(100 + n as u32, &name(30 * wait + n)), 40 * US)).collect());
        assert_eq!(named(&found), [(CauseName::Many(600), 20, 1_200 * US)]);
    }

    #[test]
    fn a_crowd_beside_one_that_stands_out_has_what_that_one_leaves() {
        let found = found(10, |wait| {
            let mut behind = vec![(task(7, "hog"), 3_000 * US)];
            behind.extend((0..10).map(|n| (task(100 + n, &format!("job-{wait}-{n}")), 200 * US)));
            behind
        });
        // Two of five ms, and more than 50 us of each.
        assert_eq!(
            named(&found),
            [(CauseName::Task(Comm::new(b"hog")), 10, 3_000 * US), (CauseName::Many(100), 10, 200 * US)]
        );
        assert_eq!(found[1].sum.ns, 20_000_000);
    }

    #[test]
    fn one_name_in_two_parts_is_two_causes() {
        let found = found(10, |_| vec![(task(7, "hog"), 2_000 * US), (fifo(8, "hog", 49), 2_000 * US)]);
        let parts: Vec<Component> = found.iter().map(|found| found.cause.component).collect();
        assert_eq!(parts, [Component::Higher, Component::Same]);
    }

    #[test]
    fn who_comes_after_very_many_others_is_found_all_the_same() {
        // So many threads that no table could keep them apart, and then one hog.
        let found = found(20_000, |wait| match wait {
            0..19_000 => vec![(task(100 + wait as u32, &format!("job-{wait}")), 20 * US)],
            _ => vec![(task(7, "hog"), 500 * US)],
        });
        assert_eq!(found[0].cause.name, CauseName::Task(Comm::new(b"hog")));
        assert_eq!((found[0].sum.ns, found[0].sum.waits), (500_000_000, 1_000));
    }
}
