//! Fork bursts: tasks of one name that create many others, and how long tasks waited for those.

use super::{
    finding::{MIN_SHARE_PERCENT, WINDOW_DIVISOR},
    sums::{SharesInWait, TimeSum},
    tid_set::TidFilter,
};
use crate::aggregate::space_saving::{Evicted, SpaceSaving, Sum};
use crate::{
    hash::HashMap,
    timeline::{Breakdown, component::Actor, event::ForkExecEvent},
    wait::Comm,
};

/// The parent is known of at least this many of the latest tasks, and of at most twice as many.
const MAX_CHILDREN: usize = 65_536;

/// Maximum number of parents' names.
const MAX_PARENTS: usize = 4096;

/// Minimum number of new tasks in a fork burst, both in total and per second.
pub const MIN_BURST_TASKS: u64 = 20;

/// The parents of tasks, and how long others waited for their children.
#[derive(Debug, Default)]
pub struct ForkBursts {
    parent_names: ParentNames,
    parents: SpaceSaving<Comm, ParentSum>,
    tasks: u64,
    execs: u64,
    /// Number of waits so far.
    waits: u64,
}

/// The tasks that were created in a window, whether or not others waited for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkCounts {
    /// The number of tasks created.
    pub tasks: u64,
    /// The number of programs executed.
    pub execs: u64,
    /// The names that created the most tasks: name, tasks created, and programs that those tasks executed.
    pub parents: Vec<(Comm, u64, u64)>,
}

/// The name of each task's parent, in two halves: when the younger half is full, it replaces the older one.
#[derive(Debug, Default)]
struct ParentNames {
    young: HashMap<u32, Comm>,
    old: HashMap<u32, Comm>,
    /// The tasks of both halves.
    tids: TidFilter,
    /// Tasks that were dropped with an older half.
    dropped: u64,
}

/// The children of tasks of one name: their number, the programs they executed, and how long others waited for them.
#[derive(Clone, Copy, Debug, Default)]
struct ParentSum {
    tasks: u64,
    execs: u64,
    sum: TimeSum,
    in_wait: SharesInWait,
}

/// Tasks of one name that created many others, for which tasks waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkBurst {
    /// The name of the parents.
    pub comm: Comm,
    /// The number of tasks that they created.
    pub tasks: u64,
    /// The number of programs that those tasks executed.
    pub execs: u64,
    /// The time of those tasks in the waits of others.
    pub sum: TimeSum,
    /// The time of all waits: ns.
    pub total_ns: u128,
}

impl Sum for ParentSum {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl ParentNames {
    fn push(&mut self, child: u32, parent: Comm) {
        if self.young.len() >= MAX_CHILDREN {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.dropped += old.len() as u64;
            self.tids = self.old.keys().copied().collect();
        }
        self.tids.insert(child);
        self.young.insert(child, parent);
    }

    fn get(&self, tid: u32) -> Option<Comm> {
        if !self.tids.may_have(tid) {
            return None;
        }
        self.young.get(&tid).or_else(|| self.old.get(&tid)).copied()
    }

    /// Counts a task as one of the latest again: a task for which others wait is still alive.
    fn touch(&mut self, tid: u32) {
        if !self.old.is_empty()
            && self.tids.may_have(tid)
            && let Some(parent) = self.old.remove(&tid)
            && !self.young.contains_key(&tid)
        {
            self.push(tid, parent);
        }
    }
}

impl ForkBursts {
    /// Adds a fork or an exec.
    pub fn push(&mut self, event: &ForkExecEvent) {
        match event.child {
            Some(_) => self.tasks += 1,
            None => self.execs += 1,
        }
        let parent = match event.child {
            Some(child) => {
                self.parent_names.push(child, event.comm);
                Some(event.comm)
            }
            None => self.parent_names.get(event.tid),
        };
        let Some(parent) = parent else { return };
        let sum = self.parents.entry(parent, ParentSum::default);
        sum.tasks += u64::from(event.child.is_some());
        sum.execs += u64::from(event.child.is_none());
        self.parents.evict_above(MAX_PARENTS, |_, _| ());
    }

