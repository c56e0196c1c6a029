//! The waits of a window, class by class and group by group, with the longest of each group.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    options::SummaryOptions,
    places::Places,
    stacks::WaitStacks,
    sums::BreakdownSum,
    work_items::WorkItems,
    worst::{Exemplar, LongestWaits},
};
use crate::aggregate::space_saving::{SpaceSaving, Sum};
use crate::{
    aggregate::key::{GroupKey, Key, Names, by_name},
    report::{GroupClass, KeyPart, KeyValue},
    timeline::Breakdown,
};

/// Maximum number of culprits in a class, and in all groups together.
const MAX_CLASS_CULPRITS: usize = 16_384;
const MAX_GROUP_CULPRITS: usize = 65_536;

/// Maximum number of groups until the end of the window. Only the largest of them are shown.
const MAX_GROUPS: usize = 16_384;

/// Maximum memory of the longest waits of all groups together: bytes.
const MAX_WORST_BYTES: usize = 16 << 20;

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct GroupBreakdown {
    /// The key that the waits have in common.
    pub key: Vec<KeyPart>,
    /// The class of the waits.
    pub class: GroupClass,
    /// The sum of their breakdowns.
    pub sums: BreakdownSum,
    /// The longest waits, the longest first; empty for a whole class.
    pub worst: Vec<Exemplar>,
    /// How many of the requested longest waits are missing, because there was no room for them.
    pub worst_given_up: u64,
}

/// The groups of a window.
#[derive(Clone, Debug, Default)]
pub struct RankedGroups {
    /// The groups, the one with the longest total wait first; empty if none were requested.
    pub groups: Vec<GroupBreakdown>,
    /// The number of waits in groups `(other)`.
    pub waits_merged: u64,
    /// The total wait of a group is at most this much longer than shown: ns. When a group is among the smallest for a
    /// time, its waits up to then go to `(other)`.
    pub error_ns: u128,
}

/// The waits of a window by class and by group.
#[derive(Debug)]
pub struct GroupBreakdowns {
    by: Vec<Key>,
    merged: bool,
    max_groups: usize,
    worst: usize,
    classes: BTreeMap<GroupClass, (BreakdownSum, Places)>,
    groups: SpaceSaving<GroupKey, GroupWaits>,
    /// The waits of groups that were evicted.
    others: BTreeMap<GroupClass, BreakdownSum>,
    /// The places of the culprits in the group that had the last wait.
    places: Places,
    /// The number of culprits in groups.
    culprits: usize,
    /// The memory of the longest waits of groups: bytes.
    bytes: usize,
    limits: GroupLimits,
}

/// Sizes of the tables: groups, culprits in a class, culprits in all groups, and memory of the longest waits.
#[derive(Clone, Copy, Debug)]
struct GroupLimits {
    groups: usize,
    of_class: usize,
    of_groups: usize,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct GroupWaits {
    sums: BreakdownSum,
    longest: LongestWaits,
}

impl Sum for GroupWaits {
    fn size(&self) -> u128 {
        self.sums.ns
    }
}

impl GroupBreakdowns {
    /// No waits yet.
    pub fn new(options: &SummaryOptions) -> Self {
        Self {
            by: options.by.clone(),
            merged: options.merged,
            max_groups: options.max_groups,
            worst: options.worst,
            classes: BTreeMap::new(),
            groups: SpaceSaving::default(),
            others: BTreeMap::new(),
            places: Places::default(),
            culprits: 0,
            bytes: 0,
            limits: GroupLimits {
                groups: MAX_GROUPS.max(options.max_groups),
                of_class: MAX_CLASS_CULPRITS,
                of_groups: MAX_GROUP_CULPRITS,
                bytes: MAX_WORST_BYTES,
            },
        }
    }

    /// Adds a wait. Returns whether it is one of the longest of its group so far.
    pub fn add(&mut self, breakdown: &Breakdown, stacks: WaitStacks, work_items: &WorkItems) -> bool {
        let class = breakdown.ended_wait.wait.class;
        let class = if self.merged { GroupClass::RunQueue } else { GroupClass::One(class) };
        let (sums, places) = self.classes.entry(class).or_default();
        sums.add(breakdown, places);
        sums.evict_above(self.limits.of_class);
        if self.by.is_empty() {
            return false;
        }
        let key = GroupKey::new(&breakdown.ended_wait.wait, &self.by, self.merged);
        let GroupWaits { sums, longest } = self.groups.entry(key, GroupWaits::default);
        let (bytes, culprits) = (longest.bytes(), sums.culprit_count());
        let is_longest = longest.offer(breakdown, stacks, self.worst, work_items);
        self.bytes = self.bytes - bytes + longest.bytes();
        sums.add(breakdown, &mut self.places);
        self.culprits += sums.culprit_count() - culprits;
        self.make_room();
        self.limit_culprits();
        self.evict_longest();
        is_longest
    }

