//! The process that becomes a measured command.

use std::{ffi::OsString, os::fd::RawFd};

/// The process that becomes a measured command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The process that starts it.
    pub parent: u32,
    /// The descriptor of the pipe to which it writes the error if the command cannot be executed.
    pub failure_fd: RawFd,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}
