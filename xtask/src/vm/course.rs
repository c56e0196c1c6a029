//! How often a kernel is booted, and how its time passes.

use std::fmt;

use super::qemu::TimeMode;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootPlan {
    /// Booted once.
    Once(TimeMode),
    /// The same machine in the deterministic mode, twice: it must say the same.
    Twice,
}

impl BootPlan {
    /// Its place among those to begin: what takes longest begins first, so that all processors are done at about the same time.
    pub const fn start_order(self) -> usize {
        match self {
            Self::Once(TimeMode::Deterministic) => 0,
            Self::Twice => 1,
            Self::Once(TimeMode::Smp) => 2,
            Self::Once(TimeMode::Counted) => 3,
        }
    }

    /// How time passes.
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
