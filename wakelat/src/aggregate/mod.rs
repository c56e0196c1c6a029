//! Waits to groups of distributions: pure, no I/O, no clock.

pub mod container;
pub mod coverage;
pub mod distribution;
pub mod key;
pub mod sampled;
pub mod worst;

use std::collections::HashMap;

use wakelat_common::{Class, histogram::Histogram};

use self::{
    distribution::{Distribution, Maximum},
    key::{GroupKey, Key, Names, by_name},
    worst::Worst,
};
use crate::{
    report::{Group, GroupClass, KeyPart, KeyValue},
    timeline::Account,
    wait::Wait,
};

/// The groups of one window.
#[derive(Debug)]
pub struct Groups {
    keys: Vec<Key>,
    merged: bool,
    limit: usize,
    /// Only drawn tasks are watched, and a group may be of several.
    sampled: bool,
    groups: HashMap<GroupKey, Waits>,
    /// Waits of groups that found no room.
    others: HashMap<GroupClass, Waits>,
    groups_merged: u64,
}

/// Those of one group.
#[derive(Clone, Debug, Default)]
struct Waits {
    distribution: Distribution,
    worst: Worst,
}

impl Groups {
    /// No waits yet. `merged` puts all classes into one; at most `limit` groups are kept apart.
    pub fn new(keys: Vec<Key>, merged: bool, limit: usize) -> Self {
        Self { keys, merged, limit, sampled: false, groups: HashMap::new(), others: HashMap::new(), groups_merged: 0 }
    }

    /// The waits are those of drawn tasks: groups of several of them are to tell how much they tell of all.
    #[must_use]
    pub fn of_drawn_tasks(self) -> Self {
        Self { sampled: !self.keys.contains(&Key::Tid), ..self }
    }

    /// Adds one wait to its group.
    pub fn record(&mut self, wait: &Wait) {
        self.add(GroupKey::new(wait, &self.keys, self.merged), wait, wait.latency_ns, |group| group.worst.offer(wait));
    }

    /// Adds what one wait spent in each part to the groups of these.
    pub fn record_parts(&mut self, account: &Account) {
        let wait = &account.waited.wait;
        let key = GroupKey::new(wait, &self.keys, self.merged);
        account.parts().for_each(|(part, ns)| self.add(key.in_part(part), wait, ns, |_| {}));
    }

    fn add(&mut self, key: GroupKey, wait: &Wait, latency_ns: u64, keep: impl FnOnce(&mut Waits)) {
        let latest = Maximum { latency_ns, at_ns: wait.at_ns, tid: wait.tid, comm: wait.comm, cpu: wait.cpu };
        let group = if let Some(group) = self.groups.get_mut(&key) {
            group
        } else if self.groups.len() < self.limit {
            self.groups.entry(key).or_default()
        } else {
            self.groups_merged += 1;
            self.others.entry(key.class()).or_default()
        };
        group.distribution.record(latest);
        if self.sampled {
            group.distribution.record_sampled(wait.tid, wait.level, latency_ns);
        }
        keep(group);
    }

    /// Adds what one CPU has counted of one class, the longest of which are `worst`. Keys that are neither must not have been
    /// asked for.
    pub fn add_counted(&mut self, class: Class, histogram: &Histogram, worst: impl Iterator<Item = Wait>) {
        let key = GroupKey::on_cpu(class, histogram.cpu(), &self.keys, self.merged);
        let counted = Distribution::counted(histogram);
        let group = if self.groups.len() < self.limit || self.groups.contains_key(&key) {
            self.groups.entry(key).or_default()
        } else {
            self.groups_merged += counted.count();
            self.others.entry(key.class()).or_default()
        };
        group.distribution.add(&counted);
        worst.for_each(|wait| group.worst.offer(&wait));
    }

    /// Forgets all waits, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.others.clear();
        self.groups_merged = 0;
    }

    /// How many waits went to the group `(other)` because there were too many groups.
    pub fn merged(&self) -> u64 {
        self.groups_merged
    }

    /// The groups by class, and then by falling count; equal counts by key, so that the order is always the same.
    pub fn report(&self, names: &dyn Names) -> Vec<Group> {
        let groups =
            self.groups.iter().map(|(key, waits)| ((key.class(), key.parts(&self.keys, names)), waits.clone()));
        let other = |key: &Key| KeyPart { name: key.name(), value: KeyValue::Text("(other)".to_owned()) };
        let others =
            self.others.iter().map(|(class, waits)| ((*class, self.keys.iter().map(other).collect()), waits.clone()));
        let mut groups: Vec<Group> = by_name(groups.chain(others), Waits::add)
            .into_iter()
            .map(|((class, key), waits)| Group {
                key,
                class,
                distribution: waits.distribution,
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

impl Waits {
    fn add(&mut self, other: &Self) {
        self.distribution.add(&other.distribution);
        other.worst.waits().iter().for_each(|wait| self.worst.offer(wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sink::fixtures::wait, wait::Comm};

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

        fn comm(&self, _: u32) -> Option<Comm> {
            None
        }
    }

    #[test]
    fn all_cgroups_of_a_container_are_one_group() {
        let mut groups = Groups::new(vec![Key::Container], false, 10);
        for cgroup_id in [1, 2, 2, 3] {
            groups.record(&Wait { cgroup_id: Some(cgroup_id), ..wait() });
        }
        let report = groups.report(&Paths);
        let shown: Vec<(String, u64)> =
            report.iter().map(|group| (group.key[0].value.to_string(), group.distribution.count())).collect();
        assert_eq!(shown, [("3f4e5d6c7b8a".to_owned(), 3), ("(none)".to_owned(), 1)]);
    }
}
