//! The state of the machine that a plan depends on.

use std::fs;
use std::path::Path;
use std::process::Command;

use bpf_toolchain::MissingTools;
use wakelat_build::{Architecture, has_standard_library, program_in_path, workspace};

use super::packages;
use crate::privilege;

/// The state of the machine that setup depends on.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// Whether this process runs as root.
    pub root: bool,
    /// Whether this is Debian itself; other distributions lack the packages.
    pub debian: bool,
    /// Whether rustup manages the Rust toolchain.
    pub rustup: bool,
    /// Whether tracefs is mounted.
    pub tracefs: bool,
    /// The tools that are missing to compile for BPF, if any.
    pub missing: Option<MissingTools>,
    /// The toolchain components that the checks need and that are missing, by their rustup names.
    pub components: Vec<&'static str>,
    /// The targets of Rust that this compiler has no standard library for, of the architectures that tests and
    /// releases are built for.
    pub targets: Vec<String>,
    /// The packages of [`packages::all`] that are installed.
    pub installed: Vec<String>,
}

impl MachineFacts {
    /// The packages in `names` that are not installed.
    pub fn not_installed(&self, names: &[&'static str]) -> Vec<&'static str> {
        names.iter().copied().filter(|name| !self.installed.iter().any(|installed| installed == name)).collect()
    }
}

/// Inspects the machine; runs a few short commands.
pub fn detect() -> MachineFacts {
    let debian = fs::read_to_string("/etc/os-release").is_ok_and(|release| is_debian(&release));
    MachineFacts {
        root: privilege::is_root(),
        debian,
        rustup: program_in_path("rustup").is_some(),
        tracefs: Path::new("/sys/kernel/tracing/events").exists(),
        missing: bpf_toolchain::find(bpf_toolchain::host_target()).err(),
        components: missing_components(&workspace::cargo_path()),
        targets: Architecture::foreign().filter_map(missing_target).collect(),
        installed: if debian { installed(packages::all()) } else { vec![] },
    }
}

/// The target of `architecture`, if this compiler has no standard library for it.
pub fn missing_target(architecture: Architecture) -> Option<String> {
    Some(architecture.target()).filter(|target| !has_standard_library(target))
}

fn is_debian(os_release: &str) -> bool {
    os_release.lines().any(|line| line == "ID=debian" || line == "ID=\"debian\"")
}

/// The packages in `names` that are not installed.
///
/// # Errors
/// Fails on distributions other than Debian.
pub fn missing_packages(names: &[&'static str]) -> anyhow::Result<Vec<&'static str>> {
    let MachineFacts { debian, .. } = detect();
    anyhow::ensure!(debian, "only Debian's packages can be installed; elsewhere install {}", names.join(", "));
    let installed = installed(names.iter().copied());
    Ok(names.iter().copied().filter(|name| !installed.iter().any(|installed| installed == name)).collect())
}

fn installed(names: impl Iterator<Item = &'static str>) -> Vec<String> {
    // dpkg-query fails if a package is unknown, but still lists the others.
    let output = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status} ${Package}\n"]).args(names).output();
    output.map_or_else(|_| vec![], |output| parse_installed(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines of status and package.
fn parse_installed(lines: &str) -> Vec<String> {
    lines.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect()
}

/// The components, by their rustup names, whose programs are not in cargo's directory.
fn missing_components(cargo: &Path) -> Vec<&'static str> {
    // A cargo without a directory is found in `PATH`. Its components are there too, or cargo will report
    // them as missing.
    let Some(bin) = cargo.parent().filter(|bin| bin.is_dir()) else { return vec![] };
    [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")]
        .into_iter()
        .filter(|(program, _)| !bin.join(program).exists())
        .map(|(_, component)| component)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_of_debian_are_not_debian() {
        assert!(is_debian("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"));
        assert!(!is_debian("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n"));
    }

    #[test]
    fn a_package_that_was_removed_is_not_installed() {
        let lines = "installed linux-perf\nconfig-files libbpf-tools\nnot-installed g++\n";
        assert_eq!(parse_installed(lines), ["linux-perf"]);
    }
}
