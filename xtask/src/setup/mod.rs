//! `cargo xtask setup`: what building and testing need, installed where it is missing.

mod apply;
mod facts;
mod plan;

use std::process::ExitCode;

pub use plan::Purpose;

#[derive(clap::Args)]
pub struct SetupArgs {}

pub fn main(_: &SetupArgs) -> anyhow::Result<ExitCode> {
    if ensure(Purpose::Test)? == 0 {
        eprintln!("setup: everything is there");
    }
    Ok(ExitCode::SUCCESS)
}

/// Sees to it that everything for `purpose` is there, and says what it does on standard error, a line
/// each. Costs a fraction of a second where there is nothing to do. Gives the number of things done.
///
/// # Errors
/// If something the build cannot do without is missing and cannot be installed. What only tests use is
/// not worth an error: they say what they skip.
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

/// Installs those of the Debian packages `names` that are not there, for a command that needs them and was told to.
///
/// # Errors
/// If this is no Debian, or they cannot be installed.
pub fn install(names: &[&'static str]) -> anyhow::Result<()> {
    let missing = facts::missing_packages(names)?;
    if missing.is_empty() {
        Ok(())
    } else {
        apply::apply(&plan::SetupStep::Packages { names: missing, essential: true })
    }
}
