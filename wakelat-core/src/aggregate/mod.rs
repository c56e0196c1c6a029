//! Groups waits by key and keeps a distribution per group. Pure: no I/O, no clock.

pub mod container_id;
pub mod coverage;
pub mod distribution;
pub mod estimate;
pub mod key;
mod latency_store;
pub mod mapped_places;
pub mod percentile_rank;
pub mod space_saving;
pub mod worst;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use wakelat_common::{Class, group::GroupElement, histogram::Histogram};

use self::{
    distribution::{Distribution, Maximum},
    estimate::{Period, SamplingState},
    key::{GroupKey, Key, KeyValues, Names, by_name, group_parts},
    mapped_places::MappedPlaces,
    space_saving::{SpaceSaving, Sum},
    worst::WorstWaits,
};
use crate::{
    hash::HashMap,
    report::{Group, GroupClass, KeyPart, KeyValue},
    timeline::{Breakdown, component::Component},
    wait::{Comm, Wait},
};

/// Groups that are kept until the window ends, however few are shown.
const ROOM: usize = 16_384;

/// The groups of one window.
#[derive(Debug)]
pub struct Groups {
    keys: Vec<Key>,
    merged: bool,
    /// Number of groups that are shown: those with the most waiting time.
    limit: usize,
    /// Number of groups that are kept.
    room: usize,
    /// If tasks are sampled: the period in which the current waits are measured.
    period: Option<Period>,
    groups: SpaceSaving<GroupKey, WaitStats>,
    /// The places of groups, by TID, class and component.
    places: MappedPlaces,
    /// Waits of evicted groups.
    others: Others,
    waits_merged: u64,
    /// Waits for which the kernel's table of groups was full; they are in `others`.
    table_full: u64,
}

/// The key of a recorded group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordedKey {
    /// Waits with these values.
    Values(KeyValues),
    /// Waits of a class for which there was no room in a table of groups.
    Others(Class),
}

/// Waits that are merged into `(other)`, by class and component.
type Others = HashMap<(GroupClass, Option<Component>), WaitStats>;

/// The waits of one group.
#[derive(Clone, Debug, Default)]
struct WaitStats {
    /// Shared with the current report, so that a report copies no histogram. Recording a wait while a
    /// report exists copies it.
    distribution: Arc<Distribution>,
    worst: WorstWaits,
}

impl Groups {
    /// Creates an empty window. `merged` puts all classes into one; the `limit` groups with the most
    /// waiting time are shown separately.
    pub fn new(keys: Vec<Key>, merged: bool, limit: usize) -> Self {
        Self {
            keys,
            merged,
            limit,
            room: ROOM.max(limit),
            period: None,
            groups: SpaceSaving::default(),
            places: MappedPlaces::default(),
            others: Others::default(),
            waits_merged: 0,
            table_full: 0,
        }
    }

    /// Starts a sampling period: waits from now on are those of sampled tasks, measured in `period`,
    /// from which the groups estimate figures for all tasks.
    pub fn begin_period(&mut self, period: Period) {
        self.period = Some(period);
    }

    /// Ends the current period, in which `length_ns` were measured: its waits get their weights.
    pub fn end_period(&mut self, length_ns: u64) {
        self.distributions().for_each(|distribution| distribution.end_period(length_ns));
    }

    /// Sets how much of the current period has been measured so far: ns.
    pub fn measured(&mut self, length_ns: u64) {
        self.distributions().for_each(|distribution| distribution.measured(length_ns));
    }

    fn distributions(&mut self) -> impl Iterator<Item = &mut Distribution> {
        let waits = self.groups.values_mut().chain(self.others.values_mut());
        waits.map(|waits| Arc::make_mut(&mut waits.distribution))
    }

    /// Adds one wait to its group.
    pub fn record(&mut self, wait: &Wait) {
        let key = GroupKey::new(wait, &self.keys, self.merged);
        self.add(key, wait, wait.latency_ns, |group| group.worst.offer(wait));
    }

