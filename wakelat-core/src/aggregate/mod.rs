//! Groups waits by key and keeps a distribution per group. Pure: no I/O, no clock.

pub mod container_id;
pub mod coverage;
pub mod distribution;
pub mod estimate;
pub mod key;
mod latency_store;
pub mod percentile_rank;
pub mod space_saving;
pub mod worst;

use std::{collections::BTreeMap, rc::Rc};

use wakelat_common::{Class, histogram::Histogram};

use self::{
    distribution::{Distribution, Maximum},
    estimate::{Period, SamplingState},
    key::{GroupKey, Key, Names, by_name},
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
    /// Waits of evicted groups.
    others: Others,
    waits_merged: u64,
}

/// Waits that are merged into `(other)`, by class and component.
type Others = HashMap<(GroupClass, Option<Component>), WaitStats>;

/// The waits of one group.
#[derive(Clone, Debug, Default)]
struct WaitStats {
    /// Shared with the current report, so that a report copies no histogram. Recording a wait while a
    /// report exists copies it.
    distribution: Rc<Distribution>,
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
            others: Others::default(),
            waits_merged: 0,
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
        waits.map(|waits| Rc::make_mut(&mut waits.distribution))
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
        let group = self.groups.entry(key, WaitStats::default);
        let distribution = Rc::make_mut(&mut group.distribution);
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

    /// Adds the histogram of one class that one CPU aggregated; `worst` are its longest waits. All keys
    /// must satisfy [`Key::is_counted`].
    pub fn add_counted(&mut self, class: Class, histogram: &Histogram, worst: impl Iterator<Item = Wait>) {
        let key = GroupKey::on_cpu(class, histogram.cpu(), &self.keys, self.merged);
        let counted = Distribution::counted(histogram);
        let group = self.groups.entry(key, WaitStats::default);
        Rc::make_mut(&mut group.distribution).add(&counted);
        worst.for_each(|wait| group.worst.offer(&wait));
        self.make_room();
    }

    /// Removes all waits, but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.others.clear();
        self.waits_merged = 0;
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
    fn add(&mut self, other: &Self) {
        Rc::make_mut(&mut self.distribution).add(&other.distribution);
        other.worst.waits().iter().for_each(|wait| self.worst.offer(wait));
    }
}

/// The names of the wakers of `waits`, by thread id.
fn wakers(waits: &[Wait], names: &dyn Names) -> BTreeMap<u32, Comm> {
    let wakers = waits.iter().filter_map(|wait| wait.waker_tid);
    wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::testing::wait,
        report::LatencyFrom,
        timeline::{
            Timeline,
            testing::{EventStream, irq, task},
        },
    };

    struct Paths;

    impl Names for Paths {
        fn cgroup(&self, id: u64) -> String {
            let id_of_container = "3f4e5d6c7b8a9012".repeat(4);
            match id {
                1 => format!("/docker/{id_of_container}"),
                2 => format!("/docker/{id_of_container}/init.scope"),
                _ => "/system.slice/nginx.service".to_owned(),
            }
        }

        fn comm(&self, tid: u32) -> Option<Comm> {
            (tid == 77).then(|| Comm::new(b"bash"))
        }
    }

    #[test]
    fn wakers_of_the_longest_waits_have_names_if_known() {
        let mut groups = Groups::new(Vec::new(), false, 10);
        [Some(77), Some(78), None].into_iter().for_each(|waker_tid| groups.record(&Wait { waker_tid, ..wait() }));
        let report = groups.report(&Paths, None);
        assert_eq!(report[0].wakers, BTreeMap::from([(77, Comm::new(b"bash"))]));
    }

    #[test]
    fn a_report_shares_its_distributions_instead_of_copying_them() {
        let mut groups = Groups::new(vec![Key::Tid], false, 10);
        (0..1_000).for_each(|latency_ns| groups.record(&Wait { latency_ns, ..wait() }));
        let first = groups.report(&Paths, None);
        assert!(groups.groups.values().all(|waits| Rc::ptr_eq(&waits.distribution, &first[0].distribution)));
        // A wait that is recorded while a report exists does not change that report.
        groups.record(&wait());
        assert_eq!(
            (first[0].distribution.count(), groups.report(&Paths, None)[0].distribution.count()),
            (1_000, 1_001)
        );
    }

    #[test]
    fn a_merged_wait_counts_once_however_many_components_it_has() {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "hog"));
        stream.interrupt(0, (300, 310), irq(1, "x"));
        stream.end_wait(0, (100, 900), task(2, "waiter"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let breakdowns: Vec<Breakdown> =
            stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
        let components = breakdowns[0].components().count();
        assert_eq!((breakdowns.len(), components), (1, 2));
        for (limit, merged) in [(components, 0), (components - 1, 1), (0, 1)] {
            let mut groups = Groups::new(vec![Key::Component], false, limit);
            groups.record_breakdown(&breakdowns[0]);
            groups.report(&Paths, None);
            assert_eq!(groups.merged(), merged, "room for {limit}");
        }
    }

    fn shown(report: &[Group]) -> Vec<(String, u64)> {
        report.iter().map(|group| (group.key[0].value.to_string(), group.distribution.count())).collect()
    }

    #[test]
    fn the_groups_that_waited_longest_are_shown_even_if_they_appear_late() {
        let mut groups = Groups::new(vec![Key::Tid], false, 2);
        let mut add = |tid, waits| (0..waits).for_each(|_| groups.record(&Wait { tid, latency_ns: 100, ..wait() }));
        (1..=5).for_each(|tid| add(tid, 1));
        add(6, 7);
        add(2, 3);
        let expected = [("6", 7), ("2", 4), ("(other)", 4)].map(|(tid, waits)| (tid.to_owned(), waits));
        let mut report = shown(&groups.report(&Paths, None));
        report.sort_by_key(|(tid, waits)| (tid == "(other)", std::cmp::Reverse(*waits)));
        assert_eq!(report, expected);
        assert_eq!(groups.merged(), 4);
        // A report changes nothing.
        assert_eq!(groups.report(&Paths, None).len(), 3);
        assert_eq!(groups.merged(), 4);
    }

    #[test]
    fn evicting_groups_loses_no_wait_and_keeps_a_steady_group() {
        let mut groups = Groups::new(vec![Key::Tid], false, 4);
        groups.room = 64;
        for tid in 1..=10_000 {
            groups.record(&Wait { tid, latency_ns: 100, ..wait() });
            groups.record(&Wait { tid: 20_000, latency_ns: 90, ..wait() });
        }
        let report = groups.report(&Paths, None);
        let counts = shown(&report);
        let steady = counts.iter().find(|(tid, _)| tid == "20000").expect("it waited longest");
        assert_eq!(steady.1, 10_000);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 20_000);
        assert_eq!(groups.merged(), 20_000 - 10_000 - 3);
        assert!(groups.groups.size() <= 64);
    }

    #[test]
    fn all_cgroups_of_a_container_are_one_group() {
        let mut groups = Groups::new(vec![Key::Container], false, 10);
        for cgroup_id in [1, 2, 2, 3] {
            groups.record(&Wait { cgroup_id: Some(cgroup_id), ..wait() });
        }
        let report = groups.report(&Paths, None);
        assert_eq!(shown(&report), [("3f4e5d6c7b8a".to_owned(), 3), ("(none)".to_owned(), 1)]);
    }
}