    /// If there are too many groups, merges the smallest by class.
    fn make_room(&mut self) {
        let mut evicted = Vec::new();
        if !self.groups.evict_above(self.limits.groups, |key, waits| evicted.push((key, waits))) {
            return;
        }
        // The result of merging bounded tables depends on the order.
        evicted.sort_unstable_by_key(|(key, _)| *key);
        for (key, waits) in evicted {
            let others = self.others.entry(key.class()).or_default();
            others.merge(&waits.sums);
            others.evict_above(self.limits.of_class);
        }
        self.bytes = self.groups.values().map(|waits| waits.longest.bytes()).sum();
        let kept = self.groups.values().map(|waits| waits.sums.culprit_count()).sum::<usize>();
        self.culprits = kept + self.others.values().map(BreakdownSum::culprit_count).sum::<usize>();
    }

    /// If there are too many culprits in all groups, divides half of the limit equally among the groups.
    fn limit_culprits(&mut self) {
        let groups = self.groups.size() + self.others.len();
        if self.culprits <= self.limits.of_groups.max(2 * groups) {
            return;
        }
        let share = (self.limits.of_groups / 2 / groups).max(1);
        self.culprits = 0;
        for sums in self.groups.values_mut().map(|waits| &mut waits.sums).chain(self.others.values_mut()) {
            sums.keep_largest(share);
            self.culprits += sums.culprit_count();
        }
    }

    /// If the longest waits take too much memory, gives up waits until they take half of it: the lowest ranks in their
    /// groups first, and of equal ranks the shortest.
    fn evict_longest(&mut self) {
        if self.bytes <= self.limits.bytes {
            return;
        }
        let order = |(rank, one): (usize, &Exemplar)| {
            let wait = &one.breakdown.ended_wait.wait;
            (Reverse(rank), one.breakdown.latency_ns, Reverse(wait.at_ns), wait.tid)
        };
        let all = self
            .groups
            .iter()
            .flat_map(|(key, waits)| waits.longest.waits().iter().enumerate().map(move |one| (order(one), *key)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(order, _)| *order);
        for (_, key) in all {
            if self.bytes <= self.limits.bytes / 2 {
                break;
            }
            if let Some(one) = self.groups.get_mut(&key).and_then(|waits| waits.longest.give_up()) {
                self.bytes -= one.bytes();
            }
        }
    }

    /// The longest waits of all groups so far.
    pub fn longest(&self) -> impl Iterator<Item = &Exemplar> {
        self.groups.values().flat_map(|waits| waits.longest.waits())
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.classes.clear();
        self.groups.clear();
        self.others.clear();
        (self.culprits, self.bytes) = (0, 0);
    }

    /// Takes the waits of each class, the class with the longest total wait first.
    pub fn take_classes(&mut self) -> Vec<GroupBreakdown> {
        let classes = std::mem::take(&mut self.classes).into_iter();
        sorted(classes.map(|(class, (sums, _))| GroupBreakdown::from_sum(Vec::new(), class, sums)))
    }

    /// Takes the requested groups: the `max_groups` with the longest total wait, and the sum of the others by class.
    pub fn take(&mut self, names: &dyn Names) -> RankedGroups {
        let error_ns = self.groups.evicted().error;
        let kept = std::mem::take(&mut self.groups).into_sums();
        let named = kept.map(|(key, waits)| ((key.class(), key.key_parts(&self.by, names)), waits));
        let add = |mine: &mut GroupWaits, other: &GroupWaits| {
            mine.sums.merge(&other.sums);
            mine.longest.merge(&other.longest, self.worst);
        };
        let mut groups = sorted(by_name(named, add).into_iter().map(|((class, key), GroupWaits { sums, longest })| {
            let requested = if longest.has_given_up() { sums.waits.min(self.worst as u64) } else { 0 };
            let worst_given_up = requested.saturating_sub(longest.waits().len() as u64);
            GroupBreakdown { key, class, sums, worst: longest.into_waits(), worst_given_up }
        }));
        let mut others = std::mem::take(&mut self.others);
        for group in groups.split_off(groups.len().min(self.max_groups)) {
            others.entry(group.class).or_default().merge(&group.sums);
        }
        let waits_merged = others.values().map(|sums| sums.waits).sum();
        let other = |key: &Key| KeyPart { name: key.name(), value: KeyValue::Text("(other)".to_owned()) };
        let others = others.into_iter();
        groups.extend(
            others.map(|(class, sums)| GroupBreakdown::from_sum(self.by.iter().map(other).collect(), class, sums)),
        );
        RankedGroups { groups: sorted(groups.into_iter()), waits_merged, error_ns }
    }
}

impl GroupBreakdown {
    /// A group or class without its longest waits.
    fn from_sum(key: Vec<KeyPart>, class: GroupClass, sums: BreakdownSum) -> Self {
        Self { key, class, sums, worst: Vec::new(), worst_given_up: 0 }
    }
}

/// Sorts groups by total wait, the longest first, and equal ones by class and key, so that the order is deterministic.
fn sorted(groups: impl Iterator<Item = GroupBreakdown>) -> Vec<GroupBreakdown> {
    let mut groups: Vec<GroupBreakdown> = groups.collect();
    groups
        .sort_by(|a, b| b.sums.ns.cmp(&a.sums.ns).then_with(|| a.class.cmp(&b.class)).then_with(|| a.key.cmp(&b.key)));
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        hash::HashMap,
        report::LatencyFrom,
        timeline::{
            Timeline,
            testing::{EventStream, task},
        },
        why::testing::TestNames,
    };

