//! Who makes many tasks, and how long others waited for those.

use super::{
    finding::{MIN_SHARE_PERCENT, WINDOW_DIVISOR},
    sums::{TimeSum, sum_by},
};
use crate::aggregate::bounded::{Evicted, SpaceSaving, Sum};
use crate::{
    hash::HashMap,
    timeline::{Breakdown, event::ForkExecEvent, part::Actor},
    wait::Comm,
};

/// Of so many of the last tasks at least it is known who made them, and of twice as many at most.
const MAX_CHILDREN: usize = 65_536;

/// Names of makers that are told apart.
const MAX_PARENTS: usize = 4096;

/// It is a storm from so many new tasks on, altogether and in a second.
pub const MIN_BURST_TASKS: u64 = 20;

/// Who made whom, and how long others waited for those.
#[derive(Debug, Default)]
pub struct ForkBursts {
    parent_names: ParentNames,
    parents: SpaceSaving<Comm, ParentSum>,
    tasks: u64,
    execs: u64,
}

/// The tasks that were made in a window, in the way or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkCounts {
    /// How many.
    pub tasks: u64,
    /// How many times a task took another program.
    pub execs: u64,
    /// The names that made most: tasks made, and programs that these took.
    pub parents: Vec<(Comm, u64, u64)>,
}

/// The name of the one that made each task, in two halves: the older one goes where the younger is full.
#[derive(Debug, Default)]
struct ParentNames {
    young: HashMap<u32, Comm>,
    old: HashMap<u32, Comm>,
    /// Tasks that went with an older half.
    dropped: u64,
}

/// What tasks of one name made.
#[derive(Clone, Copy, Debug, Default)]
struct ParentSum {
    tasks: u64,
    execs: u64,
    sum: TimeSum,
}

/// Tasks of one name made many others, and those were in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkBurst {
    /// The name of those who made them.
    pub comm: Comm,
    /// How many they made.
    pub tasks: u64,
    /// How many programs these took.
    pub execs: u64,
    /// What these had of the wait of others.
    pub sum: TimeSum,
    /// All wait: ns.
    pub total_ns: u128,
}

impl Sum for ParentSum {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl ParentNames {
    fn push(&mut self, child: u32, maker: Comm) {
        if self.young.len() >= MAX_CHILDREN {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.dropped += old.len() as u64;
        }
        self.young.insert(child, maker);
    }

    fn get(&self, tid: u32) -> Option<Comm> {
        self.young.get(&tid).or_else(|| self.old.get(&tid)).copied()
    }

    /// Whoever is in the way lives: it counts as one of the last.
    fn touch(&mut self, tid: u32) {
        if let Some(maker) = self.old.remove(&tid)
            && !self.young.contains_key(&tid)
        {
            self.push(tid, maker);
        }
    }
}

impl ForkBursts {
    /// Takes note of a task that made another, or took another program.
    pub fn push(&mut self, spawn: &ForkExecEvent) {
        match spawn.child {
            Some(_) => self.tasks += 1,
            None => self.execs += 1,
        }
        let maker = match spawn.child {
            Some(child) => {
                self.parent_names.push(child, spawn.comm);
                Some(spawn.comm)
            }
            None => self.parent_names.get(spawn.tid),
        };
        let Some(maker) = maker else { return };
        let made = self.parents.entry(maker, ParentSum::default);
        made.tasks += u64::from(spawn.child.is_some());
        made.execs += u64::from(spawn.child.is_none());
        self.parents.evict_above(MAX_PARENTS, |_, _| ());
    }

    /// Adds a wait. It counts once for each maker, behind however many of its tasks it was.
    pub fn add(&mut self, account: &Breakdown) {
        for share in &account.shares {
            if let Actor::Task(task) = share.culprit.actor {
                self.parent_names.touch(task.tid);
            }
        }
        let made_by = |who: &Actor| match who {
            Actor::Task(task) => self.parent_names.get(task.tid),
            _ => None,
        };
        for (maker, _, ns) in sum_by(account, |culprit| made_by(&culprit.actor)) {
            self.parents.entry(maker, ParentSum::default).sum.add(ns);
        }
        self.parents.evict_above(MAX_PARENTS, |_, _| ());
    }

    /// Forgets what was made and what it had, and not who made whom.
    pub fn clear(&mut self) {
        self.parents.clear();
        (self.tasks, self.execs) = (0, 0);
        self.parent_names.dropped = 0;
    }

    /// The tasks that were made, and the `limit` names that made most of them.
    pub fn forks(&self, limit: usize) -> ForkCounts {
        let mut makers: Vec<(Comm, u64, u64)> =
            self.parents.iter().map(|(comm, made)| (*comm, made.tasks, made.execs)).collect();
        makers.retain(|(_, tasks, _)| *tasks > 0);
        makers.sort_unstable_by_key(|(comm, tasks, _)| (std::cmp::Reverse(*tasks), *comm));
        makers.truncate(limit);
        ForkCounts { tasks: self.tasks, execs: self.execs, parents: makers }
    }

    /// Tasks whose maker is no longer known: they, and the programs that they take, count for no storm any more.
    pub fn dropped(&self) -> u64 {
        self.parent_names.dropped
    }

