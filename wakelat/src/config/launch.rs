//! The process that becomes a measured command.

use std::ffi::OsString;

/// The process that becomes a measured command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The process that starts it.
    pub parent: u32,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}
