//! The waits that the page lists one by one: the longest.

use std::collections::{BTreeMap, btree_map::Entry};

use wakelat_common::Class;

use super::name_table::NameTable;
use crate::{
    aggregate::key::Names,
    files::{own_number, own_tid},
    render::Style,
    timeline::{Breakdown, component::Culprit},
    wait::Comm,
    why::render::labels,
};

/// Number of waits that are listed. The others are only in sums.
const MAX_WAITS: usize = 5_000;

/// What orders waits, and distinguishes them: latency and end (ns of CLOCK_MONOTONIC), and thread.
pub type WaitKey = (u64, u64, u32);

/// A wait.
#[derive(Clone, Copy, Debug)]
struct ListedWait {
    ended_unix_ns: u64,
    class: Class,
    cpu: u32,
    comm: Comm,
    cgroup_id: Option<u64>,
    /// The component with the longest time, and what ran or happened then.
    culprit: Option<Culprit>,
}

/// The longest waits.
#[derive(Clone, Debug, Default)]
pub struct ListedWaits {
    waits: BTreeMap<WaitKey, ListedWait>,
    left_out: u64,
}

/// Offset of its end from the start of the window and latency (ns), number of its class, TID, numbers of its name and
/// cgroup, CPU, and numbers of the component with the longest time and of its culprit.
pub type WaitRow = (u64, u64, u8, u32, usize, Option<usize>, u32, Option<usize>, Option<usize>);

/// The key of a wait.
pub fn key(breakdown: &Breakdown) -> WaitKey {
    let wait = &breakdown.ended_wait.wait;
    (breakdown.latency_ns, wait.at_ns, wait.tid)
}

impl ListedWait {
    fn of(breakdown: &Breakdown, ended_unix_ns: u64) -> Self {
        let wait = &breakdown.ended_wait.wait;
        let culprit = breakdown.shares.iter().max_by_key(|share| share.ns).map(|share| share.culprit);
        let (class, cpu, comm) = (wait.class, wait.cpu, wait.comm);
        Self { ended_unix_ns, class, cpu, comm, cgroup_id: breakdown.waiter.cgroup_id, culprit }
    }
}

impl ListedWaits {
    /// Adds a wait that ended at `ended_unix_ns`, if it is one of the longest.
    pub fn add(&mut self, breakdown: &Breakdown, ended_unix_ns: u64) {
        let key = key(breakdown);
        if self.waits.len() >= MAX_WAITS {
            self.left_out += 1;
            if self.waits.first_key_value().is_some_and(|(shortest, _)| key <= *shortest) {
                return;
            }
            self.waits.pop_first();
        }
        self.waits.insert(key, ListedWait::of(breakdown, ended_unix_ns));
    }

    /// Lists a wait that was left out.
    pub fn include(&mut self, breakdown: &Breakdown, ended_unix_ns: u64) {
        if let Entry::Vacant(place) = self.waits.entry(key(breakdown)) {
            place.insert(ListedWait::of(breakdown, ended_unix_ns));
            self.left_out = self.left_out.saturating_sub(1);
        }
    }

    /// Number of waits that are not listed.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The keys of the waits, longest first.
    pub fn keys(&self) -> impl Iterator<Item = &WaitKey> {
        self.waits.keys().rev()
    }

    /// The waits, longest first, with the times of their ends since `start_unix_ns`. Tasks of the processes `own_pids` are
    /// wakelat itself.
    pub fn rows(&self, start_unix_ns: u64, own_pids: &[u32], names: &dyn Names, table: &mut NameTable) -> Vec<WaitRow> {
        let mut row = |(&(latency_ns, _, tid), wait): (&WaitKey, &ListedWait)| {
            let culprit = wait.culprit.map(|culprit| {
                let cgroups = labels::cgroup_of(&culprit.actor, names);
                labels::actor(&culprit.actor, &cgroups, &Style::default()) + labels::own_mark(&culprit.actor, own_pids)
            });
            (
                wait.ended_unix_ns.saturating_sub(start_unix_ns),
                latency_ns,
                wait.class as u8,
                own_tid(tid),
                table.number(wait.comm.to_string()),
                wait.cgroup_id.map(|id| table.number(names.cgroup(id))),
                own_number(wait.cpu),
                wait.culprit.map(|culprit| table.number(labels::component(culprit.component).to_owned())),
                culprit.filter(|name| !name.is_empty()).map(|name| table.number(name)),
            )
        };
        self.waits.iter().rev().map(&mut row).collect()
    }
}