    /// Adds a wait, which counts once for each parent, whatever the number of its children that ran meanwhile.
    pub fn add(&mut self, breakdown: &Breakdown) {
        self.waits += 1;
        for share in &breakdown.shares {
            let Actor::Task(task) = share.culprit.actor else { continue };
            self.parent_names.touch(task.tid);
            if let Some(parent) = self.parent_names.get(task.tid) {
                let parent = self.parents.entry(parent, ParentSum::default);
                parent.in_wait.add(self.waits, share.ns, &mut parent.sum);
            }
        }
        self.parents.evict_above(MAX_PARENTS, |_, _| ());
    }

    /// Removes all counts and times. The parents of tasks stay known.
    pub fn clear(&mut self) {
        self.parents.clear();
        (self.tasks, self.execs) = (0, 0);
        self.parent_names.dropped = 0;
    }

    /// The number of tasks created, and the `limit` names that created the most.
    pub fn forks(&self, limit: usize) -> ForkCounts {
        let mut parents: Vec<(Comm, u64, u64)> =
            self.parents.iter().map(|(comm, sum)| (*comm, sum.tasks, sum.execs)).collect();
        parents.retain(|(_, tasks, _)| *tasks > 0);
        parents.sort_unstable_by_key(|(comm, tasks, _)| (std::cmp::Reverse(*tasks), *comm));
        parents.truncate(limit);
        ForkCounts { tasks: self.tasks, execs: self.execs, parents }
    }

    /// The number of tasks whose parent is no longer known. They, and the programs that they execute, no longer count
    /// for any burst.
    pub fn dropped(&self) -> u64 {
        self.parent_names.dropped
    }

    /// The fork bursts of a window of `duration_ns` whose waits took `whole_ns` in total, the largest first.
    pub fn bursts(&self, whole_ns: u128, duration_ns: u64) -> Vec<ForkBurst> {
        let at_least_a_second = u128::from(duration_ns).max(1_000_000_000);
        let is_burst = |(_, parent): &(Comm, &ParentSum)| {
            u128::from(parent.tasks) * 1_000_000_000 >= u128::from(MIN_BURST_TASKS) * at_least_a_second
                && parent.sum.ns * 100 >= whole_ns * MIN_SHARE_PERCENT
                && parent.sum.ns * WINDOW_DIVISOR >= u128::from(duration_ns)
                && parent.sum.ns > 0
        };
        let burst = |(comm, parent): (Comm, &ParentSum)| ForkBurst {
            comm,
            tasks: parent.tasks,
            execs: parent.execs,
            sum: parent.sum,
            total_ns: whole_ns,
        };
        self.parents.ranking().into_iter().filter(is_burst).map(burst).collect()
    }

