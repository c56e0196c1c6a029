//! What the workers of workqueues did while others waited for them.

use std::collections::{BTreeMap, VecDeque};

use crate::aggregate::bounded::{Evicted, SpaceSaving};
use crate::{
    aggregate::key::Names,
    hash::HashMap,
    timeline::{
        Breakdown,
        account::WorkItemShare,
        event::WorkItemEvent,
        part::{Actor, RunningTask},
    },
    wait::Comm,
};

/// Workers that are looked at, and of each so many beginnings and ends. What is older is not told.
const MAX_WORKERS: usize = 4096;
const MAX_CHANGES: usize = 1024;

/// Works that are told apart.
const MAX_WORK_ITEMS: usize = 16_384;

/// A worker: its number alone may be that of another task later.
pub type Worker = (u32, Comm);

/// What each worker is at, and what its works had of the waits of others.
#[derive(Debug, Default)]
pub struct WorkItems {
    workers: HashMap<u32, VecDeque<WorkerState>>,
    sums: SpaceSaving<(Worker, u64), u128>,
    /// Beginnings and ends that there was no room for.
    dropped: u64,
}

/// From here on a worker is at something else.
#[derive(Clone, Copy, Debug)]
struct WorkerState {
    at_ns: u64,
    /// The address of the function; none between two works.
    function: Option<u64>,
}

/// What a function had of the waits of others, in one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItemSum {
    /// Its name, or its address where that has none.
    pub function: String,
    /// How much: ns.
    pub ns: u128,
}

impl WorkItems {
    /// Takes note of a beginning or an end.
    pub fn push(&mut self, work: &WorkItemEvent) {
        if self.workers.len() >= MAX_WORKERS && !self.workers.contains_key(&work.tid) {
            // Whoever began or ended nothing for longest gives way.
            let last = |changes: &VecDeque<WorkerState>| changes.back().map_or(0, |last| last.at_ns);
            let mut workers: Vec<(u64, u32)> = self.workers.iter().map(|(tid, all)| (last(all), *tid)).collect();
            workers.sort_unstable();
            for (_, tid) in workers.iter().take(MAX_WORKERS / 2) {
                self.dropped += self.workers.remove(tid).map_or(0, |changes| changes.len() as u64);
            }
        }
        let changes = self.workers.entry(work.tid).or_default();
        if changes.len() >= MAX_CHANGES {
            changes.pop_front();
            self.dropped += 1;
        }
        changes.push_back(WorkerState { at_ns: work.at_ns, function: work.function });
    }

    /// Adds a wait.
    pub fn add(&mut self, account: &Breakdown) {
        let Self { workers, sums: had, .. } = self;
        for_each(workers, account, |task, did| {
            *had.entry(((task.tid, task.comm), did.function), || 0) += u128::from(did.ns);
        });
        had.evict_above(MAX_WORK_ITEMS, |_, _| ());
    }

    /// Notes in a wait itself what workers did in their shares of it.
    pub fn annotate(&self, account: &mut Breakdown) {
        let mut works: Vec<WorkItemShare> = Vec::new();
        for_each(&self.workers, account, |_, did| {
            match works.iter_mut().find(|known| (known.share, known.function) == (did.share, did.function)) {
                Some(known) => known.ns += did.ns,
                None => works.push(did),
            }
        });
        works.sort_by_key(|did| std::cmp::Reverse(did.ns));
        account.work_items = works;
    }

    /// Forgets what works had, and not what workers are at.
    pub fn clear(&mut self) {
        self.sums.clear();
        self.dropped = 0;
    }

    /// Beginnings and ends of works that there was no room for: a wait that began before the oldest that is known lacks them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What the works of each worker had, the most first.
    pub fn sums(&self, names: &dyn Names) -> BTreeMap<Worker, Vec<WorkItemSum>> {
        let mut sums: BTreeMap<Worker, Vec<WorkItemSum>> = BTreeMap::new();
        for ((worker, address), ns) in self.sums.ranking() {
            sums.entry(worker).or_default().push(WorkItemSum { function: name(address, names), ns: *ns });
        }
        for works in sums.values_mut() {
            works.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
        }
        sums
    }

    /// The works that there was no room for.
    pub fn evicted(&self) -> Evicted {
        self.sums.evicted()
    }
}

/// What a function is called, or its address.
pub fn name(address: u64, names: &dyn Names) -> String {
    names.function(address).unwrap_or_else(|| format!("{address:#x}"))
}

