//! What stands out in a window. The thresholds are those of docs/why.md.

use std::collections::HashMap;

use super::sums::{PartSum, Sums};
use crate::{
    timeline::{
        event::Source,
        part::{Culprit, Part, Who},
    },
    wait::Comm,
};

/// Of somebody's wait, a cause has to have this much to stand out: percent.
pub const SHARE: u128 = 20;

/// And what is unexplained, this much of all: percent.
pub const UNEXPLAINED: u128 = 5;

/// Of all wait, somebody has to have this much to be looked at apart: percent.
pub const VICTIM: u128 = 10;

/// A cause has to have had the window's length divided by this.
pub const OF_WINDOW: u128 = 1000;

/// And as long as this in one wait: ns.
pub const ONCE_NS: u64 = 1_000_000;

/// Or as long as this on average, of the waits in which it had a part: ns.
pub const MEAN_NS: u128 = 50_000;

/// Victims that are named.
const NAMED: usize = 3;

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// What it had of all wait.
    pub sum: PartSum,
    /// All wait: ns.
    pub whole_ns: u128,
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
    pub of_ns: u128,
}

/// What stands out, tasks by their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// The part.
    pub part: Part,
    /// Who in it.
    pub name: Name,
}

/// Who or what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// Tasks of this name.
    Task(Comm),
    /// An interrupt or softirq.
    Noise(Source),
    /// A cgroup.
    Cgroup(Option<u64>),
    /// So many tasks, none of whom stands out.
    Many(usize),
    /// The part says it all.
    Nobody,
}

impl Cause {
    fn of(culprit: &Culprit) -> Self {
        let name = match culprit.who {
            Who::Task(_) if culprit.part == Part::RtThrottled => Name::Nobody,
            Who::Task(task) => Name::Task(task.comm),
            Who::Noise(source) => Name::Noise(source),
            Who::Cgroup(id) => Name::Cgroup(id),
            Who::Idle(_) | Who::Nobody | Who::Unknown(_) => Name::Nobody,
        };
        Self { part: culprit.part, name }
    }

    /// The cgroup, where it is one.
    pub fn cgroup_id(&self) -> Option<u64> {
        match self.name {
            Name::Cgroup(id) => id,
            _ => None,
        }
    }
}

/// What one name waited, and for what.
#[derive(Default)]
struct Waits {
    ns: u128,
    causes: HashMap<Cause, PartSum>,
}

/// What stands out in the waits of a window of `duration_ns`, the largest first. The same name may come more than once.
pub fn findings<'a>(victims: impl Iterator<Item = (Option<Comm>, &'a Sums)>, duration_ns: u64) -> Vec<Finding> {
    let mut by_name: HashMap<Option<Comm>, Waits> = HashMap::new();
    for (comm, sums) in victims {
        let waits = by_name.entry(comm).or_default();
        waits.ns += sums.ns;
        for culprit in sums.culprits() {
            waits.causes.entry(Cause::of(&culprit.culprit)).or_default().merge(&culprit.sum);
        }
    }
    let whole_ns: u128 = by_name.values().map(|waits| waits.ns).sum();
    let mut all: HashMap<Cause, PartSum> = HashMap::new();
    for (cause, sum) in by_name.values().flat_map(|waits| &waits.causes) {
        all.entry(*cause).or_default().merge(sum);
    }
    let victims_of = |cause: &Cause| {
        let mut victims: Vec<Victim> = by_name
            .iter()
            .filter(|(_, waits)| waits.ns * 100 >= whole_ns * VICTIM)
            .filter_map(|(comm, waits)| {
                let ns = waits.causes.get(cause)?.ns;
                Some(Victim { comm: (*comm)?, ns, of_ns: waits.ns })
            })
            .filter(|victim| victim.ns * 100 >= victim.of_ns * SHARE)
            .collect();
        victims.sort_by_key(|victim| (std::cmp::Reverse(victim.ns), victim.comm));
        victims.truncate(NAMED);
        victims
    };
    let mut findings = Vec::new();
    let mut crowds: HashMap<Part, (PartSum, usize)> = HashMap::new();
    for (cause, sum) in &all {
        let least = if cause.part == Part::Unexplained { UNEXPLAINED } else { SHARE };
        let victims = if cause.part == Part::Unexplained { Vec::new() } else { victims_of(cause) };
        let stands_out = sum.ns * 100 >= whole_ns * least || !victims.is_empty();
        if stands_out && matters(cause.part, sum, duration_ns) {
            findings.push(Finding { cause: *cause, sum: *sum, whole_ns, victims });
        } else if matches!(cause.name, Name::Task(_)) {
            let (crowd, tasks) = crowds.entry(cause.part).or_default();
            crowd.merge(sum);
            *tasks += 1;
        }
    }
    for (part, (sum, tasks)) in crowds {
        // None of them alone, all of them together.
        if tasks > 1 && sum.ns * 100 >= whole_ns * SHARE && matters(part, &sum, duration_ns) {
            findings.push(Finding {
                cause: Cause { part, name: Name::Many(tasks) },
                sum,
                whole_ns,
                victims: Vec::new(),
            });
        }
    }
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.sum.ns), finding.cause));
    findings
}

/// Whether a cause had enough for anybody to care.
fn matters(part: Part, sum: &PartSum, duration_ns: u64) -> bool {
    let long = sum.max_ns >= ONCE_NS || sum.ns >= u128::from(sum.waits) * MEAN_NS;
    // What is unexplained puts all else in doubt, however short the waits are.
    sum.ns > 0 && (part == Part::Unexplained || long && sum.ns * OF_WINDOW >= u128::from(duration_ns))
}
