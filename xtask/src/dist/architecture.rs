//! The architectures of a release.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use wakelat_build::static_build::{self, BuildOutput};
use wakelat_build::workspace;

use crate::setup;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Architecture {
    /// This machine's.
    pub fn own() -> anyhow::Result<Self> {
        Self::from_str(env::consts::ARCH, false)
            .map_err(|_| anyhow::anyhow!("there are no releases for `{}`", env::consts::ARCH))
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

    /// Builds the static binary, on a machine of architecture `own`.
    pub fn build(self, own: Self) -> anyhow::Result<BuildOutput> {
        if self == own {
            return static_build::released();
        }
        setup::install(setup::cross_compiler(self.debian()))?;
        let target = format!("{}-unknown-linux-gnu", self.name());
        if !has_standard_library(&target) {
            let mut rustup = Command::new("rustup");
            let added = rustup.args(["target", "add", &target]).current_dir(workspace::root()).status();
            let added = added.context("cannot run rustup, which adds the standard library")?;
            ensure!(added.success(), "rustup cannot add the target `{target}`");
        }
        static_build::release_with_linker(&target, &format!("{}-linux-gnu-gcc", self.name()))
    }
}

/// Whether this compiler can build programs for `target`.
pub fn has_standard_library(target: &str) -> bool {
    let output = workspace::rustc().args(["--print=target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir())
}
