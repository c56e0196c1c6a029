//! Compiles the BPF programs without wakelat.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::workspace;

/// Returns the command with which wakelat's build script compiles the programs. If the programs are already built, it only repeats
/// their warnings.
///
/// # Errors
/// Fails if there is no toolchain for BPF.
pub fn build_command() -> anyhow::Result<Command> {
    let target = bpf_toolchain::host_target();
    let mut cargo = bpf_toolchain::find(target)?.build(target, &target_directory()?, std::env::consts::ARCH);
    cargo.current_dir(workspace::root());
    Ok(cargo)
}

/// Compiles the empty programs and returns the path of their object.
///
/// # Errors
/// Fails if there is no toolchain for BPF, or the programs do not compile.
pub fn empty() -> anyhow::Result<PathBuf> {
    if !build_command()?.status().context("cannot run cargo")?.success() {
        bail!("wakelat-ebpf does not compile");
    }
    Ok(bpf_toolchain::Toolchain::object(bpf_toolchain::host_target(), &target_directory()?, "empty"))
}

fn target_directory() -> anyhow::Result<PathBuf> {
    let output = workspace::cargo().args(["metadata", "--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")?;
    Ok(metadata["target_directory"].as_str().context("cargo has no target directory")?.into())
}
