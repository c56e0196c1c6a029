//! The accounts of a window, added up.

use std::collections::BTreeMap;

use super::{
    causes::Causes,
    chain::{PreemptionPair, PreemptionPairs},
    finding::{Finding, findings},
    folded::FoldedStacks,
    groups::{GroupBreakdown, GroupBreakdowns, RankedGroups},
    imposed::{Interferer, Interferers},
    longest::{Exemplar, LongestWaits},
    names::NameCache,
    stacks::{PendingStacks, StackCounts, StackSummary, Symbolize, WaitStacks},
    storms::{ForkBurst, ForkBursts, ForkCounts},
    sums::BreakdownSum,
    wakers::{RankedWakeupPairs, WakeupPairs},
    works::{self, WorkItemSum, WorkItems, Worker},
};
use crate::aggregate::bounded::Evicted;
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
pub struct SummaryOptions {
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
    pub not_collected: Vec<&'static str>,
    /// Whose stacks are told.
    pub stacks: Vec<Role>,
    /// wakelat's own process, where it measures now.
    pub own_pid: Option<u32>,
}

/// A window under way.
#[derive(Debug)]
pub struct SummaryBuilder {
    options: SummaryOptions,
    timeline: Timeline,
    before: EventCounts,
    groups: GroupBreakdowns,
    causes: Causes,
    interferers: Interferers,
    preemption_pairs: PreemptionPairs,
    wakeup_pairs: WakeupPairs,
    work_items: WorkItems,
    fork_bursts: ForkBursts,
    stacks: PendingStacks,
    given_up_before: u64,
    folded: Option<FoldedStacks>,
    worst: LongestWaits,
    throttling_unknown: u64,
}

/// The sum of a window.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// All waits, class by class, the one that took longest first.
    pub classes: Vec<GroupBreakdown>,
    /// The groups asked for, the one that waited longest first; empty where none was asked for.
    pub groups: Vec<GroupBreakdown>,
    /// How many waits are in a group `(other)`.
    pub groups_merged: u64,
    /// The wait of a group is at most this much longer than shown: ns.
    pub groups_error_ns: u128,
    /// Those most in the way.
    pub interferers: Vec<Interferer>,
    /// How many there are of them.
    pub interferers_total: usize,
    /// Those that are not told apart.
    pub interferers_evicted: Evicted,
    /// Who took the CPU from whom, the most frequent first.
    pub preemption_pairs: Vec<PreemptionPair>,
    /// How many preemptions there were.
    pub preemptions: u64,
    /// The pairs of preemptions that there was no room for.
    pub preemption_pairs_evicted: Evicted,
    /// Who woke whom, the pair that waited longest first.
    pub wakeup_pairs: RankedWakeupPairs,
    /// What the workers of workqueues did while others waited for them, the most first.
    pub work_items: BTreeMap<Worker, Vec<WorkItemSum>>,
    /// Those works that are not told apart.
    pub work_items_evicted: Evicted,
    /// Beginnings and ends of works that there was no room for.
    pub work_items_dropped: u64,
    /// The names of the functions in the works of the longest waits, by their addresses.
    pub functions: BTreeMap<u64, String>,
    /// Who made many tasks that were in the way.
    pub fork_bursts: Vec<ForkBurst>,
    /// Makers of tasks that are not told apart, by what their tasks had.
    pub fork_bursts_evicted: Evicted,
    /// Tasks whose maker is no longer known.
    pub fork_bursts_dropped: u64,
    /// The longest waits, the longest first.
    pub worst: Vec<Exemplar>,
    /// What stands out.
    pub findings: Vec<Finding>,
    /// Causes that are not told apart: no finding is made of them alone.
    pub causes_evicted: Evicted,
    /// Events that came, and that did not.
    pub events: EventCounts,
    /// Waits of which the kernel does not tell how long their group was out of quota.
    pub throttling_unknown: u64,
    /// What is not told apart, in words.
    pub not_collected: Vec<&'static str>,
    /// What became of the stacks, where stacks are told.
    pub stacks: Option<StackSummary>,
    /// The paths of the cgroups that are named in it.
    pub cgroups: BTreeMap<u64, String>,
    /// The PID namespaces of the tasks of the longest waits, by their thread ids; of those in one of their own.
    pub namespaces: BTreeMap<u32, Namespace>,
    /// The names of those who woke the tasks of the longest waits.
    pub wakers: BTreeMap<u32, Comm>,
    /// The tasks that were made.
    pub forks: ForkCounts,
    /// wakelat's own process, where the waits are of this machine.
    pub own_pid: Option<u32>,
}

