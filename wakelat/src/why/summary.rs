//! The accounts of a window, added up.

use std::collections::BTreeMap;

use super::{
    causes::Causes,
    chain::{Chain, Chains},
    finding::{Finding, findings},
    folded::Folded,
    groups::{Group, Groups, Ranked},
    imposed::{Antagonist, Imposed},
    longest::{Exemplar, Longest},
    names::Known,
    stacks::{Code, Counts, Pair, Shown, Stacks},
    storms::{Forks, Storm, Storms},
    sums::Sums,
    wakers::{Ranking, Wakings},
    works::{self, WorkSum, Worker, Works},
};
use crate::aggregate::bounded::Rest;
use crate::{
    aggregate::key::{Key, Names},
    hash::HashSet,
    report::LatencyFrom,
    timeline::{
        Timeline,
        attribute::EventCounts,
        event::{Event, EventKind},
        part::Actor,
        stack::Role,
    },
    wait::{Comm, Namespace},
};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// By what waits are grouped; empty for one group per class.
    pub by: Vec<Key>,
    /// All classes go into one.
    pub merged: bool,
    /// Groups that are kept apart.
    pub max_groups: usize,
    /// How many of the worst waits are kept, of all and of each group.
    pub worst: usize,
    /// What is not told apart, in words.
    pub untold: Vec<&'static str>,
    /// Whose stacks are told.
    pub stacks: Vec<Role>,
    /// wakelat's own process, where it measures now.
    pub own_pid: Option<u32>,
}

/// A window under way.
#[derive(Debug)]
pub struct Summing {
    rules: Rules,
    timeline: Timeline,
    before: EventCounts,
    groups: Groups,
    causes: Causes,
    imposed: Imposed,
    chains: Chains,
    wakings: Wakings,
    works: Works,
    storms: Storms,
    stacks: Stacks,
    given_up_before: u64,
    folded: Option<Folded>,
    worst: Longest,
    throttling_unknown: u64,
}

/// The sum of a window.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// All waits, class by class, the one that took longest first.
    pub classes: Vec<Group>,
    /// The groups asked for, the one that waited longest first; empty where none was asked for.
    pub groups: Vec<Group>,
    /// How many waits are in a group `(other)`.
    pub groups_merged: u64,
    /// The wait of a group is at most this much longer than shown: ns.
    pub groups_error_ns: u128,
    /// Those most in the way.
    pub antagonists: Vec<Antagonist>,
    /// How many there are of them.
    pub all_antagonists: usize,
    /// Those that are not told apart.
    pub antagonists_rest: Rest,
    /// Who took the CPU from whom, the most frequent first.
    pub chains: Vec<Chain>,
    /// How many preemptions there were.
    pub preemptions: u64,
    /// The pairs of preemptions that there was no room for.
    pub chains_rest: Rest,
    /// Who woke whom, the pair that waited longest first.
    pub wakings: Ranking,
    /// What the workers of workqueues did while others waited for them, the most first.
    pub works: BTreeMap<Worker, Vec<WorkSum>>,
    /// Those works that are not told apart.
    pub works_rest: Rest,
    /// Beginnings and ends of works that there was no room for.
    pub works_dropped: u64,
    /// The names of the functions in the works of the longest waits, by their addresses.
    pub functions: BTreeMap<u64, String>,
    /// Who made many tasks that were in the way.
    pub storms: Vec<Storm>,
    /// Makers of tasks that are not told apart, by what their tasks had.
    pub storms_rest: Rest,
    /// Tasks whose maker is no longer known.
    pub storms_dropped: u64,
    /// The longest waits, the longest first.
    pub worst: Vec<Exemplar>,
    /// What stands out.
    pub findings: Vec<Finding>,
    /// Causes that are not told apart: no finding is made of them alone.
    pub findings_rest: Rest,
    /// Events that came, and that did not.
    pub told: EventCounts,
    /// Waits of which the kernel does not tell how long their group was out of quota.
    pub throttling_unknown: u64,
    /// What is not told apart, in words.
    pub untold: Vec<&'static str>,
    /// What became of the stacks, where stacks are told.
    pub stacks: Option<Shown>,
    /// The paths of the cgroups that are named in it.
    pub cgroups: BTreeMap<u64, String>,
    /// The PID namespaces of the tasks of the longest waits, by their thread ids; of those in one of their own.
    pub namespaces: BTreeMap<u32, Namespace>,
    /// The names of those who woke the tasks of the longest waits.
    pub wakers: BTreeMap<u32, Comm>,
    /// The tasks that were made.
    pub forks: Forks,
    /// wakelat's own process, where the waits are of this machine.
    pub own_pid: Option<u32>,
}

