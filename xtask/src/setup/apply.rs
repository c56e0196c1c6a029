//! Carries out one step of a plan and reports it.

use std::process::Command;

use anyhow::{Context as _, bail};
use wakelat_build::workspace;

use super::{
    packages::PROMETHEUS,
    plan::{BPF_LINKER, LLVM, SetupStep},
};

/// Carries out a step.
///
/// # Errors
/// Fails if a command fails; the error has its output.
pub fn apply(step: &SetupStep) -> anyhow::Result<()> {
    match step {
        SetupStep::Packages { names, .. } => packages(names),
        SetupStep::BpfLinker => bpf_linker(),
        SetupStep::Components(names) => {
            status(&format!("adding {} with rustup", names.join(" and ")));
            quietly(Command::new("rustup").args(["component", "add"]).args(names))
        }
        SetupStep::Targets(targets) => {
            status(&format!("adding the standard library for {} with rustup", targets.join(" and ")));
            // In the workspace, which may choose a toolchain.
            quietly(Command::new("rustup").args(["target", "add"]).args(targets).current_dir(workspace::root()))
        }
        SetupStep::Tracefs => {
            status("mounting tracefs on /sys/kernel/tracing");
            quietly(Command::new("mount").args(["-t", "tracefs", "nodev", "/sys/kernel/tracing"]))
        }
        SetupStep::Advise(text) => {
            status(text);
            Ok(())
        }
    }
}

fn packages(names: &[&str]) -> anyhow::Result<()> {
    let known = Command::new("apt-cache").arg("show").args(names).output().is_ok_and(|output| output.status.success());
    if !known {
        update()?;
    }
    status(&format!("installing {}", names.join(", ")));
    let install = || {
        let mut install = apt();
        // Recommended packages would add gigabytes. A package that the user installed must not be removed.
        install.args(["install", "--yes", "--no-install-recommends", "--no-remove"]).args(names);
        quietly(&mut install)
    };
    install().or_else(|error| {
        // An index that is a few weeks old lists files that the mirror has replaced.
        if known { update().and_then(|()| install()) } else { Err(error) }
    })?;
    if names.contains(&PROMETHEUS) {
        // With systemd or without, both work; a machine that starts no services at all has nothing to stop.
        _ = Command::new("service").args([PROMETHEUS, "stop"]).output();
        _ = Command::new("update-rc.d").args([PROMETHEUS, "disable"]).output();
    }
    Ok(())
}

fn update() -> anyhow::Result<()> {
    status("fetching the package index");
    quietly(apt().arg("update"))
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o", "DPkg::Lock::Timeout=300"]);
    apt
}

fn bpf_linker() -> anyhow::Result<()> {
    status(&format!("building bpf-linker {BPF_LINKER} against LLVM {LLVM} (a minute or two)"));
    let features = format!("llvm-{LLVM}");
    quietly(
        workspace::cargo()
            .env("LLVM_PREFIX", format!("/usr/lib/llvm-{LLVM}"))
            .args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked", "--no-default-features"])
            .args(["--features", &features]),
    )
}

fn status(text: &str) {
    eprintln!("setup: {text}");
}

/// Runs a command and shows its output only if it fails.
fn quietly(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        bail!("{command:?} failed ({}):\n{}", output.status, String::from_utf8_lossy(&printed).trim_end());
    }
    Ok(())
}
