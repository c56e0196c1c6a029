//! Which groups have no series of their own.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

/// Maximum number of groups that are counted: the hash of each name is kept.
const MAX_NAMES: usize = 65_536;

/// The groups that were counted as one, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct MergedGroups {
    /// Hashes of the names of groups beyond a limit.
    beyond_limit: HashSet<u64>,
    /// Hashes of the names of groups that can have no series, whatever the limit.
    without_path: HashSet<u64>,
    hasher: RandomState,
}

impl MergedGroups {
    /// No groups. Those of this one can be added to it.
    pub(super) fn emptied(&self) -> Self {
        Self { hasher: self.hasher.clone(), ..Self::default() }
    }

    /// Counts a group. `has_path`: whether it could have a series, if the limit allowed it.
    pub(super) fn add(&mut self, name: &str, has_path: bool) {
        if self.len() < MAX_NAMES {
            let names = if has_path { &mut self.beyond_limit } else { &mut self.without_path };
            names.insert(self.hasher.hash_one(name));
        }
    }

    /// Adds the groups of one that was [`Self::emptied`], or from which this one was.
    pub(super) fn extend(&mut self, other: &Self) {
        let room = MAX_NAMES.saturating_sub(self.len());
        self.beyond_limit.extend(other.beyond_limit.iter().take(room));
        let room = MAX_NAMES.saturating_sub(self.len());
        self.without_path.extend(other.without_path.iter().take(room));
    }

    /// Whether the group of this name was counted.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.beyond_limit.contains(&self.hasher.hash_one(name))
    }

    /// The number of all groups, up to 65,536.
    pub(super) fn len(&self) -> usize {
        self.beyond_limit.len() + self.without_path.len()
    }

    /// The number of those that can have no series, whatever the limit.
    pub(super) fn without_path(&self) -> usize {
        self.without_path.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_counts_once_and_by_its_reason() {
        let mut groups = MergedGroups::default();
        let mut later = groups.emptied();
        for name in ["/a", "/a", "(cgroup 7, gone)"] {
            groups.add(name, name.starts_with('/'));
        }
        for name in ["/a", "/b", "(cgroup 8, gone)"] {
            later.add(name, name.starts_with('/'));
        }
        groups.extend(&later);
        assert_eq!((groups.len(), groups.without_path()), (4, 2));
        assert_eq!(["/a", "/b", "/c"].map(|name| groups.contains(name)), [true, true, false]);
    }

    #[test]
    fn the_number_of_groups_is_bounded() {
        let mut groups = MergedGroups::default();
        let mut others = groups.emptied();
        for number in 0..40_000 {
            groups.add(&format!("/{number}"), true);
            others.add(&format!("(cgroup {number}, gone)"), false);
        }
        groups.extend(&others);
        assert_eq!(groups.len(), MAX_NAMES);
        groups.add("/another", true);
        assert_eq!(groups.len(), MAX_NAMES);
    }
}
