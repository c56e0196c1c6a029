//! Unpacks a Debian package and its dependencies into a private directory.
//!
//! Nothing is installed: whether a package may replace another is the user's decision.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use super::apt::output;

/// The list of installed packages, one paragraph per package.
const INSTALLED: &str = "/var/lib/dpkg/status";

/// Unpacks `package`, and its dependencies that the machine lacks, below `root`, if `works` accepts the
/// result. Packages whose names begin with `anew` are fetched even if they are installed, because the
/// installed ones may have another version.
///
/// # Errors
/// Fails if the machine's sources do not provide the package, or it does not work.
pub fn fetch(root: &Path, package: &str, anew: &str, works: impl Fn(&Path) -> bool) -> anyhow::Result<()> {
    let staging = PathBuf::from(format!("{}-staging", root.display()));
    let archives = staging.join("archives");
    let unpacked = staging.join("root");
    let _ = fs::remove_dir_all(&staging);
    for dir in [archives.join("partial"), unpacked.clone()] {
        fs::create_dir_all(&dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    }
    let installed = fs::read_to_string(INSTALLED).with_context(|| format!("cannot read `{INSTALLED}`"))?;
    let status = staging.join("status");
    fs::write(&status, without(anew, &installed)).context("cannot write the list of packages")?;
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
        output(apt.args(["-qq", "install", "--yes", "--download-only", "--no-install-recommends", package]))
    };
    // An index that is missing, or a few weeks old, does not name the files that the mirror has.
    download().or_else(|_| output(Command::new("apt-get").args(["-qq", "update"])).and_then(|_| download()))?;
    for deb in fs::read_dir(&archives).context("apt fetched nothing")? {
        let deb = deb?.path();
        if deb.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;
        }
    }
    ensure!(works(&unpacked), "the one from `{package}` does not run");
    let _ = fs::remove_dir_all(root);
    fs::rename(&unpacked, root).with_context(|| format!("cannot move it to `{}`", root.display()))?;
    fs::remove_dir_all(&staging).with_context(|| format!("cannot remove `{}`", staging.display()))
}

/// The library directories, for the loader. Debian's libraries are in both while its packages move from one
/// to the other.
pub fn libraries(root: &Path) -> String {
    let path = |dir: &str| root.join(dir).display().to_string();
    [path("usr/lib/x86_64-linux-gnu"), path("lib/x86_64-linux-gnu")].join(":")
}

/// The list of installed packages, without those whose names begin with `prefix`.
fn without(prefix: &str, status: &str) -> String {
    let package = format!("Package: {prefix}");
    status.split_inclusive("\n\n").filter(|paragraph| !paragraph.starts_with(&package)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_to_fetch_anew_is_not_listed_as_installed() {
        let status = "Package: qemu-utils\nStatus: install ok installed\n\nPackage: zlib1g\nBreaks: qemu-utils\n\nPackage: qemu-block-extra\n";
        assert_eq!(without("qemu-", status), "Package: zlib1g\nBreaks: qemu-utils\n\n");
    }
}
