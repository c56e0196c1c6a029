//! The longest waits, which the page lists one by one.

use std::{cmp::Reverse, collections::BinaryHeap};

use serde::Serialize;
use wakelat_common::Class;

use crate::{
    aggregate::key::Names,
    files::{own_number, own_tid},
    hash::HashMap,
    render::Style,
    timeline::Breakdown,
    why::render::labels,
};

/// Number of waits that are listed. The others are only in sums.
const MAX_WAITS: usize = 5_000;

/// A wait, ordered by its latency. Names are numbers of [`ListedWaits::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListedWait {
    latency_ns: u64,
    at_ns: u64,
    ended_unix_ns: u64,
    class: Class,
    tid: u32,
    cpu: u32,
    comm: usize,
    cgroup: Option<usize>,
    /// The component with the longest time, and what ran or happened then.
    component: Option<usize>,
    culprit: Option<usize>,
}

/// The longest waits.
#[derive(Debug, Default)]
pub struct ListedWaits {
    waits: BinaryHeap<Reverse<ListedWait>>,
    left_out: u64,
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

/// The longest waits in the page.
#[derive(Serialize)]
pub struct WaitsDocument<'a> {
    names: &'a [String],
    waits: Vec<WaitRow>,
    waits_left_out: u64,
}

/// Offset of its end from the start of the window, latency (ns), number of its class, TID, numbers of its name and cgroup,
/// CPU, numbers of its longest component and of the culprit, and its end by CLOCK_MONOTONIC (ns).
type WaitRow = (u64, u64, u8, u32, usize, Option<usize>, u32, Option<usize>, Option<usize>, u64);

impl ListedWaits {
    /// Adds a wait that ended at `ended_unix_ns`.
    pub fn add(&mut self, breakdown: &Breakdown, ended_unix_ns: u64, names: &dyn Names) {
        if self.waits.len() >= MAX_WAITS {
            self.left_out += 1;
            if self.waits.peek().is_some_and(|Reverse(shortest)| breakdown.latency_ns <= shortest.latency_ns) {
                return;
            }
            self.waits.pop();
        }
        let wait = &breakdown.ended_wait.wait;
        let longest = breakdown.shares.iter().max_by_key(|share| share.ns);
        let culprit = longest.map(|share| {
            let cgroups = labels::cgroup_of(&share.culprit.actor, names);
            labels::actor(&share.culprit.actor, &cgroups, &Style::default())
        });
        let listed = ListedWait {
            latency_ns: breakdown.latency_ns,
            at_ns: wait.at_ns,
            ended_unix_ns,
            class: wait.class,
            tid: own_tid(wait.tid),
            cpu: own_number(wait.cpu),
            comm: self.number(wait.comm.to_string()),
            cgroup: breakdown.waiter.cgroup_id.map(|id| self.number(names.cgroup(id))),
            component: longest.map(|share| self.number(labels::component(share.culprit.component).to_owned())),
            culprit: culprit.filter(|name| !name.is_empty()).map(|name| self.number(name)),
        };
        self.waits.push(Reverse(listed));
    }

    /// The waits, longest first, with the times of their ends since `start_unix_ns`.
    pub fn document(&self, start_unix_ns: u64) -> WaitsDocument<'_> {
        let mut waits: Vec<_> = self.waits.iter().map(|Reverse(wait)| *wait).collect();
        waits.sort_unstable_by(|a, b| b.cmp(a));
        let row = |wait: ListedWait| {
            let ListedWait { latency_ns, at_ns, ended_unix_ns, class, tid, cpu, comm, cgroup, component, culprit } =
                wait;
            let offset_ns = ended_unix_ns.saturating_sub(start_unix_ns);
            (offset_ns, latency_ns, class as u8, tid, comm, cgroup, cpu, component, culprit, at_ns)
        };
        WaitsDocument { names: &self.names, waits: waits.into_iter().map(row).collect(), waits_left_out: self.left_out }
    }

    fn number(&mut self, name: String) -> usize {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        self.names.push(name.clone());
        self.numbers.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }
}
