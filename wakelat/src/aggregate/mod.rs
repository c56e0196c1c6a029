//! Waits to groups of distributions: pure, no I/O, no clock.

pub mod bounded;
pub mod container;
pub mod coverage;
pub mod distribution;
pub mod key;
pub mod rank;
pub mod sampled;
mod values;
pub mod worst;

use std::{collections::BTreeMap, rc::Rc};

use wakelat_common::{Class, histogram::Histogram};

use self::{
    bounded::{SpaceSaving, Sum},
    distribution::{Distribution, Maximum},
    key::{GroupKey, Key, Names, by_name},
    sampled::{Period, SamplingState},
    worst::WorstWaits,
};
use crate::{
    hash::HashMap,
    report::{Group, GroupClass, KeyPart, KeyValue},
    timeline::{Breakdown, part::Component},
    wait::{Comm, Wait},
};

/// Groups that are kept until the window ends, however few are shown.
const ROOM: usize = 16_384;

/// The groups of one window.
#[derive(Debug)]
pub struct Groups {
    keys: Vec<Key>,
    merged: bool,
    /// Groups that are shown: those that waited longest.
    limit: usize,
    /// Groups that are kept.
    room: usize,
    /// Where not all is watched: what the waits that come now were drawn with.
    period: Option<Period>,
    groups: SpaceSaving<GroupKey, WaitStats>,
    /// Waits of groups that made room.
    others: Others,
    waits_merged: u64,
}

/// Waits whose groups are not told apart, by class and by part.
type Others = HashMap<(GroupClass, Option<Component>), WaitStats>;

/// The waits of one group.
#[derive(Clone, Debug, Default)]
struct WaitStats {
    /// Shared with the report under way, so that a report copies no histogram; a wait that comes while one exists would.
    distribution: Rc<Distribution>,
    worst: WorstWaits,
}

impl Groups {
    /// No waits yet. `merged` puts all classes into one; the `limit` groups that waited longest are shown apart.
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

    /// The waits that come now are those of drawn tasks, watched in `period`: groups are to tell how much they tell of all.
    pub fn begin_period(&mut self, period: Period) {
        self.period = Some(period);
    }

    /// The period under way has ended, of which `length_ns` were measured: now its waits have a weight.
    pub fn end_period(&mut self, length_ns: u64) {
        self.distributions().for_each(|distribution| distribution.end_period(length_ns));
    }

    /// `length_ns` of the period under way were measured so far.
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

    /// Adds what one wait spent in each part to the groups of these.
    pub fn record_breakdown(&mut self, account: &Breakdown) {
        let wait = &account.ended_wait.wait;
        let key = GroupKey::new(wait, &self.keys, self.merged);
        account.components().for_each(|(part, ns)| self.add(key.with_component(part), wait, ns, |_| {}));
    }

    fn add(&mut self, key: GroupKey, wait: &Wait, latency_ns: u64, keep: impl FnOnce(&mut WaitStats)) {
        let latest = Maximum { latency_ns, at_ns: wait.at_ns, tid: wait.tid, comm: wait.comm, cpu: wait.cpu };
        let group = self.groups.entry(key, WaitStats::default);
        let distribution = Rc::make_mut(&mut group.distribution);
        distribution.record(latest);
        if let Some(period) = self.period {
            // A group of one task is of one that was drawn, and of nobody else.
            let level = if self.keys.contains(&Key::Tid) { 0 } else { wait.sampling_shift };
            distribution.record_sampled(wait.tid, level, period, latency_ns);
        }
        keep(group);
        self.make_room();
    }

    /// Where there are too many groups, those that waited least are told apart no longer.
    fn make_room(&mut self) {
        let others = &mut self.others;
        self.groups
            .evict_above(self.room, |key, waits| others.entry((key.class(), key.part())).or_default().add(&waits));
    }

    /// Adds what one CPU has counted of one class, the longest of which are `worst`. Keys that are neither must not have been
    /// asked for.
    pub fn add_counted(&mut self, class: Class, histogram: &Histogram, worst: impl Iterator<Item = Wait>) {
        let key = GroupKey::on_cpu(class, histogram.cpu(), &self.keys, self.merged);
        let counted = Distribution::counted(histogram);
        let group = self.groups.entry(key, WaitStats::default);
        Rc::make_mut(&mut group.distribution).add(&counted);
        worst.for_each(|wait| group.worst.offer(&wait));
        self.make_room();
    }

