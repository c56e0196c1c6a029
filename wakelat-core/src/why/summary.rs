//! The sum of a window: its breakdowns added up by component, group, cause and task, with its longest waits.

use std::collections::BTreeMap;

use super::{
    causes::Causes,
    finding::{Finding, findings},
    folded::FoldedStacks,
    fork_bursts::{ForkBurst, ForkBursts, ForkCounts},
    groups::{GroupBreakdown, GroupBreakdowns, RankedGroups},
    interferers::{Interferer, Interferers},
    name_cache::NameCache,
    options::SummaryOptions,
    preemptions::{PreemptionPair, PreemptionPairs},
    stacks::{PendingStacks, StackSummary, WaitStacks},
    sums::BreakdownSum,
    wakeup_pairs::{RankedWakeupPairs, WakeupPairs},
    work_items::{self, WorkItemSum, WorkItems, Worker},
    worst::{Exemplar, LongestWaits},
};
use crate::aggregate::space_saving::Evicted;
use crate::{
    aggregate::key::Names,
    files::Files,
    hash::HashSet,
    report::LatencyFrom,
    timeline::{
        Breakdown, Timeline,
        attribute::EventCounts,
        component::Actor,
        event::{Event, EventKind},
        stack_event::StackId,
        stack_frames::{StackCounts, Symbolize},
    },
    wait::{Comm, Namespace},
};

/// The sum of a window that has not ended.
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
    /// All waits by class, the class with the longest total wait first.
    pub classes: Vec<GroupBreakdown>,
    /// The requested groups, the one with the longest total wait first; empty if none were requested.
    pub groups: Vec<GroupBreakdown>,
    /// The number of waits in groups `(other)`.
    pub groups_merged: u64,
    /// The total wait of a group is at most this much longer than shown: ns.
    pub groups_error_ns: u128,
    /// The tasks and interrupts that made others wait the longest.
    pub interferers: Vec<Interferer>,
    /// The number of interferers in the table, listed or not.
    pub interferers_total: usize,
    /// The interferers that the table had no room for.
    pub interferers_evicted: Evicted,
    /// Which task preempted which, the most frequent pair first.
    pub preemption_pairs: Vec<PreemptionPair>,
    /// The number of preemptions.
    pub preemptions: u64,
    /// The pairs of preemptions that the table had no room for.
    pub preemption_pairs_evicted: Evicted,
    /// Which task woke which, the pair with the longest total wait first.
    pub wakeup_pairs: RankedWakeupPairs,
    /// What workqueue workers ran while others waited for them, the function with the most time first.
    pub work_items: BTreeMap<Worker, Vec<WorkItemSum>>,
    /// The work items that the table had no room for.
    pub work_items_evicted: Evicted,
    /// Starts and ends of work items that there was no room for.
    pub work_items_dropped: u64,
    /// The names of the functions of the work items in the longest waits, by address.
    pub functions: BTreeMap<u64, String>,
    /// Tasks that created many others, for which tasks waited.
    pub fork_bursts: Vec<ForkBurst>,
    /// The parents that the table had no room for, by the time of their children.
    pub fork_bursts_evicted: Evicted,
    /// Tasks whose parent is no longer known.
    pub fork_bursts_dropped: u64,
    /// The longest waits, the longest first.
    pub worst: Vec<Exemplar>,
    /// The causes that are large enough to report.
    pub findings: Vec<Finding>,
    /// The causes that the table had no room for: none of them is a finding of its own.
    pub causes_evicted: Evicted,
    /// Events that arrived, and events that were lost.
    pub events: EventCounts,
    /// The number of waits for which the kernel does not report how long their group was out of quota.
    pub throttling_unknown: u64,
    /// Causes that are not separated from run time, in words.
    pub not_collected: Vec<&'static str>,
    /// What became of the stacks, if stacks are taken.
    pub stacks: Option<StackSummary>,
    /// The paths of all cgroups that the summary refers to, by ID.
    pub cgroups: BTreeMap<u64, String>,
    /// The PID namespaces of the tasks of the longest waits, by TID; only of tasks in a namespace of their own.
    pub namespaces: BTreeMap<u32, Namespace>,
    /// The names of the wakers of the longest waits, by TID.
    pub wakers: BTreeMap<u32, Comm>,
    /// The tasks that were created.
    pub forks: ForkCounts,
    /// The PIDs of wakelat itself, which measured.
    pub own_pids: Vec<u32>,
    /// The recordings that the waits are of.
    pub files: Files,
}

/// Maximum number of interferers, of preemption pairs and of wakeup pairs in a summary.
const MAX_RANKED: usize = 100;

/// Maximum number of parents' names in a summary.
const MAX_FORK_PARENTS: usize = 10;

