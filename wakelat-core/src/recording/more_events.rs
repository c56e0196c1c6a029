//! Events that are recorded besides those that explain waits.

use serde::{Deserialize, Serialize};

/// Events that are recorded besides those that explain waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct MoreEvents {
    /// Every wakeup, also of tasks that already run or wait.
    pub wakeups: bool,
    /// Migrations of all tasks, not only of waiting ones.
    pub migrations: bool,
}

/// The bits of [`MoreEvents`] in a file.
mod bit {
    pub const WAKEUPS: u8 = 1;
    pub const MIGRATIONS: u8 = 2;
    pub const ALL: u8 = WAKEUPS | MIGRATIONS;
}

impl MoreEvents {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The events that both have.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self { wakeups: self.wakeups && other.wakeups, migrations: self.migrations && other.migrations }
    }
}

impl From<MoreEvents> for u8 {
    fn from(events: MoreEvents) -> Self {
        let MoreEvents { wakeups, migrations } = events;
        [(wakeups, bit::WAKEUPS), (migrations, bit::MIGRATIONS)]
            .into_iter()
            .fold(0, |bits, (has, bit)| bits | if has { bit } else { 0 })
    }
}

impl TryFrom<u8> for MoreEvents {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Self, Self::Error> {
        if bits & !bit::ALL != 0 {
            return Err("the recording has events of an unknown kind");
        }
        Ok(Self { wakeups: bits & bit::WAKEUPS != 0, migrations: bits & bit::MIGRATIONS != 0 })
    }
}