    fn groups(limits: GroupLimits) -> GroupBreakdowns {
        let options = SummaryOptions {
            from: LatencyFrom::Wakeup,
            by: vec![Key::Comm],
            merged: false,
            max_groups: 8,
            worst: 3,
            not_collected: Vec::new(),
            stacks: Vec::new(),
            own_pids: Vec::new(),
        };
        GroupBreakdowns { limits, ..GroupBreakdowns::new(&options) }
    }

    /// Breakdowns of one wait after the other: the task that waits, the number of tasks that run meanwhile, and how
    /// long each of them runs.
    fn breakdowns(waits: &[(u8, u32, u64)]) -> Vec<Breakdown> {
        let (mut stream, mut at_ns) = (EventStream::default(), 1_000);
        for (waiter, behind, ns) in waits {
            let from_ns = at_ns;
            for runs in 0..*behind {
                stream.switch(0, at_ns, task(100 + runs * (1 + u32::from(*waiter)), "runs"));
                at_ns += ns;
            }
            stream.end_wait(0, (from_ns, at_ns), task(1 + u32::from(*waiter), &format!("waits{waiter}")));
            at_ns += 1;
        }
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect()
    }

    fn latencies(group: &GroupBreakdown) -> Vec<u64> {
        group.worst.iter().map(|wait| wait.breakdown.latency_ns).collect()
    }

    #[test]
    fn only_shown_groups_have_longest_waits() {
        let mut all = groups(GroupLimits { groups: 99, of_class: 9, of_groups: 9, bytes: 1_000_000 });
        let waits: Vec<(u8, u32, u64)> =
            (0..10).flat_map(|waiter| (1..=4).map(move |ns| (waiter, 1, ns * 100))).collect();
        for breakdown in breakdowns(&waits) {
            all.add(&breakdown, WaitStacks::default(), &WorkItems::default());
        }
        let groups = all.take(&TestNames).groups;
        assert_eq!(groups.len(), 9);
        for group in &groups {
            let is_other = group.key[0].value == KeyValue::Text("(other)".to_owned());
            assert_eq!(latencies(group), if is_other { vec![] } else { vec![400, 300, 200] });
            assert_eq!(group.worst_given_up, 0);
        }
        assert!(all.take_classes().iter().all(|class| class.worst.is_empty()));
    }

