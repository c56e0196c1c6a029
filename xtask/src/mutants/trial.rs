//! Runs suites in the scratch tree.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use wakelat_build::workspace;

use super::patch::{MutantSuite, SuiteLocation};
use super::tree::{Tree, directory};
use crate::test::harness::{Harness, TestCounts};

/// The outcome of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// It did not compile.
    NotBuilt,
    /// It ran, with these results.
    Ran(TestCounts),
}

/// Runs `suite` in `tree`, with its output in a log that is named after `mutant`.
pub fn run(tree: &Tree, mutant: &str, suite: &MutantSuite) -> anyhow::Result<TrialOutcome> {
    let log = directory().join(format!("{mutant}.{}.log", suite.word().replace(['/', ':'], "-")));
    let mut build = cargo(tree, "test");
    match &suite.location {
        SuiteLocation::Package(package) => build.args(["--package", package, unit_tests(tree, package)]),
        SuiteLocation::Command(file) => build.args(["--package=wakelat", "--test", file]),
        SuiteLocation::Kernel(_) => {
            // The binary that the tests run. It needs a build of its own, because tests of another package
            // do not depend on it.
            if !logged(cargo(tree, "build").args(["--package=wakelat"]), &log)?.0 {
                return Ok(TrialOutcome::NotBuilt);
            }
            build.args(["--package=wakelat-tests", "--test=kernel"])
        }
    };
    if !logged(build.arg("--no-run"), &log)?.0 {
        return Ok(TrialOutcome::NotBuilt);
    }
    let mut tests = cargo(tree, "test");
    match &suite.location {
        SuiteLocation::Package(package) => tests.args(["--package", package, unit_tests(tree, package), "--"]),
        SuiteLocation::Command(file) => tests.args(["--package=wakelat", "--test", file, "--"]),
        SuiteLocation::Kernel(file) => {
            tests.args(["--package=wakelat-tests", "--test=kernel", "--", "--suite", file]).env("WAKELAT", binary())
        }
    };
    let (succeeded, text) = logged(tests.arg(&suite.filter), &log)?;
    let mut harness = Harness::default();
    harness.read(&text);
    let mut counts = harness.finish();
    if !succeeded && counts.failed.is_empty() {
        counts.failed.push("the test program died".to_owned());
    }
    Ok(TrialOutcome::Ran(counts))
}

/// The cargo flag that selects the unit tests of `package`.
fn unit_tests(tree: &Tree, package: &str) -> &'static str {
    if tree.path().join(package).join("src/lib.rs").is_file() { "--lib" } else { "--bins" }
}

/// Runs a command with its output in `log`. Returns whether it succeeded, and the output.
fn logged(command: &mut Command, log: &Path) -> anyhow::Result<(bool, Vec<u8>)> {
    let file = File::create(log).with_context(|| format!("cannot write `{}`", log.display()))?;
    command.stdout(file.try_clone().context("no file descriptor left")?).stderr(file);
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    Ok((status.success(), fs::read(log).with_context(|| format!("cannot read `{}`", log.display()))?))
}

/// A cargo command in the tree. All mutants share one target directory, so that each builds no more than it
/// changes.
fn cargo(tree: &Tree, verb: &str) -> Command {
    let mut cargo = Command::new(workspace::cargo_path());
    cargo.arg(verb).current_dir(tree.path()).env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_DEV_DEBUG", "0");
    // The manifest directory of the running xtask belongs to another tree.
    cargo.env_remove("CARGO_MANIFEST_DIR").env("CARGO_PROFILE_TEST_DEBUG", "0");
    cargo
}

fn target() -> PathBuf {
    directory().join("target")
}

fn binary() -> PathBuf {
    target().join("debug/wakelat")
}