    /// Adds the time that one wait spent in each component to the groups of these components.
    pub fn record_breakdown(&mut self, breakdown: &Breakdown) {
        let wait = &breakdown.ended_wait.wait;
        let key = GroupKey::new(wait, &self.keys, self.merged);
        breakdown.components().for_each(|(component, ns)| self.add(key.with_component(component), wait, ns, |_| {}));
    }

    fn add(&mut self, key: GroupKey, wait: &Wait, latency_ns: u64, keep: impl FnOnce(&mut WaitStats)) {
        let latest = Maximum { latency_ns, at_ns: wait.at_ns, tid: wait.tid, comm: wait.comm, cpu: wait.cpu };
        let component = key.component().map_or(0, |component| 1 + component as u64);
        let place = self.places.of(u64::from(wait.tid) | (wait.class as u64) << 32 | component << 40);
        let group = self.groups.entry_near(place, key, WaitStats::default);
        let distribution = Arc::make_mut(&mut group.distribution);
        distribution.record(latest);
        if let Some(period) = self.period {
            // A group of a single task represents only that task, so its waits need no weight for
            // sampling tasks.
            let shift = if self.keys.contains(&Key::Tid) { 0 } else { wait.sampling_shift };
            distribution.record_sampled(wait.tid, shift, period, latency_ns);
        }
        keep(group);
        self.make_room();
    }

    /// Evicts the groups with the least waiting time if there are too many.
    fn make_room(&mut self) {
        let others = &mut self.others;
        self.groups
            .evict_above(self.room, |key, waits| others.entry((key.class(), key.component())).or_default().add(&waits));
    }

    /// Adds the histogram of one class that one CPU aggregated in the current period; `worst` are its longest waits.
    /// All keys must satisfy [`Key::is_counted`]. If the programs group waits, these are the ones for which their table
    /// of groups had no room.
    pub fn add_counted(&mut self, class: Class, histogram: &Histogram, worst: impl Iterator<Item = Wait>) {
        let key = GroupKey::on_cpu(class, histogram.cpu(), &self.keys, self.merged);
        let group = if group_parts(&self.keys) == 0 {
            self.groups.entry(key, WaitStats::default)
        } else {
            self.table_full += histogram.count();
            self.others.entry((key.class(), None)).or_default()
        };
        group.add_counted(Distribution::counted(histogram), self.period);
        worst.for_each(|wait| group.worst.offer(&wait));
        self.make_room();
    }

    /// Adds waits that the programs aggregated in the current period for the group of `longest`, the longest of them.
    /// All keys must satisfy [`Key::is_counted`].
    pub fn add_element(&mut self, element: &GroupElement, longest: &Wait) {
        let group = self.groups.entry(GroupKey::new(longest, &self.keys, self.merged), WaitStats::default);
        group.add_counted(Distribution::of_element(element), self.period);
        group.worst.offer(longest);
        element.others_up_to_ns().into_iter().for_each(|ns| group.worst.add_others(ns));
        self.make_room();
    }

    /// Adds `count` waits of a recorded group, which `add` adds to a distribution.
    pub fn add_recorded(&mut self, group: RecordedKey, count: u64, add: impl FnOnce(&mut Distribution)) {
        let group = match group {
            RecordedKey::Values(values) => {
                self.groups.entry(GroupKey::of_values(&values, &self.keys, self.merged), WaitStats::default)
            }
            RecordedKey::Others(class) => {
                self.table_full = self.table_full.saturating_add(count);
                self.others.entry((GroupKey::of_class(class, self.merged).class(), None)).or_default()
            }
        };
        add(Arc::make_mut(&mut group.distribution));
        self.make_room();
    }

    /// All groups with waits, in no particular order, to record them. All keys must satisfy [`Key::is_counted`], and all
    /// classes must be separate.
    pub fn recorded(&self) -> impl Iterator<Item = (RecordedKey, &Distribution)> {
        let groups = self.groups.iter().filter_map(|(key, waits)| Some((RecordedKey::Values(key.values()?), waits)));
        let others = self.others.iter().filter_map(|((class, _), waits)| match class {
            GroupClass::One(class) => Some((RecordedKey::Others(*class), waits)),
            GroupClass::RunQueue => None,
        });
        groups.chain(others).map(|(key, waits)| (key, &*waits.distribution)).filter(|(_, waits)| waits.count() > 0)
    }

