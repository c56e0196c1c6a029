//! Why flags do not make a configuration.

use std::fmt;

/// Why flags do not make a configuration. Nothing has been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// What was typed is wrong wherever it is typed: exit code 2.
    Usage(String),
    /// What was typed is right, but not here and now: exit code 1.
    Unmet(String),
}

impl ConfigError {
    /// A value that the named flag does not take.
    pub(crate) fn usage(flag: &str, why: impl fmt::Display) -> Self {
        Self::Usage(format!("`{flag}`: {why}"))
    }

    /// A value of the named flag that this machine cannot serve.
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
