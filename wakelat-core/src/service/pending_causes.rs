//! Causes by the IDs of cgroups, until an answer needs them by path.
//!
//! A reading of a busy machine has thousands of pairs of cgroups, and most of them were in the reading before. To add up a
//! few readings by ID and then look at the paths costs a fraction of summing up each of them by path.

use std::{collections::hash_map::Entry, mem};

use crate::{
    aggregate::key::{Names, unnamed_cgroup},
    hash::HashMap,
    wait::Comm,
    why::counted::{
        CauseGroups, CauseTotals,
        summary::{CountedSummary, GroupNames},
    },
};

/// The causes since they were last summed up, and the paths of their cgroups.
#[derive(Debug, Default)]
pub struct PendingCauses {
    /// `None` if there was no reading.
    causes: Option<CauseTotals>,
    paths: CgroupPaths,
}

/// The paths of cgroups by ID.
#[derive(Debug, Default)]
struct CgroupPaths(HashMap<u64, String>);

impl Names for CgroupPaths {
    fn cgroup(&self, id: u64) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| unnamed_cgroup(id))
    }

    fn comm(&self, _tid: u32) -> Option<Comm> {
        None
    }
}

impl PendingCauses {
    /// Notes the paths of the cgroups in a reading: a cgroup may be removed before an answer needs its path.
    pub fn note_paths(&mut self, causes: &CauseTotals, names: &dyn Names) {
        for [id, _] in causes.groups() {
            if let Entry::Vacant(place) = self.paths.0.entry(id) {
                let path = names.cgroup(id);
                if path != unnamed_cgroup(id) {
                    place.insert(path);
                }
            }
        }
    }

    /// Adds a reading.
    pub fn add(&mut self, reading: CauseTotals) {
        match &mut self.causes {
            Some(causes) => causes.merge(&reading),
            None => self.causes = Some(reading),
        }
    }

    /// The causes since the last call, by path; `None` if there was no reading.
    pub fn take_summary(&mut self) -> Option<CountedSummary> {
        let groups = GroupNames { by: CauseGroups::Cgroups, names: &self.paths };
        Some(self.causes.take()?.into_summary(&groups, usize::MAX, &[]))
    }

    /// Forgets the paths, unless a reading still needs them. The next reading notes them again, except for removed cgroups.
    pub fn forget_paths(&mut self) {
        if self.causes.is_none() {
            mem::take(&mut self.paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use wakelat_common::cause_sums::GroupSums;

    use super::*;

    /// Knows the cgroups that are not removed, and which of them were looked up.
    struct Cgroups(Vec<u64>, RefCell<Vec<u64>>);

    impl Names for Cgroups {
        fn cgroup(&self, id: u64) -> String {
            self.1.borrow_mut().push(id);
            if self.0.contains(&id) { format!("/{id}") } else { unnamed_cgroup(id) }
        }

        fn comm(&self, _: u32) -> Option<Comm> {
            None
        }
    }

    fn reading(waits: &[(u64, u64)]) -> CauseTotals {
        let mut totals = CauseTotals::default();
        for (id, ns) in waits {
            let mut sums = GroupSums::EMPTY;
            sums.begin_wait(*ns);
            totals.add_group([*id, 0], &sums);
        }
        totals
    }

    fn sums(pending: &mut PendingCauses) -> Option<Vec<(String, u64, u128)>> {
        let mut sums: Vec<_> = pending
            .take_summary()?
            .groups
            .iter()
            .map(|group| (group.name.as_deref().unwrap().to_owned(), group.total.waits, group.total.sum_ns))
            .collect();
        sums.sort();
        Some(sums)
    }

    #[test]
    fn readings_add_up_under_the_path_that_a_cgroup_had() {
        let mut pending = PendingCauses::default();
        let named = |name: &str, waits, ns| (name.to_owned(), waits, ns);
        for (cgroups, waits) in [(vec![1, 2], [(1, 10), (2, 20)]), (vec![1], [(1, 30), (2, 40)])] {
            let reading = reading(&waits);
            pending.note_paths(&reading, &Cgroups(cgroups, RefCell::default()));
            pending.add(reading);
        }
        assert_eq!(sums(&mut pending), Some(vec![named("/1", 2, 40), named("/2", 2, 60)]));
        assert_eq!(sums(&mut pending), None);
        pending.add(reading(&[(1, 5)]));
        assert_eq!(sums(&mut pending), Some(vec![named("/1", 1, 5)]));
    }

    #[test]
    fn a_path_is_looked_up_once_and_as_long_as_it_is_not_known() {
        let mut pending = PendingCauses::default();
        let cgroups = Cgroups(vec![1], RefCell::default());
        for _ in 0..3 {
            pending.note_paths(&reading(&[(1, 10), (2, 20)]), &cgroups);
        }
        let mut looked_up = cgroups.1.take();
        looked_up.sort_unstable();
        assert_eq!(looked_up, [1, 2, 2, 2]);
    }

    #[test]
    fn paths_are_not_forgotten_while_they_are_needed() {
        let mut pending = PendingCauses::default();
        let waits = reading(&[(1, 10)]);
        pending.note_paths(&waits, &Cgroups(vec![1], RefCell::default()));
        pending.add(waits);
        pending.forget_paths();
        assert_eq!(sums(&mut pending).unwrap()[0].0, "/1");
        pending.forget_paths();
        pending.add(reading(&[(1, 10)]));
        assert_eq!(sums(&mut pending).unwrap()[0].0, unnamed_cgroup(1));
    }
}