    /// Removes all waits, but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.others.clear();
        (self.waits_merged, self.table_full) = (0, 0);
        if let Some(period) = &mut self.period {
            // The rest of the current period belongs to the new window, which has no pause before it.
            period.pause_ns = 0;
        }
    }

    /// The number of waits that the last report merged into the group `(other)`, because there were too
    /// many groups. By component, a wait can be in several groups: for each class, the component with
    /// the most waits in `(other)` counts.
    pub fn merged(&self) -> u64 {
        self.waits_merged
    }

    /// The number of waits that are in the group `(other)` because the kernel's table of groups had no room.
    pub fn table_full(&self) -> u64 {
        self.table_full
    }

    /// The groups, ordered by class, then by descending count, then by key, so that the order is
    /// deterministic. `sampling` is what was in force, if tasks were sampled. Drop the report before
    /// recording the next wait: both share their distributions, which would have to be copied.
    pub fn report(&mut self, names: &dyn Names, sampling: Option<SamplingState>) -> Vec<Group> {
        if let Some(sampling) = sampling {
            let max_shift = if self.keys.contains(&Key::Tid) { 0 } else { sampling.max_shift };
            self.distributions()
                .for_each(|distribution| distribution.add_sampling_state(SamplingState { max_shift, ..sampling }));
        }
        let ranking = self.groups.ranking();
        let (shown, rest) = ranking.split_at(self.limit.min(ranking.len()));
        let mut others = self.others.clone();
        for (key, waits) in rest {
            others.entry((key.class(), key.component())).or_default().add(waits);
        }
        self.waits_merged = waits_in(&others);
        let shown =
            shown.iter().map(|(key, waits)| ((key.class(), key.key_parts(&self.keys, names)), (*waits).clone()));
        let other = |key: &Key| KeyPart { name: key.name(), value: KeyValue::Text("(other)".to_owned()) };
        let others =
            others.into_iter().map(|((class, _), waits)| ((class, self.keys.iter().map(other).collect()), waits));
        let mut groups: Vec<Group> = by_name(shown.chain(others), WaitStats::add)
            .into_iter()
            .map(|((class, key), waits)| Group {
                run_ns: None,
                key,
                class,
                distribution: waits.distribution,
                wakers: wakers(waits.worst.waits(), names),
                worst: waits.worst.waits().to_vec(),
            })
            .collect();
        groups.sort_by(|a, b| {
            a.class
                .cmp(&b.class)
                .then_with(|| b.distribution.count().cmp(&a.distribution.count()))
                .then_with(|| a.key.cmp(&b.key))
        });
        groups
    }
}

impl Sum for WaitStats {
    fn size(&self) -> u128 {
        self.distribution.sum_ns()
    }
}

/// The number of merged waits. A wait counts once, although it can have several components: for each
/// class, the component with the most waits counts.
fn waits_in(others: &Others) -> u64 {
    let mut by_class = BTreeMap::new();
    for ((class, _), waits) in others {
        let most: &mut u64 = by_class.entry(*class).or_default();
        *most = waits.distribution.count().max(*most);
    }
    by_class.values().sum()
}

impl WaitStats {
    /// Adds waits that the programs aggregated, in `period` if there is a limit.
    fn add_counted(&mut self, waits: Distribution, period: Option<Period>) {
        let waits = match period {
            Some(period) => waits.measured_in(period),
            None => waits,
        };
        Arc::make_mut(&mut self.distribution).add(&waits);
    }

    fn add(&mut self, other: &Self) {
        Arc::make_mut(&mut self.distribution).add(&other.distribution);
        self.worst.add(&other.worst);
    }
}

/// The names of the wakers of `waits`, by thread id.
fn wakers(waits: &[Wait], names: &dyn Names) -> BTreeMap<u32, Comm> {
    let wakers = waits.iter().filter_map(|wait| wait.waker_tid);
    wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect()
}

#[cfg(test)]
mod tests;
