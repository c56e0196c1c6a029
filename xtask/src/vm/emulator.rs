//! The emulator: the machine's own, or one kept beside the kernels.
//!
//! It is not installed: Debian's package cannot stand beside newer ones of QEMU's that a machine may have, and which of them
//! goes is not ours to decide.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use super::{fetch::lock_cache, unpacked};
use crate::privilege;

/// Its name on the search path.
const PROGRAM: &str = "qemu-system-x86_64";

/// The Debian package it is in.
const PACKAGE: &str = "qemu-system-x86";

/// An emulator that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// The one on the search path.
    Installed,
    /// One whose files are below this directory.
    Cached(PathBuf),
}

impl Emulator {
    /// The machine's own; else the one in the cache, fetched there if need be.
    ///
    /// # Errors
    /// Where there is none, and none can be had from Debian's packages: with the remedy.
    pub fn find() -> anyhow::Result<Self> {
        if privilege::program(PROGRAM).is_some() {
            return Ok(Self::Installed);
        }
        let (cache, _lock) = lock_cache()?;
        let root = cache.join("qemu");
        if !Self::Cached(root.clone()).works() {
            eprintln!("vm: fetching {PACKAGE} (17 MB, kept in `{}`)", cache.display());
            let works = |root: &Path| Self::Cached(root.to_owned()).works();
            unpacked::fetch(&root, PACKAGE, "qemu-", works)
                .with_context(|| format!("no `{PROGRAM}`; install QEMU, on Debian `{PACKAGE}`"))?;
        }
        Ok(Self::Cached(root))
    }

    /// A command that runs it, with nothing but what it needs to find its own files.
    pub fn command(&self) -> Command {
        match self {
            Self::Installed => Command::new(PROGRAM),
            Self::Cached(root) => {
                let mut command = Command::new(root.join("usr/bin").join(PROGRAM));
                command.env("LD_LIBRARY_PATH", unpacked::libraries(root));
                for data in ["usr/share/qemu", "usr/share/seabios"] {
                    command.arg("-L").arg(root.join(data));
                }
                command
            }
        }
    }

    fn works(&self) -> bool {
        self.command().arg("--version").output().is_ok_and(|output| output.status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_one_finds_its_own_files() {
        let command = Emulator::Cached("/cache/qemu".into()).command();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "/cache/qemu/usr/bin/qemu-system-x86_64");
        assert_eq!(words, ["-L", "/cache/qemu/usr/share/qemu", "-L", "/cache/qemu/usr/share/seabios"]);
        let libraries = "/cache/qemu/usr/lib/x86_64-linux-gnu:/cache/qemu/lib/x86_64-linux-gnu";
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment, [("LD_LIBRARY_PATH".as_ref(), Some(libraries.as_ref()))]);
    }
}
