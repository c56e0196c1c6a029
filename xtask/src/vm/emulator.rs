//! The emulator: the machine's own, or one kept beside the kernels.
//!
//! It is not installed: Debian's package cannot stand beside newer ones of QEMU's that a machine may have, and which of them
//! goes is not ours to decide.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use super::{apt::output, fetch::lock_cache};
use crate::privilege;

/// Its name on the search path.
const PROGRAM: &str = "qemu-system-x86_64";

/// The Debian package it is in.
const PACKAGE: &str = "qemu-system-x86";

/// Where apt keeps what is installed, a paragraph a package.
const INSTALLED: &str = "/var/lib/dpkg/status";

/// An emulator that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// The one on the search path.
    Installed,
    /// One whose files are below this directory.
    Kept(PathBuf),
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
        if !Self::Kept(root.clone()).works() {
            fetch(&cache, &root).with_context(|| format!("no `{PROGRAM}`; install QEMU, on Debian `{PACKAGE}`"))?;
        }
        Ok(Self::Kept(root))
    }

    /// A command that runs it, with nothing but what it needs to find its own files.
    pub fn command(&self) -> Command {
        match self {
            Self::Installed => Command::new(PROGRAM),
            Self::Kept(root) => {
                let mut command = Command::new(root.join("usr/bin").join(PROGRAM));
                command.env("LD_LIBRARY_PATH", libraries(root));
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

/// Debian's libraries lie in both while its packages move from one to the other.
fn libraries(root: &Path) -> String {
    let path = |dir: &str| root.join(dir).display().to_string();
    [path("usr/lib/x86_64-linux-gnu"), path("lib/x86_64-linux-gnu")].join(":")
}

/// Unpacks the emulator, and those libraries of it that the machine lacks, below `root`.
fn fetch(cache: &Path, root: &Path) -> anyhow::Result<()> {
    eprintln!("vm: fetching {PACKAGE} (17 MB, kept in `{}`)", cache.display());
    let staging = cache.join("qemu-staging");
    let archives = staging.join("archives");
    let unpacked = staging.join("root");
    let _ = fs::remove_dir_all(&staging);
    for dir in [archives.join("partial"), unpacked.clone()] {
        fs::create_dir_all(&dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    }
    let installed = fs::read_to_string(INSTALLED).with_context(|| format!("cannot read `{INSTALLED}`"))?;
    let status = staging.join("status");
    fs::write(&status, without_qemu(&installed)).context("cannot write the list of packages")?;
    let download = || {
        let mut apt = Command::new("apt-get");
        for option in [
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache::archives={}", archives.display()),
            "Debug::NoLocking=1".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            apt.arg("-o").arg(option);
        }
        output(apt.args(["-qq", "install", "--yes", "--download-only", "--no-install-recommends", PACKAGE]))
    };
    // An index that is missing, or some weeks old, does not name the files that the mirror holds.
    download().or_else(|_| output(Command::new("apt-get").args(["-qq", "update"])).and_then(|_| download()))?;
    for deb in fs::read_dir(&archives).context("apt fetched nothing")? {
        let deb = deb?.path();
        if deb.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;
        }
    }
    ensure!(Emulator::Kept(unpacked.clone()).works(), "the one from `{PACKAGE}` does not run");
    let _ = fs::remove_dir_all(root);
    fs::rename(&unpacked, root).with_context(|| format!("cannot move it to `{}`", root.display()))?;
    fs::remove_dir_all(&staging).with_context(|| format!("cannot remove `{}`", staging.display()))
}

/// What is installed, but for QEMU's own packages, which may be of another version than the one that is fetched.
fn without_qemu(status: &str) -> String {
    status.split_inclusive("\n\n").filter(|paragraph| !paragraph.starts_with("Package: qemu-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_of_another_version_does_not_stand_in_the_way() {
        let status = "Package: qemu-utils\nStatus: install ok installed\n\nPackage: zlib1g\nBreaks: qemu-utils\n\nPackage: qemu-block-extra\n";
        assert_eq!(without_qemu(status), "Package: zlib1g\nBreaks: qemu-utils\n\n");
    }

    #[test]
    fn a_kept_one_finds_its_own_files() {
        let command = Emulator::Kept("/cache/qemu".into()).command();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "/cache/qemu/usr/bin/qemu-system-x86_64");
        assert_eq!(words, ["-L", "/cache/qemu/usr/share/qemu", "-L", "/cache/qemu/usr/share/seabios"]);
        let libraries = "/cache/qemu/usr/lib/x86_64-linux-gnu:/cache/qemu/lib/x86_64-linux-gnu";
        let environment: Vec<_> = command.get_envs().collect();
        assert_eq!(environment, [("LD_LIBRARY_PATH".as_ref(), Some(libraries.as_ref()))]);
    }
}
