//! What a recording keeps of a measurement.

use serde::{Deserialize, Serialize};

use crate::aggregate::key::Key;

/// What a recording keeps of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kept {
    /// Every switch, and the events between switches.
    #[default]
    Events,
    /// Every wait, without the events that explain it.
    Waits,
    /// A histogram for each interval, group and class.
    Histograms {
        /// The keys that waits are grouped by.
        by: Vec<Key>,
        /// The shortest interval: ns. Each ends with a reading.
        interval_ns: u64,
    },
}

impl Kept {
    /// The value of `record --keep`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Waits => "waits",
            Self::Histograms { .. } => "hist",
        }
    }

    /// What the recording has, in a sentence.
    pub const fn description(&self) -> &'static str {
        match self {
            Self::Events => "every event",
            Self::Waits => "waits without the events that explain them",
            Self::Histograms { .. } => "histograms",
        }
    }

    /// Whether waits with these histograms can be grouped by `key`.
    pub fn has_key(&self, key: Key) -> bool {
        let Self::Histograms { by, .. } = self else { return true };
        match key {
            Key::Class | Key::Recording | Key::Host => true,
            // Both are the cgroup's path.
            Key::Cgroup | Key::Container => by.contains(&Key::Cgroup) || by.contains(&Key::Container),
            key => by.contains(&key),
        }
    }
}
