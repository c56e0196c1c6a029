//! The architectures that wakelat is released for and tested on.

use std::env;
use std::path::Path;

use clap::ValueEnum;

use crate::{program_in_path, workspace};

/// An architecture, by its name in Rust's targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    /// Debian's amd64.
    #[value(name = "x86_64")]
    X86_64,
    /// Debian's arm64.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture of this machine.
    ///
    /// # Errors
    /// Fails on a machine of any other architecture.
    pub fn own() -> anyhow::Result<Self> {
        Self::from_str(env::consts::ARCH, false)
            .map_err(|_| anyhow::anyhow!("there are no releases for `{}`", env::consts::ARCH))
    }

    /// The architectures that this machine needs a cross compiler for.
    pub fn foreign() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|architecture| !architecture.is_own())
    }

    /// Whether this is the architecture of this machine.
    pub fn is_own(self) -> bool {
        self.name() == env::consts::ARCH
    }

    /// The name in Rust's targets, and in the names of tarballs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Debian's name.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Rust's target with glibc.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// The C compiler that links for this architecture on a machine of another one.
    pub fn cross_linker(self) -> String {
        format!("{}-linux-gnu-gcc", self.name())
    }

    /// What this machine lacks to build for this architecture; `None` if it lacks nothing.
    pub fn missing_tool(self) -> Option<String> {
        if self.is_own() {
            return None;
        }
        if program_in_path(&self.cross_linker()).is_none() {
            return Some(format!("no `{}`", self.cross_linker()));
        }
        (!has_standard_library(&self.target())).then(|| format!("no standard library for `{}`", self.target()))
    }
}

/// Whether this compiler can build programs for `target`.
pub fn has_standard_library(target: &str) -> bool {
    let output = workspace::rustc().args(["--print=target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_but_the_machines_own_is_foreign() {
        let foreign: Vec<_> = Architecture::foreign().collect();
        assert_eq!(foreign.len() + 1, Architecture::ALL.len());
        assert!(!foreign.contains(&Architecture::own().unwrap()));
        assert_eq!(Architecture::own().unwrap().missing_tool(), None);
    }
}
