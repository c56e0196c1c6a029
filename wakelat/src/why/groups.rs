//! The waits of a window, class by class and group by group, with the longest of each group.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    longest::{Exemplar, Longest},
    stacks::Pair,
    summary::Rules,
    sums::Sums,
    works::Works,
};
use crate::{
    aggregate::key::{GroupKey, Key, Names, by_name},
    hash::HashMap,
    report::{GroupClass, KeyPart, KeyValue},
    timeline::Account,
};

/// Culprits that are told apart in a class, and in all groups together.
const OF_CLASS: usize = 16_384;
const OF_GROUPS: usize = 65_536;

/// Bytes that the longest waits of all groups take together.
const BYTES: usize = 16 << 20;

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub key: Vec<KeyPart>,
    /// Their class.
    pub class: GroupClass,
    /// Where their time went.
    pub sums: Sums,
    /// The longest of them, the longest first; none of a whole class.
    pub worst: Vec<Exemplar>,
    /// How many of those that were asked for there was no room for.
    pub worst_given_up: u64,
}

/// The waits of a window.
#[derive(Debug)]
pub struct Groups {
    by: Vec<Key>,
    merged: bool,
    max_groups: usize,
    worst: usize,
    classes: BTreeMap<GroupClass, Sums>,
    groups: HashMap<GroupKey, Waits>,
    /// Those of groups for which there was no room.
    others: HashMap<GroupClass, Sums>,
    /// Culprits that are told apart in groups, and the bytes that the longest waits take.
    culprits: usize,
    bytes: usize,
    room: Room,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Room {
    of_class: usize,
    of_groups: usize,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Waits {
    sums: Sums,
    longest: Longest,
}

impl Groups {
    /// No waits yet.
    pub fn new(rules: &Rules) -> Self {
        Self {
            by: rules.by.clone(),
            merged: rules.merged,
            max_groups: rules.max_groups,
            worst: rules.worst,
            classes: BTreeMap::new(),
            groups: HashMap::default(),
            others: HashMap::default(),
            culprits: 0,
            bytes: 0,
            room: Room { of_class: OF_CLASS, of_groups: OF_GROUPS, bytes: BYTES },
        }
    }

    /// Adds a wait. Returns whether it is one of the longest of its group by now.
    pub fn add(&mut self, account: &Account, stacks: Pair, works: &Works) -> bool {
        let class = account.waited.wait.class;
        let class = if self.merged { GroupClass::RunQueue } else { GroupClass::One(class) };
        let sums = self.classes.entry(class).or_default();
        sums.add(account);
        sums.make_room(self.room.of_class);
        if self.by.is_empty() {
            return false;
        }
        let key = GroupKey::new(&account.waited.wait, &self.by, self.merged);
        let has_room = self.groups.len() < self.max_groups || self.groups.contains_key(&key);
        let mut is_longest = false;
        let sums = if has_room {
            let Waits { sums, longest } = self.groups.entry(key).or_default();
            let before = longest.bytes();
            is_longest = longest.offer(account, stacks, self.worst, works);
            self.bytes = self.bytes - before + longest.bytes();
            sums
        } else {
            self.others.entry(class).or_default()
        };
        let before = sums.told_apart();
        sums.add(account);
        self.culprits += sums.told_apart() - before;
        self.share_out();
        self.give_up();
        is_longest
    }

    /// Where culprits take too much room, each group goes on with an equal share of half of it.
    fn share_out(&mut self) {
        let groups = self.groups.len() + self.others.len();
        if self.culprits <= self.room.of_groups.max(2 * groups) {
            return;
        }
        let share = (self.room.of_groups / 2 / groups).max(1);
        self.culprits = 0;
        for sums in self.groups.values_mut().map(|waits| &mut waits.sums).chain(self.others.values_mut()) {
            sums.keep(share);
            self.culprits += sums.told_apart();
        }
    }

    /// Where the longest waits take too much room, gives up half of them: of each group the last first, and of these the
    /// shortest.
    fn give_up(&mut self) {
        if self.bytes <= self.room.bytes {
            return;
        }
        let order = |(rank, one): (usize, &Exemplar)| {
            let wait = &one.account.waited.wait;
            (Reverse(rank), one.account.latency_ns, Reverse(wait.at_ns), wait.tid)
        };
        let all = self
            .groups
            .iter()
            .flat_map(|(key, waits)| waits.longest.waits().iter().enumerate().map(move |one| (order(one), *key)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(order, _)| *order);
        for (_, key) in all {
            if self.bytes <= self.room.bytes / 2 {
                break;
            }
            if let Some(one) = self.groups.get_mut(&key).and_then(|waits| waits.longest.give_up()) {
                self.bytes -= one.bytes();
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.classes.clear();
        self.groups.clear();
        self.others.clear();
        (self.culprits, self.bytes) = (0, 0);
    }

    /// All waits, class by class, the one that took longest first.
    pub fn classes(&self) -> Vec<Group> {
        let class = |(class, sums): (&GroupClass, &Sums)| Group {
            key: Vec::new(),
            class: *class,
            sums: sums.clone(),
            worst: Vec::new(),
            worst_given_up: 0,
        };
        sorted(self.classes.iter().map(class))
    }

    /// The groups asked for, the one that waited longest first; empty where none was asked for.
    pub fn groups(&self, names: &dyn Names) -> Vec<Group> {
        let groups = self.groups.iter().map(|(key, waits)| ((key.class(), key.parts(&self.by, names)), waits.clone()));
        let other = |key: &Key| KeyPart { name: key.name(), value: KeyValue::Text("(other)".to_owned()) };
        let others = self.others.iter().map(|(class, sums)| {
            let waits = Waits { sums: sums.clone(), longest: Longest::default() };
            ((*class, self.by.iter().map(other).collect()), waits)
        });
        let add = |mine: &mut Waits, other: &Waits| {
            mine.sums.merge(&other.sums);
            mine.longest.merge(&other.longest, self.worst);
        };
        let groups = by_name(groups.chain(others), add);
        sorted(groups.into_iter().map(|((class, key), Waits { sums, longest })| {
            let asked_for = if longest.has_given_up() { sums.waits.min(self.worst as u64) } else { 0 };
            let worst_given_up = asked_for.saturating_sub(longest.waits().len() as u64);
            Group { key, class, sums, worst: longest.into_waits(), worst_given_up }
        }))
    }
}

/// The one that took longest first; equal ones by key, so that the order is always the same.
fn sorted(groups: impl Iterator<Item = Group>) -> Vec<Group> {
    let mut groups: Vec<Group> = groups.collect();
    groups
        .sort_by(|a, b| b.sums.ns.cmp(&a.sums.ns).then_with(|| a.class.cmp(&b.class)).then_with(|| a.key.cmp(&b.key)));
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        report::From,
        timeline::{
            Timeline,
            fixtures::{Stream, task},
        },
        why::fixtures::Paths,
    };

    fn groups(room: Room) -> Groups {
        let rules = Rules {
            from: From::Wakeup,
            by: vec![Key::Comm],
            merged: false,
            max_groups: 8,
            worst: 3,
            untold: Vec::new(),
            stacks: Vec::new(),
        };
        Groups { room, ..Groups::new(&rules) }
    }

    /// Waits one after the other: who waits, behind how many of how many tasks, and for how long behind each.
    fn accounts(waits: &[(u8, u32, u64)]) -> Vec<Account> {
        let (mut stream, mut at_ns) = (Stream::default(), 1_000);
        for (waiter, behind, ns) in waits {
            let from_ns = at_ns;
            for runs in 0..*behind {
                stream.turn(0, at_ns, task(100 + runs * (1 + u32::from(*waiter)), "runs"));
                at_ns += ns;
            }
            stream.ends(0, (from_ns, at_ns), task(1 + u32::from(*waiter), &format!("waits{waiter}")));
            at_ns += 1;
        }
        let mut timeline = Timeline::new(From::Wakeup);
        stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect()
    }

    fn latencies(group: &Group) -> Vec<u64> {
        group.worst.iter().map(|one| one.account.latency_ns).collect()
    }

    #[test]
    fn each_group_has_its_longest_waits_and_classes_and_others_have_none() {
        let mut all = groups(Room { of_class: 9, of_groups: 9, bytes: 1_000_000 });
        let waits: Vec<(u8, u32, u64)> =
            (0..10).flat_map(|waiter| (1..=4).map(move |ns| (waiter, 1, ns * 100))).collect();
        for account in accounts(&waits) {
            all.add(&account, Pair::default(), &Works::default());
        }
        let groups = all.groups(&Paths);
        assert_eq!(groups.len(), 9);
        for group in &groups {
            let is_other = group.key[0].value == KeyValue::Text("(other)".to_owned());
            assert_eq!(latencies(group), if is_other { vec![] } else { vec![400, 300, 200] });
            assert_eq!(group.worst_given_up, 0);
        }
        assert!(all.classes().iter().all(|class| class.worst.is_empty()));
    }

    proptest! {
        #[test]
        fn little_room_loses_nothing_and_what_is_told_is_right(
            waits in prop::collection::vec((0..10u8, 1..12u32, 1..500u64), 1..60),
            of_class in 1..20usize, of_groups in 1..40usize, bytes in 1..40_000usize,
        ) {
            let room = Room { of_class, of_groups, bytes };
            let mut all = groups(room);
            let mut longest: HashMap<String, Vec<u64>> = HashMap::default();
            for account in accounts(&waits) {
                all.add(&account, Pair::default(), &Works::default());
                longest.entry(account.waiter.comm.to_string()).or_default().push(account.latency_ns);
                prop_assert!(all.bytes <= bytes);
                prop_assert!(all.culprits <= of_groups.max(2 * (all.groups.len() + all.others.len())));
                let kept = all.groups.values().map(|waits| waits.sums.told_apart());
                prop_assert_eq!(kept.sum::<usize>() + all.others.values().map(Sums::told_apart).sum::<usize>(), all.culprits);
            }
            for group in all.classes().into_iter().chain(all.groups(&Paths)) {
                let told: u128 = group.sums.culprits().iter().map(|one| one.sum.ns).sum();
                prop_assert_eq!(told + group.sums.rest().ns, group.sums.ns);
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
        fn the_same_waits_give_the_same(waits in prop::collection::vec((0..10u8, 1..12u32, 1..50u64), 1..60)) {
            let told = || {
                let mut all = groups(Room { of_class: 5, of_groups: 20, bytes: 10_000 });
                for account in accounts(&waits) {
                    all.add(&account, Pair::default(), &Works::default());
                }
                let told = |group: Group| (group.key.clone(), group.sums.culprits(), group.sums.rest(), latencies(&group));
                all.classes().into_iter().chain(all.groups(&Paths)).map(told).collect::<Vec<_>>()
            };
            prop_assert_eq!(told(), told());
        }
    }
}
