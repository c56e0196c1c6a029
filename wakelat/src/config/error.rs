//! Why flags are rejected.

use std::fmt;

/// Why flags are rejected. Nothing has been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The flags are wrong on any machine: exit code 2.
    Usage(String),
    /// The flags are right, but cannot be used here and now: exit code 1.
    Unmet(String),
}

impl ConfigError {
    /// A value that the named flag does not accept.
    pub(crate) fn usage(flag: &str, why: impl fmt::Display) -> Self {
        Self::Usage(format!("`{flag}`: {why}"))
    }

    /// A value of the named flag that cannot be used on this machine.
    pub(crate) fn unmet(flag: &str, why: impl fmt::Display) -> Self {
        Self::Unmet(format!("`{flag}`: {why}"))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Unmet(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ConfigError {}