/// Antagonists, chains and pairs of waker and wakee that are kept in a summary.
const RANKED: usize = 100;

/// Names that made tasks, in a summary.
const FORKERS: usize = 10;

impl Summing {
    /// Nothing added up yet.
    pub fn new(rules: Rules) -> Self {
        let (timeline, wakings) = (Timeline::new(rules.from), Wakings::new(&rules.by));
        let (groups, stacks) = (Groups::new(&rules), Stacks::new(rules.from));
        Self {
            causes: Causes::new(rules.own_pid),
            rules,
            timeline,
            before: EventCounts::default(),
            groups,
            imposed: Imposed::default(),
            chains: Chains::default(),
            wakings,
            works: Works::default(),
            storms: Storms::default(),
            stacks,
            given_up_before: 0,
            folded: None,
            worst: Longest::default(),
            throttling_unknown: 0,
        }
    }

    /// Takes an event. `known` are the tasks seen so far, those of the event included. Where a wait ends with it that is one of
    /// the longest by now, of all or of its group, returns its stacks.
    pub fn push(&mut self, event: &Event, known: &Known) -> Option<Pair> {
        let mut longest = None;
        let stacks = match &event.kind {
            EventKind::Switch(turn) => self.stacks.turn(turn),
            _ => Pair::default(),
        };
        if let Some(account) = self.timeline.push(event) {
            let of_group = self.groups.add(account, stacks, &self.works);
            let of_all = self.worst.offer(account, stacks, self.rules.worst, &self.works);
            longest = (of_group || of_all).then_some(stacks);
            self.causes.add(account);
            self.imposed.add(account);
            self.works.add(account);
            self.storms.add(account);
            self.throttling_unknown += u64::from(account.ended_wait.throttled_ns.is_none());
            if let Some(folded) = &mut self.folded {
                folded.add(account, &stacks);
            }
        }
        match &event.kind {
            EventKind::Switch(turn) => {
                self.chains.add(turn);
                if let Some(waited) = &turn.ended_wait {
                    self.wakings.add(&waited.wait, known);
                }
            }
            EventKind::WorkItem(work) => self.works.push(work),
            EventKind::ForkExec(spawn) => self.storms.push(spawn),
            EventKind::Stack(stack) => self.stacks.push(*stack),
            EventKind::Interrupt(_) | EventKind::Migration(_) | EventKind::Wakeup(_) => {}
        }
        longest
    }

    /// From now on, keeps all waits by their stacks.
    pub fn fold(&mut self) {
        self.folded = Some(Folded::default());
    }

    /// The waits of all windows by their stacks, where they are kept.
    pub fn folded(&self) -> Option<&Folded> {
        self.folded.as_ref()
    }

    /// Adds to the summary of this window the stacks of its longest waits. The kernel side has counted `counts`.
    pub fn add_stacks(&self, summary: &mut Summary, counts: Counts, code: &dyn Code, known: &Known) {
        for one in summary.worst.iter_mut().chain(summary.groups.iter_mut().flat_map(|group| &mut group.worst)) {
            one.sights = Some(one.stacks.sights(code, known));
        }
        let given_up = self.stacks.given_up() - self.given_up_before;
        summary.stacks = Some(Shown { roles: self.rules.stacks.clone(), counts: Counts { given_up, ..counts } });
    }

