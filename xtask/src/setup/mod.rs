//! `cargo xtask setup`: installs what is missing to build and test.

mod apply;
mod facts;
mod packages;
mod plan;

use std::process::ExitCode;

use wakelat_build::Architecture;

pub use plan::Purpose;

#[derive(clap::Args)]
pub struct SetupArgs {}

pub fn main(_: &SetupArgs) -> anyhow::Result<ExitCode> {
    if ensure(Purpose::Test)? == 0 {
        eprintln!("setup: nothing is missing");
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs what is missing for `purpose`, and prints each step on a line of standard error. Takes a
/// fraction of a second if nothing is missing. Returns the number of steps.
///
/// # Errors
/// Fails if something that the build requires is missing and cannot be installed. Missing test tools are
/// not an error: the tests report what they skip.
pub fn ensure(purpose: Purpose) -> anyhow::Result<usize> {
    let facts = facts::detect();
    let steps = plan::plan(&facts, purpose)?;
    for step in &steps {
        if let Err(error) = apply::apply(step) {
            if step.is_essential() {
                return Err(error);
            }
            eprintln!("setup: {error:#}");
        }
    }
    Ok(steps.len())
}

/// Installs the Debian packages in `names` that are missing. Only for commands that the user asked to
/// install packages.
///
/// # Errors
/// Fails on distributions other than Debian, or if the packages cannot be installed.
pub fn install(names: &[&'static str]) -> anyhow::Result<()> {
    let missing = facts::missing_packages(names)?;
    if missing.is_empty() {
        Ok(())
    } else {
        apply::apply(&plan::SetupStep::Packages { names: missing, essential: true })
    }
}

/// Installs what is missing to build for an architecture, unless it is this machine's. Only for commands that the user
/// asked to install it.
///
/// # Errors
/// Fails on distributions other than Debian, or if something cannot be installed.
pub fn cross_compiler(architecture: Architecture) -> anyhow::Result<()> {
    if architecture.is_own() {
        return Ok(());
    }
    install(packages::cross_compiler(architecture))?;
    let targets: Vec<String> = facts::missing_target(architecture).into_iter().collect();
    if targets.is_empty() { Ok(()) } else { apply::apply(&plan::SetupStep::Targets(targets)) }
}