/// Antagonists, chains and pairs of waker and wakee that are kept in a summary.
const MAX_RANKED: usize = 100;

/// Names that made tasks, in a summary.
const MAX_FORK_PARENTS: usize = 10;

impl SummaryBuilder {
    /// Nothing added up yet.
    pub fn new(options: SummaryOptions) -> Self {
        let (timeline, wakeup_pairs) = (Timeline::new(options.from), WakeupPairs::new(&options.by));
        let (groups, stacks) = (GroupBreakdowns::new(&options), PendingStacks::new(options.from));
        Self {
            causes: Causes::new(options.own_pid),
            options,
            timeline,
            before: EventCounts::default(),
            groups,
            interferers: Interferers::default(),
            preemption_pairs: PreemptionPairs::default(),
            wakeup_pairs,
            work_items: WorkItems::default(),
            fork_bursts: ForkBursts::default(),
            stacks,
            given_up_before: 0,
            folded: None,
            worst: LongestWaits::default(),
            throttling_unknown: 0,
        }
    }

    /// Takes an event. `known` are the tasks seen so far, those of the event included. Where a wait ends with it that is one of
    /// the longest by now, of all or of its group, returns its stacks.
    pub fn push(&mut self, event: &Event, known: &NameCache) -> Option<WaitStacks> {
        let mut longest = None;
        let stacks = match &event.kind {
            EventKind::Switch(turn) => self.stacks.switch(turn),
            _ => WaitStacks::default(),
        };
        if let Some(account) = self.timeline.push(event) {
            let of_group = self.groups.add(account, stacks, &self.work_items);
            let of_all = self.worst.offer(account, stacks, self.options.worst, &self.work_items);
            longest = (of_group || of_all).then_some(stacks);
            self.causes.add(account);
            self.interferers.add(account);
            self.work_items.add(account);
            self.fork_bursts.add(account);
            self.throttling_unknown += u64::from(account.ended_wait.throttled_ns.is_none());
            if let Some(folded) = &mut self.folded {
                folded.add(account, &stacks);
            }
        }
        match &event.kind {
            EventKind::Switch(turn) => {
                self.preemption_pairs.add(turn);
                if let Some(waited) = &turn.ended_wait {
                    self.wakeup_pairs.add(&waited.wait, known);
                }
            }
            EventKind::WorkItem(work) => self.work_items.push(work),
            EventKind::ForkExec(spawn) => self.fork_bursts.push(spawn),
            EventKind::Stack(stack) => self.stacks.push(*stack),
            EventKind::Interrupt(_) | EventKind::Migration(_) | EventKind::Wakeup(_) => {}
        }
        longest
    }

    /// From now on, keeps all waits by their stacks.
    pub fn enable_folding(&mut self) {
        self.folded = Some(FoldedStacks::default());
    }

    /// The waits of all windows by their stacks, where they are kept.
    pub fn folded(&self) -> Option<&FoldedStacks> {
        self.folded.as_ref()
    }

    /// Adds to the summary of this window the stacks of its longest waits. The kernel side has counted `counts`.
    pub fn add_stacks(&self, summary: &mut Summary, counts: StackCounts, code: &dyn Symbolize, known: &NameCache) {
        for one in summary.worst.iter_mut().chain(summary.groups.iter_mut().flat_map(|group| &mut group.worst)) {
            one.symbolized = Some(one.stacks.symbolize(code, known));
        }
        let given_up = self.stacks.given_up() - self.given_up_before;
        summary.stacks =
            Some(StackSummary { roles: self.options.stacks.clone(), counts: StackCounts { given_up, ..counts } });
    }