/// Goes through what workers did in a wait.
fn for_each(
    workers: &HashMap<u32, VecDeque<WorkerState>>,
    account: &Breakdown,
    mut each: impl FnMut(&RunningTask, WorkItemShare),
) {
    for span in &account.spans {
        let Actor::Task(task) = &account.shares[span.share].culprit.actor else { continue };
        let Some(changes) = workers.get(&task.tid) else { continue };
        let first = changes.partition_point(|change| change.at_ns <= span.from_ns).saturating_sub(1);
        for (index, change) in changes.iter().enumerate().skip(first) {
            let until_ns = changes.get(index + 1).map_or(span.to_ns, |next| next.at_ns.min(span.to_ns));
            let ns = until_ns.saturating_sub(change.at_ns.max(span.from_ns));
            if change.at_ns >= span.to_ns {
                break;
            }
            let Some(function) = change.function.filter(|_| ns > 0) else { continue };
            each(task, WorkItemShare { share: span.share, function, ns });
        }
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
        why::fixtures::TestNames,
    };

    fn work(tid: u32, at_ns: u64, function: u64, ends: bool) -> WorkItemEvent {
        WorkItemEvent { at_ns, tid, function: (!ends).then_some(function) }
    }

    /// A wait from 100 to 200 behind kworker 7, which had the CPU from 50 on.
    fn account() -> Breakdown {
        let mut stream = EventStream::default();
        stream.switch(0, 50, task(7, "kworker/0:1"));
        stream.end_wait(0, (100, 200), task(1, "waits"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap()
    }

    fn sums(works: &[WorkItemEvent]) -> Vec<(String, u128)> {
        let mut all = WorkItems::default();
        works.iter().for_each(|work| all.push(work));
        all.add(&account());
        let sums = all.sums(&TestNames).remove(&(7, Comm::new(b"kworker/0:1"))).unwrap_or_default();
        sums.into_iter().map(|work| (work.function, work.ns)).collect()
    }

    #[test]
    fn a_wait_goes_to_the_works_that_ran_meanwhile() {
        let works = [
            work(7, 20, 0xa, false),
            work(7, 30, 0xa, true),
            work(7, 60, 0xb, false),
            work(7, 110, 0xb, true),
            work(8, 115, 0xd, false),
            work(7, 120, 0xc, false),
            work(7, 190, 0xc, true),
            work(7, 195, 0xb, false),
            work(7, 300, 0xb, true),
        ];
        assert_eq!(sums(&works), [("0xc".to_owned(), 70), ("wb_workfn".to_owned(), 15)]);
    }

    #[test]
    fn a_work_that_has_not_ended_has_all_up_to_now() {
        assert_eq!(sums(&[work(7, 60, 0xb, false)]), [("wb_workfn".to_owned(), 100)]);
        assert_eq!(sums(&[work(7, 150, 0xb, false)]), [("wb_workfn".to_owned(), 50)]);
        assert_eq!(sums(&[work(7, 60, 0xb, false), work(7, 70, 0xb, true)]), []);
        assert_eq!(sums(&[work(7, 200, 0xb, false)]), []);
    }

    #[test]
    fn a_wait_is_told_what_the_worker_did_in_its_share_the_most_first() {
        let works =
            [work(7, 60, 0xb, false), work(7, 120, 0xb, true), work(7, 130, 0xa, false), work(7, 170, 0xa, true)];
        let mut all = WorkItems::default();
        works.iter().for_each(|work| all.push(work));
        all.push(&work(7, 175, 0xb, false));
        let mut account = account();
        all.annotate(&mut account);
        let share = account.shares.iter().position(|share| matches!(share.culprit.actor, Actor::Task(_))).unwrap();
        let did = |function, ns| WorkItemShare { share, function, ns };
        assert_eq!(account.work_items, [did(0xb, 45), did(0xa, 40)]);
        assert_eq!(sums(&works), [("vmstat_update".to_owned(), 40), ("wb_workfn".to_owned(), 20)]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = WorkItems::default();
        (0..MAX_CHANGES as u64 + 5).for_each(|at| all.push(&work(7, at, 0xa, at % 2 == 1)));
        assert_eq!((all.workers[&7].len(), all.dropped()), (MAX_CHANGES, 5));
        (0..MAX_WORKERS as u32 + 5).for_each(|tid| all.push(&work(100 + tid, 1, 0xa, true)));
        assert!(all.workers.len() <= MAX_WORKERS);
        all.push(&work(5, 2, 0xa, false));
        assert!(all.workers.contains_key(&5), "whoever comes last is told of");
    }
}
