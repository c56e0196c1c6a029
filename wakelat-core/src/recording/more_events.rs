//! Events that are recorded besides those that explain waits.

use serde::{Deserialize, Serialize};

use crate::timeline::stack_event::Role;

/// Events that are recorded besides those that explain waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct MoreEvents {
    /// Every wakeup, also of tasks that already run or wait.
    pub wakeups: bool,
    /// Migrations of all tasks, not only of waiting ones.
    pub migrations: bool,
    /// Stacks of tasks that wake or create others.
    pub waker_stacks: bool,
    /// Stacks of tasks that leave their CPU.
    pub wakee_stacks: bool,
}

/// The bits of [`MoreEvents`] in a file.
mod bit {
    pub const WAKEUPS: u8 = 1;
    pub const MIGRATIONS: u8 = 2;
    pub const WAKER_STACKS: u8 = 4;
    pub const WAKEE_STACKS: u8 = 8;
    pub const ALL: u8 = WAKEUPS | MIGRATIONS | WAKER_STACKS | WAKEE_STACKS;
}

impl MoreEvents {
    /// The events that both have.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self {
            wakeups: self.wakeups && other.wakeups,
            migrations: self.migrations && other.migrations,
            waker_stacks: self.waker_stacks && other.waker_stacks,
            wakee_stacks: self.wakee_stacks && other.wakee_stacks,
        }
    }

    /// The tasks whose stacks there are.
    pub fn stacks(self) -> impl Iterator<Item = Role> {
        let roles = [(self.waker_stacks, Role::Waker), (self.wakee_stacks, Role::Wakee)];
        roles.into_iter().filter(|(has, _)| *has).map(|(_, role)| role)
    }
}

impl From<MoreEvents> for u8 {
    fn from(events: MoreEvents) -> Self {
        let MoreEvents { wakeups, migrations, waker_stacks, wakee_stacks } = events;
        [
            (wakeups, bit::WAKEUPS),
            (migrations, bit::MIGRATIONS),
            (waker_stacks, bit::WAKER_STACKS),
            (wakee_stacks, bit::WAKEE_STACKS),
        ]
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
        let has = |bit| bits & bit != 0;
        Ok(Self {
            wakeups: has(bit::WAKEUPS),
            migrations: has(bit::MIGRATIONS),
            waker_stacks: has(bit::WAKER_STACKS),
            wakee_stacks: has(bit::WAKEE_STACKS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_unknown_kind_are_rejected() {
        let all = MoreEvents { wakeups: true, migrations: true, waker_stacks: true, wakee_stacks: true };
        assert_eq!((u8::from(all), MoreEvents::try_from(bit::ALL)), (bit::ALL, Ok(all)));
        assert!(postcard::from_bytes::<MoreEvents>(&[bit::ALL]).is_ok());
        assert!(postcard::from_bytes::<MoreEvents>(&[bit::ALL + 1]).is_err());
    }
}
