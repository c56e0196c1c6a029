//! `cargo xtask test`: the checks that a change must pass before it is merged, locally and in CI.

mod background_build;
mod guests;
pub mod harness;
mod step;
mod summary;

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::bail;
use wakelat_build::{Architecture, bpf_programs, static_build, workspace};

use background_build::BackgroundBuild;
use harness::TestCounts;
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
    let mut released = None;
    if args.filter.is_none() {
        // One crate, and so one CPU, for more than a minute: clippy has other crates for the other CPUs.
        let programs = BackgroundBuild::begin(bpf_programs::build_command()?)?;
        summary.add(step::check("format", cargo(&["fmt", "--all", "--check"]))?);
        summary.add(step::check("clippy", clippy("--all-targets"))?);
        // Not a target of `--all-targets`, because cargo runs it only if it is named.
        summary.add(step::check("clippy: kernel", clippy("--test=kernel"))?);
        summary.add(step::check("documentation", documentation())?);
        drop(programs);
        summary.add(step::silent_check("programs", bpf_programs::build_command()?)?);
        // Uses the CPUs that the end of a build and single tests leave idle.
        let own = Architecture::own().ok();
        released = own.map(static_build::released_command).map(BackgroundBuild::begin).transpose()?;
    }
    summary.add(step::tests("tests", unit_tests(args), &mut io::stdout())?);
    match released_binary(released) {
        Ok((step, built)) => {
            // With a filter, the summary is empty if no test's name contains it.
            if args.filter.is_none() {
                summary.add(step);
            }
            summary.add(kernel_tests(args, &built.binary)?);
        }
        Err(error) => summary.add(StepOutcome::failure(RELEASED, format!("{error:#}"))),
    }
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

fn cargo(args: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(args);
    cargo
}

fn clippy(targets: &str) -> Command {
    cargo(&["clippy", "--workspace", targets, "--", "-Dwarnings"])
}

fn documentation() -> Command {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    doc
}

/// The tests that need no kernel. All of them run, even after a failure.
fn unit_tests(args: &TestArgs) -> Command {
    let mut tests = static_build::unit_tests();
    // The output of a skipped test has the reason.
    tests.args(["--no-fail-fast", "--", "--show-output"]).args(&args.filter);
    tests
}

const RELEASED: &str = "release build";

/// Builds the binary that users and guests run, after the end of the build in the background: nothing may run beside the
/// kernel tests.
fn released_binary(background: Option<BackgroundBuild>) -> anyhow::Result<(StepOutcome, static_build::BuildOutput)> {
    step::announce(RELEASED);
    let started = Instant::now();
    drop(background);
    let built = static_build::released(Architecture::own()?)?;
    let counts = TestCounts { passed: 1, ..TestCounts::default() };
    Ok((StepOutcome { name: RELEASED, counts, suites: vec![], elapsed: started.elapsed() }, built))
}

/// Runs the kernel tests on this kernel, with the released `binary`.
fn kernel_tests(args: &TestArgs, binary: &Path) -> anyhow::Result<StepOutcome> {
    // The guests run the same test program, so that it is built only once.
    let mut tests = static_build::kernel_tests()?;
    tests.env("WAKELAT", binary);
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
    step::tests("kernel tests", tests, &mut io::stdout())
}

/// Whether `sudo` works without asking for a password. If not, the tests that need root are skipped, with
/// that reason.
fn can_become_root() -> bool {
    let Some(sudo) = privilege::sudo() else { return false };
    Command::new(sudo).args(["--non-interactive", "true"]).output().is_ok_and(|output| output.status.success())
}
