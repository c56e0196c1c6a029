//! The work items that workqueue workers ran while others waited for them.

use std::collections::{BTreeMap, VecDeque};

use super::tid_set::TidFilter;
use crate::aggregate::space_saving::{Evicted, SpaceSaving};
use crate::{
    aggregate::key::Names,
    hash::HashMap,
    timeline::{
        Breakdown,
        breakdown::WorkItemShare,
        component::{Actor, RunningTask},
        event::WorkItemEvent,
    },
    wait::Comm,
};

/// Maximum number of workers, and of starts and ends of work items of each. Older ones are dropped.
const MAX_WORKERS: usize = 4096;
const MAX_CHANGES: usize = 1024;

/// Maximum number of pairs of worker and function.
const MAX_WORK_ITEMS: usize = 16_384;

/// A worker by TID and name, because another task may get the same TID later.
pub type Worker = (u32, Comm);

/// What each worker ran when, and the time of its work items in the waits of others.
#[derive(Debug, Default)]
pub struct WorkItems {
    workers: Workers,
    sums: SpaceSaving<(Worker, u64), u128>,
    /// Starts and ends of work items that there was no room for.
    dropped: u64,
}

/// What each worker runs.
#[derive(Debug, Default)]
struct Workers {
    by_tid: HashMap<u32, VecDeque<WorkerState>>,
    tids: TidFilter,
}

/// What a worker runs from `at_ns` on.
#[derive(Clone, Copy, Debug)]
struct WorkerState {
    at_ns: u64,
    /// The address of the function; `None` between two work items.
    function: Option<u64>,
}

/// The time of a function in the waits of others, run by one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItemSum {
    /// The name of the function, or its address if it has no name.
    pub function: String,
    /// Its time: ns.
    pub ns: u128,
}

impl WorkItems {
    /// Adds the start or the end of a work item.
    pub fn push(&mut self, work_item: &WorkItemEvent) {
        self.dropped += self.workers.make_room(work_item.tid);
        self.workers.tids.insert(work_item.tid);
        let changes = self.workers.by_tid.entry(work_item.tid).or_default();
        if changes.len() >= MAX_CHANGES {
            changes.pop_front();
            self.dropped += 1;
        }
        changes.push_back(WorkerState { at_ns: work_item.at_ns, function: work_item.function });
    }

    /// Adds a wait.
    pub fn add(&mut self, breakdown: &Breakdown) {
        let Self { workers, sums, .. } = self;
        for_each(workers, breakdown, |task, item| {
            *sums.entry(((task.tid, task.comm), item.function), || 0) += u128::from(item.ns);
        });
        sums.evict_above(MAX_WORK_ITEMS, |_, _| ());
    }

    /// Adds to a breakdown the work items that workers ran in their shares, the longest first.
    pub fn annotate(&self, breakdown: &mut Breakdown) {
        let mut items: Vec<WorkItemShare> = Vec::new();
        for_each(&self.workers, breakdown, |_, item| {
            match items.iter_mut().find(|known| (known.share, known.function) == (item.share, item.function)) {
                Some(known) => known.ns += item.ns,
                None => items.push(item),
            }
        });
        items.sort_by_key(|item| std::cmp::Reverse(item.ns));
        breakdown.work_items = items;
    }

    /// Removes the times of work items. What workers run stays known.
    pub fn clear(&mut self) {
        self.sums.clear();
        self.dropped = 0;
    }

    /// The number of starts and ends of work items that there was no room for. A wait that began before the oldest one
    /// that is kept lacks them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The time of each function that each worker ran, the largest first.
    pub fn sums(&self, names: &dyn Names) -> BTreeMap<Worker, Vec<WorkItemSum>> {
        let mut sums: BTreeMap<Worker, Vec<WorkItemSum>> = BTreeMap::new();
        for ((worker, address), ns) in self.sums.ranking() {
            sums.entry(worker).or_default().push(WorkItemSum { function: name(address, names), ns: *ns });
        }
        for items in sums.values_mut() {
            items.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
        }
        sums
    }

    /// The pairs of worker and function that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.sums.evicted()
    }
}

impl Workers {
    /// If there is no room for another worker `tid`, drops the workers whose last start or end is the longest ago.
    /// Returns how many starts and ends were dropped.
    fn make_room(&mut self, tid: u32) -> u64 {
        let Self { by_tid, tids } = self;
        if by_tid.len() < MAX_WORKERS || by_tid.contains_key(&tid) {
            return 0;
        }
        let last = |changes: &VecDeque<WorkerState>| changes.back().map_or(0, |last| last.at_ns);
        let mut workers: Vec<(u64, u32)> = by_tid.iter().map(|(tid, all)| (last(all), *tid)).collect();
        workers.sort_unstable();
        let oldest = workers.iter().take(MAX_WORKERS / 2);
        let dropped = oldest.map(|(_, tid)| by_tid.remove(tid).map_or(0, |changes| changes.len() as u64)).sum();
        *tids = by_tid.keys().copied().collect();
        dropped
    }