    /// Forgets all waits, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.others.clear();
        self.waits_merged = 0;
        if let Some(period) = &mut self.period {
            // What is left of the period under way is measured whole, and belongs to no pause.
            period.pause_ns = 0;
        }
    }

    /// How many waits the last report has in the group `(other)`, because there were too many groups. Of groups by part, which a wait
    /// may have several of, it is as many as have one part there, at most.
    pub fn merged(&self) -> u64 {
        self.waits_merged
    }

    /// The groups by class, and then by falling count; equal counts by key, so that the order is always the same. `drawn`
    /// was in force, where not all was watched. The report has to be dropped before the next wait is recorded: the waits of both
    /// are the same memory.
    pub fn report(&mut self, names: &dyn Names, drawn: Option<SamplingState>) -> Vec<Group> {
        if let Some(drawn) = drawn {
            let up_to = if self.keys.contains(&Key::Tid) { 0 } else { drawn.max_shift };
            self.distributions()
                .for_each(|distribution| distribution.add_sampling_state(SamplingState { max_shift: up_to, ..drawn }));
        }
        let ranking = self.groups.ranking();
        let (shown, rest) = ranking.split_at(self.limit.min(ranking.len()));
        let mut others = self.others.clone();
        for (key, waits) in rest {
            others.entry((key.class(), key.part())).or_default().add(waits);
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

/// How many waits are not told apart: each once, though it may have several parts.
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

/// The names of those who woke the tasks of some waits, by thread id.
fn wakers(waits: &[Wait], names: &dyn Names) -> BTreeMap<u32, Comm> {
    let wakers = waits.iter().filter_map(|wait| wait.waker_tid);
    wakers.filter_map(|tid| names.comm(tid).map(|comm| (tid, comm))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        sink::fixtures::wait,
        timeline::{
            Timeline,
            fixtures::{EventStream, irq, task},
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
    fn who_woke_the_longest_has_a_name_where_anybody_knows_it() {
        let mut groups = Groups::new(Vec::new(), false, 10);
        [Some(77), Some(78), None].into_iter().for_each(|waker_tid| groups.record(&Wait { waker_tid, ..wait() }));
        let report = groups.report(&Paths, None);
        assert_eq!(report[0].wakers, BTreeMap::from([(77, Comm::new(b"bash"))]));
    }

    #[test]
    fn a_report_has_the_waits_of_its_groups_without_a_copy() {
        let mut groups = Groups::new(vec![Key::Tid], false, 10);
        (0..1_000).for_each(|latency_ns| groups.record(&Wait { latency_ns, ..wait() }));
        let first = groups.report(&Paths, None);
        assert!(groups.groups.values().all(|waits| Rc::ptr_eq(&waits.distribution, &first[0].distribution)));
        // One that comes while a report exists does not change it.
        groups.record(&wait());
        assert_eq!(
            (first[0].distribution.count(), groups.report(&Paths, None)[0].distribution.count()),
            (1_000, 1_001)
        );
    }

    #[test]
    fn a_wait_without_room_counts_once_however_many_parts_it_has() {
        let mut stream = EventStream::default();
        stream.switch(0, 0, task(1, "hog"));
        stream.interrupt(0, (300, 310), irq(1, "x"));
        stream.end_wait(0, (100, 900), task(2, "waiter"));
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        let accounts: Vec<Breakdown> = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
        let parts = accounts[0].components().count();
        assert_eq!((accounts.len(), parts), (1, 2));
        for (limit, merged) in [(parts, 0), (parts - 1, 1), (0, 1)] {
            let mut groups = Groups::new(vec![Key::Component], false, limit);
            groups.record_breakdown(&accounts[0]);
            groups.report(&Paths, None);
            assert_eq!(groups.merged(), merged, "room for {limit}");
        }
    }

    fn shown(report: &[Group]) -> Vec<(String, u64)> {
        report.iter().map(|group| (group.key[0].value.to_string(), group.distribution.count())).collect()
    }

    #[test]
    fn the_groups_that_waited_longest_are_shown_however_late_they_come() {
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
    fn where_groups_have_to_make_room_no_wait_is_lost_and_a_steady_one_stays() {
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
