//! How often a kernel is booted, and how its time passes.

use std::fmt;

use super::qemu::TimeMode;

/// How a kernel is booted: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootPlan {
    /// Booted once.
    Once(TimeMode),
    /// The same machine twice, in the deterministic mode; the output must be identical.
    Twice,
}

impl BootPlan {
    /// The sort key for starting guests: those that take longest start first, so that all CPUs finish at
    /// about the same time.
    pub const fn start_order(self) -> usize {
        match self {
            Self::Once(TimeMode::Large) => 0,
            Self::Once(TimeMode::Deterministic) => 1,
            Self::Twice => 2,
            Self::Once(TimeMode::Smp) => 3,
            Self::Once(TimeMode::Counted) => 4,
        }
    }

    /// How time passes in the guest.
    pub const fn mode(self) -> TimeMode {
        match self {
            Self::Once(mode) => mode,
            Self::Twice => TimeMode::Deterministic,
        }
    }
}

impl fmt::Display for BootPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(mode) => mode.fmt(f),
            Self::Twice => f.pad("repeated"),
        }
    }
}