    /// What a task ran, if it is a worker.
    #[inline]
    fn get(&self, tid: u32) -> Option<&VecDeque<WorkerState>> {
        if self.tids.may_have(tid) { self.by_tid.get(&tid) } else { None }
    }
}

/// The name of the function at an address, or the address if it has no name.
pub fn name(address: u64, names: &dyn Names) -> String {
    names.function(address).unwrap_or_else(|| format!("{address:#x}"))
}

/// Calls `each` with every work item, or part of one, that a worker ran in a wait.
fn for_each(workers: &Workers, breakdown: &Breakdown, mut each: impl FnMut(&RunningTask, WorkItemShare)) {
    let is_worker = |actor: &Actor| matches!(actor, Actor::Task(task) if workers.get(task.tid).is_some());
    // A wait has more spans than shares.
    if !breakdown.shares.iter().any(|share| is_worker(&share.culprit.actor)) {
        return;
    }
    for span in &breakdown.spans {
        let Actor::Task(task) = &breakdown.shares[span.share].culprit.actor else { continue };
        let Some(changes) = workers.get(task.tid) else { continue };
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
            testing::{EventStream, task},
        },
        why::testing::TestNames,
    };

    fn event(tid: u32, at_ns: u64, function: u64, ends: bool) -> WorkItemEvent {
        WorkItemEvent { at_ns, tid, function: (!ends).then_some(function) }
    }

    /// The breakdown of a wait from 100 to 200 behind kworker 7, which had the CPU from 50 on.
    fn breakdown() -> Breakdown {
        let mut stream = EventStream::default();
        stream.switch(0, 50, task(7, "kworker/0:1"));
        stream.end_wait(0, (100, 200), task(1, "waits"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().find_map(|event| timeline.push(event).cloned()).unwrap()
    }

    fn sums(work_items: &[WorkItemEvent]) -> Vec<(String, u128)> {
        let mut all = WorkItems::default();
        work_items.iter().for_each(|work_item| all.push(work_item));
        all.add(&breakdown());
        let sums = all.sums(&TestNames).remove(&(7, Comm::new(b"kworker/0:1"))).unwrap_or_default();
        sums.into_iter().map(|work_item| (work_item.function, work_item.ns)).collect()
    }

    #[test]
    fn a_wait_is_attributed_to_the_work_items_that_ran_in_it() {
        let work_items = [
            event(7, 20, 0xa, false),
            event(7, 30, 0xa, true),
            event(7, 60, 0xb, false),
            event(7, 110, 0xb, true),
            event(8, 115, 0xd, false),
            event(7, 120, 0xc, false),
            event(7, 190, 0xc, true),
            event(7, 195, 0xb, false),
            event(7, 300, 0xb, true),
        ];
        assert_eq!(sums(&work_items), [("0xc".to_owned(), 70), ("wb_workfn".to_owned(), 15)]);
    }

    #[test]
    fn a_work_item_that_has_not_ended_has_all_time_up_to_now() {
        assert_eq!(sums(&[event(7, 60, 0xb, false)]), [("wb_workfn".to_owned(), 100)]);
        assert_eq!(sums(&[event(7, 150, 0xb, false)]), [("wb_workfn".to_owned(), 50)]);
        assert_eq!(sums(&[event(7, 60, 0xb, false), event(7, 70, 0xb, true)]), []);
        assert_eq!(sums(&[event(7, 200, 0xb, false)]), []);
    }

    #[test]
    fn a_breakdown_has_the_work_items_of_its_shares_the_longest_first() {
        let work_items =
            [event(7, 60, 0xb, false), event(7, 120, 0xb, true), event(7, 130, 0xa, false), event(7, 170, 0xa, true)];
        let mut all = WorkItems::default();
        work_items.iter().for_each(|work_item| all.push(work_item));
        all.push(&event(7, 175, 0xb, false));
        let mut breakdown = breakdown();
        all.annotate(&mut breakdown);
        let share = breakdown.shares.iter().position(|share| matches!(share.culprit.actor, Actor::Task(_))).unwrap();
        let item = |function, ns| WorkItemShare { share, function, ns };
        assert_eq!(breakdown.work_items, [item(0xb, 45), item(0xa, 40)]);
        assert_eq!(sums(&work_items), [("vmstat_update".to_owned(), 40), ("wb_workfn".to_owned(), 20)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = WorkItems::default();
        (0..MAX_CHANGES as u64 + 5).for_each(|at| all.push(&event(7, at, 0xa, at % 2 == 1)));
        assert_eq!((all.workers.by_tid[&7].len(), all.dropped()), (MAX_CHANGES, 5));
        (0..MAX_WORKERS as u32 + 5).for_each(|tid| all.push(&event(100 + tid, 1, 0xa, true)));
        assert!(all.workers.by_tid.len() <= MAX_WORKERS);
        all.push(&event(5, 2, 0xa, false));
        assert!(all.workers.by_tid.contains_key(&5), "the latest worker is kept");
    }
}