    /// Begins a new window: the past stays known.
    pub fn begin(&mut self) {
        self.before = self.timeline.event_counts();
        self.given_up_before = self.stacks.given_up();
        self.groups.clear();
        self.causes.clear();
        self.imposed.clear();
        self.chains.clear();
        self.wakings.clear();
        self.works.clear();
        self.storms.clear();
        self.worst.clear();
        self.throttling_unknown = 0;
    }

    /// Ends a window of `duration_ns`: its groups are taken, and [`Self::begin`] has to follow.
    pub fn summary(&mut self, duration_ns: u64, names: &dyn Names) -> Summary {
        let (antagonists, all_antagonists) = self.imposed.ranking(RANKED);
        let (chains, preemptions) = self.chains.ranking(RANKED);
        let told = self.timeline.event_counts();
        let Ranked { groups, waits_merged, error_ns } = self.groups.take(names);
        let mut summary = Summary {
            from: self.rules.from,
            classes: self.groups.take_classes(),
            groups,
            groups_merged: waits_merged,
            groups_error_ns: error_ns,
            antagonists,
            all_antagonists,
            antagonists_rest: self.imposed.rest(),
            chains,
            preemptions,
            chains_rest: self.chains.rest(),
            wakings: self.wakings.ranking(RANKED, names),
            works: self.works.sums(names),
            works_rest: self.works.rest(),
            works_dropped: self.works.dropped(),
            functions: BTreeMap::new(),
            storms: Vec::new(),
            storms_rest: self.storms.rest(),
            storms_dropped: self.storms.dropped(),
            worst: self.worst.waits().to_vec(),
            findings: Vec::new(),
            findings_rest: self.causes.rest(),
            told: EventCounts { events: told.events - self.before.events, lost: told.lost - self.before.lost },
            throttling_unknown: self.throttling_unknown,
            untold: self.rules.untold.clone(),
            stacks: None,
            cgroups: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            wakers: BTreeMap::new(),
            forks: self.storms.forks(FORKERS),
            own_pid: self.rules.own_pid,
        };
        let all = summary.all();
        summary.findings = findings(&self.causes, &all, duration_ns);
        summary.storms = self.storms.storms(all.ns, duration_ns);
        let works = summary.exemplars().flat_map(|one| &one.account.work_items).map(|did| did.function);
        summary.functions = works.map(|address| (address, works::name(address, names))).collect();
        let wakers = summary.exemplars().filter_map(|one| one.account.ended_wait.wait.waker_tid);
        summary.wakers = wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect();
        let tids = summary.exemplars().map(|one| one.account.ended_wait.wait.tid);
        summary.namespaces = tids.filter_map(|tid| names.namespace(tid).map(|namespace| (tid, namespace))).collect();
        summary.cgroups = summary.cgroup_ids().into_iter().map(|id| (id, names.cgroup(id))).collect();
        summary
    }
}

impl Summary {
    /// The longest waits, of all and of each group.
    fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        self.worst.iter().chain(self.groups.iter().flat_map(|group| &group.worst))
    }

    /// All cgroups that are named in it.
    fn cgroup_ids(&self) -> HashSet<u64> {
        let id = |who: &Actor| match who {
            Actor::Task(task) => task.cgroup_id,
            Actor::Cgroup(id) => *id,
            _ => None,
        };
        let groups = self.classes.iter().chain(&self.groups).flat_map(|group| group.sums.culprits());
        let groups = groups.filter_map(|culprit| id(&culprit.culprit.actor));
        let shares = self.exemplars().flat_map(|one| &one.account.shares);
        let shares = shares.filter_map(|share| id(&share.culprit.actor));
        let waiters = self.exemplars().filter_map(|one| one.account.ended_wait.wait.cgroup_id);
        let antagonists = self.antagonists.iter().filter_map(|antagonist| id(&antagonist.who));
        let findings = self.findings.iter().filter_map(|finding| finding.cause.cgroup_id());
        groups.chain(shares).chain(waiters).chain(antagonists).chain(findings).collect()
    }

    /// All waits of all classes: how many, and how long they took together.
    pub fn all(&self) -> Sums {
        let mut all = Sums::default();
        self.classes.iter().for_each(|group| all.merge(&group.sums));
        all
    }
}
