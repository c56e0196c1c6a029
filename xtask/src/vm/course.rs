//! How often a kernel is booted, and how its time passes.

use std::fmt;

use super::qemu::Mode;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Booted once.
    Once(Mode),
    /// The same machine in the deterministic mode, twice: it must say the same.
    Twice,
}

impl Course {
    /// Its place among those to begin: what takes longest begins first, so that all processors are done at about the same time.
    pub const fn turn(self) -> usize {
        match self {
            Self::Once(Mode::Deterministic) => 0,
            Self::Twice => 1,
            Self::Once(Mode::Smp) => 2,
            Self::Once(Mode::Counted) => 3,
        }
    }

    /// How time passes.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Once(mode) => mode,
            Self::Twice => Mode::Deterministic,
        }
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(mode) => mode.fmt(f),
            Self::Twice => f.pad("repeated"),
        }
    }
}
