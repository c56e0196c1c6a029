//! The groups of recorded histograms: their keys, and which of them a view selects.

use wakelat_common::Class;
use wakelat_core::{
    aggregate::{
        RecordedKey,
        key::{KeyValues, Names as _},
    },
    hash::HashMap,
    recording::{Exclusion, GroupHistogram, IntervalHistograms, RecordedNames},
};

use crate::config::{Config, RecordedInput};

/// The keys of groups, by number.
#[derive(Debug, Default)]
pub struct RecordedGroups(HashMap<u32, RecordedKey>);

impl RecordedGroups {
    /// Stores the key of a group.
    pub fn learn(&mut self, number: u32, key: RecordedKey) {
        self.0.insert(number, key);
    }

    /// The histograms with their keys. A group without a key, which only a damaged recording has, is left out.
    pub fn with_keys<'a>(
        &'a self,
        histograms: &'a IntervalHistograms,
    ) -> impl Iterator<Item = (&'a RecordedKey, &'a GroupHistogram)> {
        histograms.iter().filter_map(|one| Some((self.0.get(&one.group)?, one)))
    }

    /// The class of a group's waits.
    pub fn class(key: &RecordedKey) -> Class {
        match key {
            RecordedKey::Values(values) => values.class,
            RecordedKey::Others(class) => *class,
        }
    }

    /// Why the waits of a group are not shown, if so. `config` filters only by keys that the group has.
    pub fn exclusion(
        key: &RecordedKey,
        config: &Config,
        input: &RecordedInput,
        names: &RecordedNames,
    ) -> Option<Exclusion> {
        const NO_PRIO: i32 = 0;
        const NO_POLICY: u32 = 0;
        if !config.classes.contains(Self::class(key)) {
            return Some(Exclusion::Class);
        }
        let filter = &config.filter;
        let is_wanted = match key {
            RecordedKey::Values(KeyValues { tid, pid, comm, cgroup_id, cpu, .. }) => {
                filter.wants_recorded(*tid, *pid, comm, NO_PRIO, NO_POLICY)
                    && filter.wants_cpu(*cpu)
                    && (input.cgroups.is_empty() || input.wants_cgroup(&names.cgroup(*cgroup_id)))
            }
            // Nothing but the class is known.
            RecordedKey::Others(_) => !filter.selects_recorded() && input.cgroups.is_empty(),
        };
        (!is_wanted).then_some(Exclusion::Filter)
    }
}
