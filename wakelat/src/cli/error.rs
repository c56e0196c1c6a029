//! Why the program exits without running a command.

use std::{
    fmt,
    io::{self, Write as _},
};

use clap::error::ErrorKind;

use super::usage_error;
use crate::config::ConfigError;

/// Why the program exits without running a command: it prints this and ends.
#[derive(Debug)]
pub enum CliError {
    /// Help or the version was requested, or no argument was given.
    Help(clap::Error),
    /// The command line is wrong: what is wrong, and what is accepted.
    Usage(String),
    /// The command line is right, but cannot be executed here and now.
    Failed(anyhow::Error),
}

impl CliError {
    /// The exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Help(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
        }
    }

    /// Prints help on standard output (on standard error if it was not requested), errors on standard
    /// error.
    ///
    /// # Errors
    /// If writing fails, except for a closed pipe.
    pub fn print(&self) -> io::Result<()> {
        let written = match self {
            Self::Help(error) => error.print(),
            Self::Usage(_) | Self::Failed(_) => writeln!(io::stderr(), "wakelat: error: {self}"),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help(error) => error.fmt(f),
            Self::Usage(text) => f.write_str(text),
            Self::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl CliError {
    /// Converts clap's error; `command` is the command given, if any.
    pub(super) fn of(error: clap::Error, command: Option<&str>) -> Self {
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Self::Help(error),
            _ => Self::Usage(usage_error::text(&error, command)),
        }
    }
}

impl From<clap::Error> for CliError {
    fn from(error: clap::Error) -> Self {
        Self::of(error, None)
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Usage(text) => Self::Usage(text),
            ConfigError::Unmet(text) => Self::Failed(anyhow::Error::msg(text)),
        }
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}
