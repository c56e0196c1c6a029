//! `cargo xtask test`: the checks that a change must pass before it is merged, locally and in CI.

mod guests;
pub mod harness;
mod step;
mod summary;

use std::io;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use wakelat_build::{Architecture, bpf_programs, static_build, workspace};

use step::StepOutcome;
use summary::TestSummary;

use crate::setup::Purpose;
use crate::{privilege, setup};

#[derive(clap::Args)]
pub struct TestArgs {
    /// Run only tests whose name contains this, and none of the other checks
    filter: Option<String>,
    /// Run every kernel in every mode, not only the everyday selection, and the sustained load for a minute
    #[arg(long, conflicts_with = "filter")]
    full: bool,
}

pub fn main(args: &TestArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Test)?;
    let mut summary = TestSummary::default();
    if args.filter.is_none() {
        let mut early_build = early_build_of_programs()?;
        summary.add(step::check("format", cargo(&["fmt", "--all", "--check"]))?);
        summary.add(step::check("clippy", clippy())?);
        summary.add(step::check("documentation", documentation())?);
        early_build.wait().context("cannot wait for cargo")?;
        summary.add(step::silent_check("programs", bpf_programs::build_command()?)?);
    }
    summary.add(step::tests("tests", tests(args), &mut io::stdout())?);
    summary.add(kernel_tests(args)?);
    if args.filter.is_none() {
        // Finds in a second what the guests would take minutes to find.
        summary.add(step::check("relocations", cargo(&["xtask", "core-check"]))?);
        summary.add(guests::step(args.full));
    }
    summary.write(&mut io::stdout().lock())?;
    if let (Some(filter), true) = (&args.filter, summary.is_empty()) {
        bail!("no test's name contains `{filter}`");
    }
    Ok(if summary.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Begins to build the BPF programs: one crate, and so one CPU, for more than a minute, while clippy has other crates for
/// the other CPUs. What is wrong with them is reported by the steps that need them.
fn early_build_of_programs() -> anyhow::Result<Child> {
    let mut build = bpf_programs::build_command()?;
    build.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot run cargo")
}

fn cargo(args: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(args);
    cargo
}

fn clippy() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"])
}

fn documentation() -> Command {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    doc
}

/// The tests that need no kernel. All of them run, even after a failure.
fn tests(args: &TestArgs) -> Command {
    let mut tests = cargo(&["test", "--workspace", "--exclude=wakelat-tests", "--no-fail-fast", "--"]);
    // The output of a skipped test has the reason.
    tests.arg("--show-output").args(&args.filter);
    tests
}

/// Runs the tests of the crate `tests` on this kernel, with the binary that users and guests run.
fn kernel_tests(args: &TestArgs) -> anyhow::Result<StepOutcome> {
    const NAME: &str = "kernel tests";
    let built = match Architecture::own().and_then(static_build::released) {
        Ok(built) => built,
        Err(error) => return Ok(StepOutcome::failure(NAME, format!("{error:#}"))),
    };
    // The guests run the same test program, so that it is built only once.
    let mut tests = static_build::kernel_tests()?;
    tests.arg("--no-fail-fast").env("WAKELAT", built.binary);
    if args.full {
        // For `sustained`.
        tests.env("WAKELAT_SOAK", "60");
    }
    if !privilege::is_root() && can_become_root() {
        let preserved = "--preserve-env=WAKELAT,WAKELAT_SOAK";
        tests.args(["--config", &format!("target.'cfg(all())'.runner = ['sudo', '--non-interactive', '{preserved}']")]);
    }
    // One at a time: they measure the whole machine, so parallel tests would measure each other.
    tests.args(["--", "--show-output", "--test-threads=1"]).args(&args.filter);
    step::tests(NAME, tests, &mut io::stdout())
}

/// Whether `sudo` works without asking for a password. If not, the tests that need root are skipped, with
/// that reason.
fn can_become_root() -> bool {
    let Some(sudo) = privilege::sudo() else { return false };
    Command::new(sudo).args(["--non-interactive", "true"]).output().is_ok_and(|output| output.status.success())
}
