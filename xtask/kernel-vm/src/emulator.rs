//! The emulator: the installed one, or one in the cache of kernels.
//!
//! QEMU is not installed on the machine: Debian's package conflicts with newer QEMU packages that a machine may
//! have, and removing those is the user's decision.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use wakelat_build::program_in_path;

use super::{deb_unpack, fetch::lock_cache};

/// Its name in `PATH`.
const PROGRAM: &str = "qemu-system-x86_64";

/// The Debian package that contains it.
const PACKAGE: &str = "qemu-system-x86";

/// An emulator that can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// The one in `PATH`.
    Installed,
    /// One with its files below this directory.
    Cached(PathBuf),
}

impl Emulator {
    /// Returns the installed emulator, else the one in the cache, and fetches it if necessary.
    ///
    /// # Errors
    /// Fails if there is none and Debian's packages do not provide one; the error has the remedy.
    pub fn find() -> anyhow::Result<Self> {
        if program_in_path(PROGRAM).is_some() {
            return Ok(Self::Installed);
        }
        let (cache, _lock) = lock_cache()?;
        let root = cache.join("qemu");
        if !Self::Cached(root.clone()).works() {
            eprintln!("vm: fetching {PACKAGE} (17 MB, kept in `{}`)", cache.display());
            let works = |root: &Path| Self::Cached(root.to_owned()).works();
            deb_unpack::fetch(&root, PACKAGE, "qemu-", works)
                .with_context(|| format!("no `{PROGRAM}`; install QEMU, on Debian `{PACKAGE}`"))?;
        }
        Ok(Self::Cached(root))
    }

    /// A command that runs the emulator, with only the arguments that it needs to find its own files.
    pub fn command(&self) -> Command {
        match self {
            Self::Installed => Command::new(PROGRAM),
            Self::Cached(root) => {
                let mut command = Command::new(root.join("usr/bin").join(PROGRAM));
                command.env("LD_LIBRARY_PATH", deb_unpack::libraries(root));
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
    fn a_cached_emulator_finds_its_own_files() {
        let command = Emulator::Cached("/cache/qemu".into()).command();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "/cache/qemu/usr/bin/qemu-system-x86_64");
        assert_eq!(words, ["-L", "/cache/qemu/usr/share/qemu", "-L", "/cache/qemu/usr/share/seabios"]);
        let libraries = "/cache/qemu/usr/lib/x86_64-linux-gnu:/cache/qemu/lib/x86_64-linux-gnu";
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment, [("LD_LIBRARY_PATH".as_ref(), Some(libraries.as_ref()))]);
    }
}
