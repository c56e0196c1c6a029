//! Why a verification has no hist triggers to compare with.

use std::{fmt, path::PathBuf};

use wakelat_tracefs::TracefsError;

/// Why the hist triggers were not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCompared {
    /// The kernel has no hist triggers.
    NoHistTriggers,
    /// This process sees no mounted tracefs. Whether the kernel has hist triggers is unknown.
    NotMounted,
    /// This user has no access to tracefs. Whether the kernel has hist triggers is unknown.
    Denied(PathBuf),
}

impl NotCompared {
    /// The reason that corresponds to a tracefs error; none for any other error.
    pub fn of(error: &TracefsError) -> Option<Self> {
        match error {
            TracefsError::NoHistTriggers => Some(Self::NoHistTriggers),
            TracefsError::NotMounted => Some(Self::NotMounted),
            TracefsError::Denied(path) => Some(Self::Denied(path.clone())),
            _ => None,
        }
    }

    /// The name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoHistTriggers => "no_hist_triggers",
            Self::NotMounted => "tracefs_not_mounted",
            Self::Denied(_) => "tracefs_closed",
        }
    }
}

impl fmt::Display for NotCompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = match self {
            Self::NoHistTriggers => TracefsError::NoHistTriggers,
            Self::NotMounted => TracefsError::NotMounted,
            Self::Denied(path) => TracefsError::Denied(path.clone()),
        };
        error.fmt(f)
    }
}

impl std::error::Error for NotCompared {}