    /// The parents that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.parents.evicted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            testing::{EventStream, task},
        },
    };

    const SECOND: u64 = 1_000_000_000;

    /// `make` creates this many tasks, one of which executes a program. nginx waits 2 ms for that one, and 2 ms for
    /// another task.
    fn bursts(tasks: u32, duration_ns: u64) -> Vec<ForkBurst> {
        const MS: u64 = 1_000_000;
        let mut bursts = ForkBursts::default();
        let event = |tid, child| ForkExecEvent { at_ns: 1, tid, comm: Comm::new(b"make"), child };
        (0..tasks).for_each(|child| bursts.push(&event(10, Some(100 + child))));
        bursts.push(&event(100, None));
        bursts.push(&event(99, None));
        let mut stream = EventStream::default();
        stream.switch(0, 1, task(100, "cc1"));
        stream.end_wait(0, (10 * MS, 12 * MS), task(1, "nginx"));
        stream.switch(0, 13 * MS, task(7, "other"));
        stream.end_wait(0, (20 * MS, 22 * MS), task(1, "nginx"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let mut whole_ns = 0;
        for event in &stream.events {
            if let Some(breakdown) = timeline.push(event) {
                whole_ns += u128::from(breakdown.latency_ns);
                bursts.add(breakdown);
            }
        }
        bursts.bursts(whole_ns, duration_ns)
    }

    #[test]
    fn many_new_tasks_that_make_others_wait_are_a_fork_burst() {
        let expected = ForkBurst {
            comm: Comm::new(b"make"),
            tasks: 40,
            execs: 1,
            sum: TimeSum { ns: 2_000_000, max_ns: 2_000_000, waits: 1 },
            total_ns: 4_000_000,
        };
        assert_eq!(bursts(40, 2 * SECOND), [expected]);
    }

    #[test]
    fn few_new_tasks_are_no_fork_burst() {
        assert_eq!(bursts(39, 2 * SECOND), []);
        assert_eq!(bursts(19, SECOND / 2), []);
        assert_eq!(bursts(20, SECOND / 2).len(), 1);
    }

    #[test]
    fn new_tasks_that_make_no_task_wait_are_counted() {
        let mut bursts = ForkBursts::default();
        let (bash, cron) = (Comm::new(b"bash"), Comm::new(b"cron"));
        let mut push = |tid, comm, child| bursts.push(&ForkExecEvent { at_ns: 1, tid, comm, child });
        (0..900).for_each(|child| push(10, bash, Some(100 + child)));
        push(11, cron, Some(5_000));
        (0..900).for_each(|child| push(100 + child, bash, None));
        let parents = vec![(bash, 900, 900), (cron, 1, 0)];
        assert_eq!(bursts.forks(9), ForkCounts { tasks: 901, execs: 900, parents: parents.clone() });
        assert_eq!(bursts.forks(1).parents, parents[..1]);
        bursts.clear();
        assert_eq!(bursts.forks(9), ForkCounts::default());
    }

    #[test]
    fn new_tasks_without_much_wait_are_no_fork_burst() {
        let mut bursts = ForkBursts::default();
        (0..100).for_each(|child| {
            bursts.push(&ForkExecEvent { at_ns: 1, tid: 1, comm: Comm::new(b"make"), child: Some(child) });
        });
        assert_eq!(bursts.bursts(0, SECOND), []);
        // 2 ms are much of the wait, but little of the window.
        assert_eq!(super::tests::bursts(1_000, 5 * SECOND), []);
    }

    #[test]
    fn a_wait_behind_many_tasks_of_one_parent_is_one_wait() {
        let mut bursts = ForkBursts::default();
        (0..40).for_each(|child| {
            bursts.push(&ForkExecEvent { at_ns: 1, tid: 10, comm: Comm::new(b"make"), child: Some(100 + child) });
        });
        let mut stream = EventStream::default();
        (0..30).for_each(|n| _ = stream.switch(0, 1 + n * 1_000_000, task(100 + n as u32, "cc1")));
        stream.end_wait(0, (1, 30_000_001), task(1, "nginx"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().for_each(|event| _ = timeline.push(event).map(|breakdown| bursts.add(breakdown)));
        let found = bursts.bursts(30_000_000, SECOND);
        assert_eq!(found[0].sum, TimeSum { ns: 30_000_000, max_ns: 30_000_000, waits: 1 });
    }

    #[test]
    fn the_parent_of_a_task_for_which_others_wait_stays_known() {
        let mut parents = ParentNames::default();
        let (make, sh) = (Comm::new(b"make"), Comm::new(b"sh"));
        parents.push(1, make);
        parents.push(2, make);
        for child in 0..4 * MAX_CHILDREN as u32 {
            parents.push(10 + child, sh);
            if child % 10_000 == 0 {
                parents.touch(1);
            }
        }
        assert_eq!((parents.get(1), parents.get(2)), (Some(make), None));
        assert!(parents.young.len() <= MAX_CHILDREN && parents.old.len() <= MAX_CHILDREN);
        let kept = parents.young.len() + parents.old.len();
        assert_eq!(parents.dropped, (2 + 4 * MAX_CHILDREN - kept) as u64);
    }
}