impl SummaryBuilder {
    /// A window without events.
    pub fn new(options: SummaryOptions) -> Self {
        let (timeline, wakeup_pairs) = (Timeline::new(options.from), WakeupPairs::new(&options.by));
        let (groups, stacks) = (GroupBreakdowns::new(&options), PendingStacks::new(options.from));
        Self {
            causes: Causes::new(options.own_pids.clone()),
            preemption_pairs: PreemptionPairs::new(options.own_pids.clone()),
            options,
            timeline,
            before: EventCounts::default(),
            groups,
            interferers: Interferers::default(),
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

    /// Adds an event. `known` has the tasks seen so far, including those of the event. If the event ends a wait that is
    /// one of the longest so far, of all waits or of its group, returns the stacks of that wait.
    pub fn push(&mut self, event: &Event, known: &NameCache) -> Option<WaitStacks> {
        self.push_and(event, known, |_| ())
    }

    /// As [`Self::push`], and passes the wait that the event ends to `visit`.
    pub fn push_and(&mut self, event: &Event, known: &NameCache, visit: impl FnOnce(&Breakdown)) -> Option<WaitStacks> {
        let mut longest = None;
        let stacks = match &event.kind {
            EventKind::Switch(switch) => self.stacks.switch(switch),
            _ => WaitStacks::default(),
        };
        if let Some(breakdown) = self.timeline.push(event) {
            let of_group = self.groups.add(breakdown, stacks, &self.work_items);
            let of_all = self.worst.offer(breakdown, stacks, self.options.worst, &self.work_items);
            longest = (of_group || of_all).then_some(stacks);
            self.causes.add(breakdown);
            self.interferers.add(breakdown);
            self.work_items.add(breakdown);
            self.fork_bursts.add(breakdown);
            self.throttling_unknown += u64::from(breakdown.ended_wait.throttled_ns.is_none());
            if let Some(folded) = &mut self.folded {
                folded.add(breakdown, &stacks);
            }
            visit(breakdown);
        }
        match &event.kind {
            EventKind::Switch(switch) => {
                self.preemption_pairs.add(switch);
                if let Some(waited) = &switch.ended_wait {
                    self.wakeup_pairs.add(&waited.wait, known);
                }
            }
            EventKind::WorkItem(work_item) => self.work_items.push(work_item),
            EventKind::ForkExec(fork_exec) => self.fork_bursts.push(fork_exec),
            // A recording may have more stacks than are shown.
            EventKind::Stack(stack) if self.options.stacks.contains(&stack.role) => self.stacks.push(*stack),
            EventKind::Stack(_) => {}
            EventKind::Interrupt(_) | EventKind::Migration(_) | EventKind::Wakeup(_) => {}
        }
        longest
    }

    /// From now on, adds up all waits by their stacks.
    pub fn enable_folding(&mut self) {
        self.folded = Some(FoldedStacks::default());
    }

    /// The waits of all windows by their stacks, if [`Self::enable_folding`] was called.
    pub fn folded(&self) -> Option<&FoldedStacks> {
        self.folded.as_ref()
    }

    /// Passes each kernel and user stack to `visit` that may still have to be symbolized: of tasks that have not
    /// run yet, of the longest waits, and of folded lines. A stack can come more than once.
    pub fn visit_stacks(&self, visit: &mut dyn FnMut(StackId, StackId)) {
        let longest = self.worst.waits().iter().chain(self.groups.longest()).flat_map(|wait| wait.stacks.known());
        self.stacks.kept().chain(longest).for_each(|stack| visit(stack.kernel, stack.user));
        if let Some(folded) = &self.folded {
            folded.visit_stacks(visit);
        }
    }

    /// Adds the symbolized stacks of the longest waits to the summary of this window, and the programs' `counts`.
    pub fn add_stacks(&self, summary: &mut Summary, counts: StackCounts, code: &dyn Symbolize, known: &NameCache) {
        for wait in summary.worst.iter_mut().chain(summary.groups.iter_mut().flat_map(|group| &mut group.worst)) {
            wait.symbolized = Some(wait.stacks.symbolize(code, known));
        }
        let given_up = self.stacks.given_up() - self.given_up_before;
        summary.stacks =
            Some(StackSummary { roles: self.options.stacks.clone(), counts: StackCounts { given_up, ..counts } });
    }

    /// Begins a new window, whose waits can still refer to events of the windows before.
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

    /// Ends a window of `duration_ns` and returns its sum. Takes the groups, so [`Self::start_window`] must follow.
    pub fn summary(&mut self, duration_ns: u64, names: &dyn Names) -> Summary {
        let (interferers, interferers_total) = self.interferers.ranking(MAX_RANKED);
        let (preemption_pairs, preemptions) = self.preemption_pairs.ranking(MAX_RANKED);
        let counts = self.timeline.event_counts();
        let RankedGroups { groups, waits_merged, error_ns } = self.groups.take(names);
        let mut summary = Summary {
            from: self.options.from,
            classes: self.groups.take_classes(),
            groups,
            groups_merged: waits_merged,
            groups_error_ns: error_ns,
            interferers,
            interferers_total,
            interferers_evicted: self.interferers.evicted(),
            preemption_pairs,
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
            events: EventCounts { events: counts.events - self.before.events, lost: counts.lost - self.before.lost },
            throttling_unknown: self.throttling_unknown,
            not_collected: self.options.not_collected.clone(),
            stacks: None,
            cgroups: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            wakers: BTreeMap::new(),
            forks: self.fork_bursts.forks(MAX_FORK_PARENTS),
            own_pids: self.options.own_pids.clone(),
            files: names.files(),
        };
        let all = summary.all();
        summary.findings = findings(&self.causes, &all, duration_ns);
        summary.fork_bursts = self.fork_bursts.bursts(all.ns, duration_ns);
        let functions = summary.exemplars().flat_map(|wait| &wait.breakdown.work_items).map(|item| item.function);
        summary.functions = functions.map(|address| (address, work_items::name(address, names))).collect();
        let wakers = summary.exemplars().filter_map(|wait| wait.breakdown.ended_wait.wait.waker_tid);
        summary.wakers = wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect();
        let tids = summary.exemplars().map(|wait| wait.breakdown.ended_wait.wait.tid);
        summary.namespaces = tids.filter_map(|tid| names.namespace(tid).map(|namespace| (tid, namespace))).collect();
        summary.cgroups = summary.cgroup_ids().into_iter().map(|id| (id, names.cgroup(id))).collect();
        summary
    }
}

impl Summary {
    /// The longest waits of all, and those of each group.
    fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        self.worst.iter().chain(self.groups.iter().flat_map(|group| &group.worst))
    }

    /// The IDs of all cgroups that the summary refers to.
    fn cgroup_ids(&self) -> HashSet<u64> {
        let id = |actor: &Actor| match actor {
            Actor::Task(task) => task.cgroup_id,
            Actor::Cgroup(id) => *id,
            _ => None,
        };
        let groups = self.classes.iter().chain(&self.groups).flat_map(|group| group.sums.culprits());
        let groups = groups.filter_map(|culprit| id(&culprit.culprit.actor));
        let shares = self.exemplars().flat_map(|wait| &wait.breakdown.shares);
        let shares = shares.filter_map(|share| id(&share.culprit.actor));
        let waiters = self.exemplars().filter_map(|wait| wait.breakdown.ended_wait.wait.cgroup_id);
        let interferers = self.interferers.iter().filter_map(|interferer| id(&interferer.actor));
        let findings = self.findings.iter().filter_map(|finding| finding.cause.cgroup_id());
        groups.chain(shares).chain(waiters).chain(interferers).chain(findings).collect()
    }

    /// The sum of the waits of all classes.
    pub fn all(&self) -> BreakdownSum {
        let mut all = BreakdownSum::default();
        self.classes.iter().for_each(|group| all.merge(&group.sums));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        aggregate::key::Key,
        why::testing::{TestNames, one_round, options},
    };

    fn visited(builder: &SummaryBuilder) -> BTreeSet<(StackId, StackId)> {
        let mut stacks = BTreeSet::new();
        builder.visit_stacks(&mut |kernel, user| _ = stacks.insert((kernel, user)));
        stacks
    }

    #[test]
    fn the_stacks_of_pending_and_longest_waits_and_of_folded_lines_are_visited() {
        let all = BTreeSet::from([(StackId::Id(1), StackId::MapFull), (StackId::Id(2), StackId::Id(3))]);
        for (worst, folds) in [(1, false), (0, true)] {
            let options = options(LatencyFrom::Wakeup, &[Key::Comm], true);
            let mut builder = SummaryBuilder::new(SummaryOptions { worst, ..options });
            if folds {
                builder.enable_folding();
            }
            let (mut known, mut taken) = (NameCache::default(), 0);
            for event in &one_round().events {
                known.learn(event, &TestNames);
                builder.push(event, &known);
                taken += usize::from(matches!(event.kind, EventKind::Stack(_)));
                if taken == all.len() {
                    assert_eq!(visited(&builder), all, "after {event:?}");
                }
            }
            builder.worst.clear();
            assert_eq!(visited(&builder), all, "the longest of its group");
            builder.start_window();
            assert_eq!(visited(&builder), if folds { all.clone() } else { BTreeSet::new() });
        }
    }
}
