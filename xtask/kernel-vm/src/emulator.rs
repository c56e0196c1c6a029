//! The emulator: the installed one, or one in the cache of kernels.
//!
//! QEMU is not installed on the machine: Debian's package conflicts with newer QEMU packages that a machine may
//! have, and removing those is the user's decision.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use wakelat_build::{Architecture, program_in_path};

use super::{deb_unpack, fetch::lock_cache, machine_model::MachineModel};

/// An emulator that can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// The one in `PATH`.
    Installed(Architecture),
    /// One with its files below this directory.
    Cached(Architecture, PathBuf),
}

impl Emulator {
    /// Returns the installed emulator of an architecture, else the one in the cache, and fetches it if necessary.
    ///
    /// # Errors
    /// Fails if there is none and Debian's packages do not provide one; the error has the remedy.
    pub fn find(architecture: Architecture) -> anyhow::Result<Self> {
        let MachineModel { emulator, package, megabytes, .. } = MachineModel::of(architecture);
        if program_in_path(emulator).is_some() {
            return Ok(Self::Installed(architecture));
        }
        let (cache, _lock) = lock_cache()?;
        let cached = |root: &Path| Self::Cached(architecture, root.to_owned());
        // Without the package's prefix: `qemu-x86`, `qemu-arm`.
        let root = cache.join(package.replace("-system", ""));
        if !cached(&root).works() {
            eprintln!("vm: fetching {package} ({megabytes} MB, kept in `{}`)", cache.display());
            deb_unpack::fetch(&root, package, "qemu-", |root| cached(root).works())
                .with_context(|| format!("no `{emulator}`; install QEMU, on Debian `{package}`"))?;
        }
        Ok(cached(&root))
    }

    /// The architecture that it emulates.
    pub const fn architecture(&self) -> Architecture {
        match self {
            Self::Installed(architecture) | Self::Cached(architecture, _) => *architecture,
        }
    }

    /// A command that runs the emulator, with only the arguments that it needs to find its own files.
    pub fn command(&self) -> Command {
        let program = MachineModel::of(self.architecture()).emulator;
        match self {
            Self::Installed(_) => Command::new(program),
            Self::Cached(_, root) => {
                let mut command = Command::new(root.join("usr/bin").join(program));
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
        let command = Emulator::Cached(Architecture::X86_64, "/cache/qemu-x86".into()).command();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "/cache/qemu-x86/usr/bin/qemu-system-x86_64");
        assert_eq!(words, ["-L", "/cache/qemu-x86/usr/share/qemu", "-L", "/cache/qemu-x86/usr/share/seabios"]);
        let libraries = "/cache/qemu-x86/usr/lib/x86_64-linux-gnu:/cache/qemu-x86/lib/x86_64-linux-gnu";
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment, [("LD_LIBRARY_PATH".as_ref(), Some(libraries.as_ref()))]);
    }

    #[test]
    fn each_architecture_has_an_emulator_of_its_own() {
        let program = |architecture| Emulator::Installed(architecture).command().get_program().to_owned();
        assert_eq!(program(Architecture::X86_64), "qemu-system-x86_64");
        assert_eq!(program(Architecture::Aarch64), "qemu-system-aarch64");
    }
}