    /// Those that stand out in a window of `duration_ns`, whose waits took `whole_ns` together; the largest first.
    pub fn bursts(&self, whole_ns: u128, duration_ns: u64) -> Vec<ForkBurst> {
        let second = u128::from(duration_ns).max(1_000_000_000);
        let is_storm = |(_, made): &(Comm, &ParentSum)| {
            u128::from(made.tasks) * 1_000_000_000 >= u128::from(MIN_BURST_TASKS) * second
                && made.sum.ns * 100 >= whole_ns * MIN_SHARE_PERCENT
                && made.sum.ns * WINDOW_DIVISOR >= u128::from(duration_ns)
                && made.sum.ns > 0
        };
        let storm = |(comm, made): (Comm, &ParentSum)| ForkBurst {
            comm,
            tasks: made.tasks,
            execs: made.execs,
            sum: made.sum,
            total_ns: whole_ns,
        };
        self.parents.ranking().into_iter().filter(is_storm).map(storm).collect()
    }

    /// The makers that there was no room for.
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
            fixtures::{EventStream, task},
        },
    };

    const SECOND: u64 = 1_000_000_000;

    /// `make` makes so many tasks; one of them takes a program, and nginx waits for it, and then for another, 2 ms each.
    fn storms(tasks: u32, duration_ns: u64) -> Vec<ForkBurst> {
        const MS: u64 = 1_000_000;
        let mut storms = ForkBursts::default();
        let spawn = |tid, child| ForkExecEvent { at_ns: 1, tid, comm: Comm::new(b"make"), child };
        (0..tasks).for_each(|child| storms.push(&spawn(10, Some(100 + child))));
        storms.push(&spawn(100, None));
        storms.push(&spawn(99, None));
        let mut stream = EventStream::default();
        stream.switch(0, 1, task(100, "cc1"));
        stream.end_wait(0, (10 * MS, 12 * MS), task(1, "nginx"));
        stream.switch(0, 13 * MS, task(7, "other"));
        stream.end_wait(0, (20 * MS, 22 * MS), task(1, "nginx"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let mut whole_ns = 0;
        for event in &stream.events {
            if let Some(account) = timeline.push(event) {
                whole_ns += u128::from(account.latency_ns);
                storms.add(account);
            }
        }
        storms.bursts(whole_ns, duration_ns)
    }

    #[test]
    fn many_new_tasks_in_the_way_are_a_storm() {
        let expected = ForkBurst {
            comm: Comm::new(b"make"),
            tasks: 40,
            execs: 1,
            sum: TimeSum { ns: 2_000_000, max_ns: 2_000_000, waits: 1 },
            total_ns: 4_000_000,
        };
        assert_eq!(storms(40, 2 * SECOND), [expected]);
    }

    #[test]
    fn few_tasks_are_none() {
        assert_eq!(storms(39, 2 * SECOND), []);
        assert_eq!(storms(19, SECOND / 2), []);
        assert_eq!(storms(20, SECOND / 2).len(), 1);
    }

    #[test]
    fn tasks_that_are_in_nobodys_way_are_counted() {
        let mut storms = ForkBursts::default();
        let (bash, cron) = (Comm::new(b"bash"), Comm::new(b"cron"));
        let mut spawn = |tid, comm, child| storms.push(&ForkExecEvent { at_ns: 1, tid, comm, child });
        (0..900).for_each(|child| spawn(10, bash, Some(100 + child)));
        spawn(11, cron, Some(5_000));
        (0..900).for_each(|child| spawn(100 + child, bash, None));
        let makers = vec![(bash, 900, 900), (cron, 1, 0)];
        assert_eq!(storms.forks(9), ForkCounts { tasks: 901, execs: 900, parents: makers.clone() });
        assert_eq!(storms.forks(1).parents, makers[..1]);
        storms.clear();
        assert_eq!(storms.forks(9), ForkCounts::default());
    }

    #[test]
    fn what_nobody_waited_for_is_none() {
        let mut storms = ForkBursts::default();
        (0..100).for_each(|child| {
            storms.push(&ForkExecEvent { at_ns: 1, tid: 1, comm: Comm::new(b"make"), child: Some(child) });
        });
        assert_eq!(storms.bursts(0, SECOND), []);
        // 2 ms are much of the wait, and little of the window.
        assert_eq!(super::tests::storms(1_000, 5 * SECOND), []);
    }

    #[test]
    fn a_wait_behind_many_tasks_of_a_maker_is_one_wait() {
        let mut storms = ForkBursts::default();
        (0..40).for_each(|child| {
            storms.push(&ForkExecEvent { at_ns: 1, tid: 10, comm: Comm::new(b"make"), child: Some(100 + child) });
        });
        let mut stream = EventStream::default();
        (0..30).for_each(|n| _ = stream.switch(0, 1 + n * 1_000_000, task(100 + n as u32, "cc1")));
        stream.end_wait(0, (1, 30_000_001), task(1, "nginx"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().for_each(|event| _ = timeline.push(event).map(|account| storms.add(account)));
        let found = storms.bursts(30_000_000, SECOND);
        assert_eq!(found[0].sum, TimeSum { ns: 30_000_000, max_ns: 30_000_000, waits: 1 });
    }

    #[test]
    fn who_made_those_in_the_way_is_known_however_many_come_after() {
        let mut made_by = ParentNames::default();
        let (make, sh) = (Comm::new(b"make"), Comm::new(b"sh"));
        made_by.push(1, make);
        made_by.push(2, make);
        for child in 0..4 * MAX_CHILDREN as u32 {
            made_by.push(10 + child, sh);
            if child % 10_000 == 0 {
                made_by.touch(1);
            }
        }
        assert_eq!((made_by.get(1), made_by.get(2)), (Some(make), None));
        assert!(made_by.young.len() <= MAX_CHILDREN && made_by.old.len() <= MAX_CHILDREN);
        let kept = made_by.young.len() + made_by.old.len();
        assert_eq!(made_by.dropped, (2 + 4 * MAX_CHILDREN - kept) as u64);
    }
}