    /// Begins a new window: the past stays known.
    pub fn start_window(&mut self) {
        self.before = self.timeline.event_counts();
        self.given_up_before = self.stacks.given_up();
        self.groups.clear();
        self.causes.clear();
        self.interferers.clear();
        self.preemption_pairs.clear();
        self.wakeup_pairs.clear();
        self.work_items.clear();
        self.fork_bursts.clear();
        self.worst.clear();
        self.throttling_unknown = 0;
    }

    /// Ends a window of `duration_ns`: its groups are taken, and [`Self::start_window`] has to follow.
    pub fn summary(&mut self, duration_ns: u64, names: &dyn Names) -> Summary {
        let (antagonists, all_antagonists) = self.interferers.ranking(MAX_RANKED);
        let (chains, preemptions) = self.preemption_pairs.ranking(MAX_RANKED);
        let told = self.timeline.event_counts();
        let RankedGroups { groups, waits_merged, error_ns } = self.groups.take(names);
        let mut summary = Summary {
            from: self.options.from,
            classes: self.groups.take_classes(),
            groups,
            groups_merged: waits_merged,
            groups_error_ns: error_ns,
            interferers: antagonists,
            interferers_total: all_antagonists,
            interferers_evicted: self.interferers.evicted(),
            preemption_pairs: chains,
            preemptions,
            preemption_pairs_evicted: self.preemption_pairs.evicted(),
            wakeup_pairs: self.wakeup_pairs.ranking(MAX_RANKED, names),
            work_items: self.work_items.sums(names),
            work_items_evicted: self.work_items.evicted(),
            work_items_dropped: self.work_items.dropped(),
            functions: BTreeMap::new(),
            fork_bursts: Vec::new(),
            fork_bursts_evicted: self.fork_bursts.evicted(),
            fork_bursts_dropped: self.fork_bursts.dropped(),
            worst: self.worst.waits().to_vec(),
            findings: Vec::new(),
            causes_evicted: self.causes.evicted(),
            events: EventCounts { events: told.events - self.before.events, lost: told.lost - self.before.lost },
            throttling_unknown: self.throttling_unknown,
            not_collected: self.options.not_collected.clone(),
            stacks: None,
            cgroups: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            wakers: BTreeMap::new(),
            forks: self.fork_bursts.forks(MAX_FORK_PARENTS),
            own_pid: self.options.own_pid,
        };
        let all = summary.all();
        summary.findings = findings(&self.causes, &all, duration_ns);
        summary.fork_bursts = self.fork_bursts.bursts(all.ns, duration_ns);
        let works = summary.exemplars().flat_map(|one| &one.breakdown.work_items).map(|did| did.function);
        summary.functions = works.map(|address| (address, works::name(address, names))).collect();
        let wakers = summary.exemplars().filter_map(|one| one.breakdown.ended_wait.wait.waker_tid);
        summary.wakers = wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect();
        let tids = summary.exemplars().map(|one| one.breakdown.ended_wait.wait.tid);
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
        let shares = self.exemplars().flat_map(|one| &one.breakdown.shares);
        let shares = shares.filter_map(|share| id(&share.culprit.actor));
        let waiters = self.exemplars().filter_map(|one| one.breakdown.ended_wait.wait.cgroup_id);
        let antagonists = self.interferers.iter().filter_map(|antagonist| id(&antagonist.actor));
        let findings = self.findings.iter().filter_map(|finding| finding.cause.cgroup_id());
        groups.chain(shares).chain(waiters).chain(antagonists).chain(findings).collect()
    }

    /// All waits of all classes: how many, and how long they took together.
    pub fn all(&self) -> BreakdownSum {
        let mut all = BreakdownSum::default();
        self.classes.iter().for_each(|group| all.merge(&group.sums));
        all
    }
}
