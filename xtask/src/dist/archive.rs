//! A release as a tarball and as a Debian package. Equal sources make equal archives: files belong to root, and have
//! the time of the last commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use wakelat_build::workspace;

use super::tree::{CONFIGURATION, InstallPlace, ReleaseFiles, install_configuration, run};
use super::write_file;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes `wakelat-VERSION-ARCHITECTURE-linux.tar.gz`: one directory with `bin`, `etc`, `lib` and `share`.
pub fn tarball(release: &ReleaseFiles<'_>, dist: &Path) -> anyhow::Result<PathBuf> {
    let name = format!("wakelat-{VERSION}-{}-linux", release.architecture.name());
    let stage = Stage::new("tarball")?;
    release.install(&stage.0.join(&name), InstallPlace::Local)?;
    install_configuration(&stage.0.join(&name).join("etc"))?;
    let archive = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]).arg(format!("--mtime=@{}", source_date()?));
    // A pipe has no name and no time that gzip could note.
    run(tar
        .args(["--use-compress-program=gzip -9n", "--create", "--file"])
        .arg(&archive)
        .arg("--directory")
        .args([stage.0.as_os_str(), name.as_ref()]))?;
    Ok(archive)
}

/// Writes `wakelat_VERSION_ARCHITECTURE.deb`, which depends on nothing: the program is static.
pub fn debian_package(release: &ReleaseFiles<'_>, dist: &Path) -> anyhow::Result<PathBuf> {
    let architecture = release.architecture.debian();
    let stage = Stage::new("deb")?;
    let usr = stage.0.join("usr");
    release.install(&usr, InstallPlace::System)?;
    install_configuration(&stage.0.join("etc"))?;
    // dpkg keeps what the administrator has changed.
    write_file(&stage.0.join("DEBIAN/conffiles"), format!("/etc/{CONFIGURATION}\n").as_bytes())?;
    write_file(&usr.join("share/doc/wakelat/copyright"), COPYRIGHT.as_bytes())?;
    let control = control(architecture, kibibytes(&usr)?);
    write_file(&stage.0.join("DEBIAN/control"), control.as_bytes())?;
    let package = dist.join(format!("wakelat_{VERSION}_{architecture}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).args([stage.0.as_path(), &package]);
    run(dpkg.env("SOURCE_DATE_EPOCH", source_date()?).stdout(std::process::Stdio::null()))?;
    Ok(package)
}

/// The package's `control` file; `installed` is its size in KiB.
fn control(architecture: &str, installed: u64) -> String {
    format!(
        "Package: wakelat\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: the wakelat authors\n\
         Section: utils\n\
         Priority: optional\n\
         Installed-Size: {installed}\n\
         Description: how long Linux tasks wait for a CPU, and why\n \
         wakelat measures the time from a task's wakeup, creation or preemption until\n \
         it runs, with BPF programs on the scheduler's tracepoints or by the run\n \
         queue's own clock. It explains waits by the tasks and interrupts responsible,\n \
         and accounts for every wakeup. It needs Linux 5.10 or later.\n"
    )
}

/// `debian/copyright` in the machine-readable format 1.0.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: wakelat

Files: *
Copyright: the wakelat authors
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE in this directory.

Files: wakelat-ebpf/*
Copyright: the wakelat authors
License: GPL-2.0-only or MIT or Apache-2.0
 The BPF programs are also under the GPL, because the kernel reserves some of
 its functions for such programs. The texts are in LICENSE-GPL, LICENSE-MIT and
 LICENSE-APACHE.
";

/// The size of all files below `directory`, in KiB.
fn kibibytes(directory: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { kibibytes(&entry.path())? } else { metadata.len().div_ceil(1024) };
    }
    Ok(sum)
}

/// The time that all files get, in s since the epoch: `SOURCE_DATE_EPOCH` if it is set, else that of the last commit,
/// else 0, in a source tree without history.
fn source_date() -> anyhow::Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let git = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace::root()).output();
    let time = git.ok().filter(|output| output.status.success()).map(|output| String::from_utf8(output.stdout));
    Ok(time.transpose().context("git printed no time")?.map_or_else(|| "0".to_owned(), |time| time.trim().to_owned()))
}

/// A directory that is removed at the end.
struct Stage(PathBuf);

impl Stage {
    fn new(name: &str) -> anyhow::Result<Self> {
        let stage = workspace::root().join("target/dist-stage").join(name);
        _ = fs::remove_dir_all(&stage);
        fs::create_dir_all(&stage).with_context(|| format!("cannot make `{}`", stage.display()))?;
        Ok(Self(stage))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_has_no_line_that_dpkg_would_take_for_a_field() {
        let control = control("amd64", 14_000);
        let (fields, description) = control.split_once("Description: ").expect("a description");
        assert!(fields.lines().all(|line| line.split_once(": ").is_some_and(|(_, value)| !value.is_empty())));
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ') && line.len() <= 80), "{description}");
    }
}