    #[test]
    fn the_largest_groups_are_shown_even_if_they_come_last() {
        let mut all = groups(GroupLimits { groups: 99, of_class: 9, of_groups: 99, bytes: 1_000_000 });
        let waits: Vec<(u8, u32, u64)> = (0..20).map(|waiter| (waiter, 1, 100 * (1 + u64::from(waiter)))).collect();
        for breakdown in breakdowns(&waits) {
            all.add(&breakdown, WaitStacks::default(), &WorkItems::default());
        }
        let ranked = all.take(&TestNames);
        let shown: Vec<(String, u128)> =
            ranked.groups.iter().map(|group| (group.key[0].value.to_string(), group.sums.ns)).collect();
        let others = (1..=12).map(|n| n * 100).sum::<u128>();
        let largest = (12..20).rev().map(|waiter| (format!("waits{waiter}"), 100 * (1 + waiter)));
        let expected: Vec<_> = [("(other)".to_owned(), others)].into_iter().chain(largest).collect();
        assert_eq!((shown, ranked.waits_merged, ranked.error_ns), (expected, 12, 0));
    }

    #[test]
    fn in_a_small_table_the_wait_of_a_group_is_within_the_error() {
        let mut all = groups(GroupLimits { groups: 8, of_class: 9, of_groups: 99, bytes: 1_000_000 });
        let waits: Vec<(u8, u32, u64)> = (0..200).map(|n| (if n % 2 == 0 { 77 } else { n }, 1, 100)).collect();
        for breakdown in breakdowns(&waits) {
            all.add(&breakdown, WaitStacks::default(), &WorkItems::default());
        }
        let ranked = all.take(&TestNames);
        assert_eq!(ranked.groups.iter().map(|group| group.sums.ns).sum::<u128>(), 20_000);
        let found =
            ranked.groups.iter().find(|group| group.key[0].value.to_string() == "waits77").expect("the largest group");
        assert!(
            found.sums.ns <= 10_100 && found.sums.ns + ranked.error_ns >= 10_000,
            "{} {}",
            found.sums.ns,
            ranked.error_ns
        );
    }

    proptest! {
        #[test]
        fn small_tables_lose_no_time_and_longest_waits_are_right(
            waits in prop::collection::vec((0..10u8, 1..12u32, 1..500u64), 1..60),
            of_class in 1..20usize, of_groups in 1..40usize, bytes in 1..40_000usize,
        ) {
            let mut all = groups(GroupLimits { groups: 99, of_class, of_groups, bytes });
            let mut longest: HashMap<String, Vec<u64>> = HashMap::default();
            for breakdown in breakdowns(&waits) {
                all.add(&breakdown, WaitStacks::default(), &WorkItems::default());
                longest.entry(breakdown.waiter.comm.to_string()).or_default().push(breakdown.latency_ns);
                prop_assert!(all.bytes <= bytes);
                prop_assert!(all.culprits <= of_groups.max(2 * (all.groups.size() + all.others.len())));
                let kept = all.groups.values().map(|waits| waits.sums.culprit_count());
                prop_assert_eq!(kept.sum::<usize>() + all.others.values().map(BreakdownSum::culprit_count).sum::<usize>(), all.culprits);
            }
            for group in all.take_classes().into_iter().chain(all.take(&TestNames).groups) {
                let kept: u128 = group.sums.culprits().iter().map(|culprit| culprit.sum.ns).sum();
                prop_assert_eq!(kept + group.sums.evicted().sum, group.sums.ns);
                let Some(longest) = group.key.first().and_then(|part| longest.get_mut(&part.value.to_string())) else {
                    continue;
                };
                longest.sort_unstable_by_key(|ns| Reverse(*ns));
                longest.truncate(3);
                longest.truncate(longest.len() - group.worst_given_up as usize);
                prop_assert_eq!(&latencies(&group), &*longest);
            }
        }

        #[test]
        fn equal_waits_give_equal_groups(waits in prop::collection::vec((0..10u8, 1..12u32, 1..50u64), 1..60)) {
            let result = || {
                let mut all = groups(GroupLimits { groups: 7, of_class: 5, of_groups: 20, bytes: 10_000 });
                for breakdown in breakdowns(&waits) {
                    all.add(&breakdown, WaitStacks::default(), &WorkItems::default());
                }
                let row = |group: GroupBreakdown| (group.key.clone(), group.sums.culprits(), group.sums.evicted(), latencies(&group));
                all.take_classes().into_iter().chain(all.take(&TestNames).groups).map(row).collect::<Vec<_>>()
            };
            prop_assert_eq!(result(), result());
        }
    }
}
