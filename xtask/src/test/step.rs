//! Runs one step and records its outcome.

use std::io::{self, Read as _, Write};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::harness::{Harness, SuiteDuration, TestCounts};

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// The step's name.
    pub name: &'static str,
    /// The results of its tests; a check that passes or fails as a whole counts as one test.
    pub counts: TestCounts,
    /// The durations of its suites, if it has any.
    pub suites: Vec<SuiteDuration>,
    /// How long the step took.
    pub elapsed: Duration,
}

impl StepOutcome {
    /// A step that could not run, for the reason `why`.
    pub fn failure(name: &'static str, why: String) -> Self {
        let counts = TestCounts { failed: vec![why], ..TestCounts::default() };
        Self { name, counts, suites: vec![], elapsed: Duration::ZERO }
    }
}

/// Runs a check that passes or fails as a whole. Its output is passed on.
pub fn check(name: &'static str, mut command: Command) -> anyhow::Result<StepOutcome> {
    announce(name);
    let started = Instant::now();
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    let counts = if status.success() {
        TestCounts { passed: 1, ..TestCounts::default() }
    } else {
        TestCounts { failed: vec![ended(&command, status)], ..TestCounts::default() }
    };
    Ok(StepOutcome { name, counts, suites: vec![], elapsed: started.elapsed() })
}

/// Runs a check that passes only if it writes nothing to standard error, such as a compiler that must not
/// even warn. What it writes there is passed on.
pub fn silent_check(name: &'static str, mut command: Command) -> anyhow::Result<StepOutcome> {
    announce(name);
    let started = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    print!("{stderr}");
    let counts = match (output.status.success(), stderr.is_empty()) {
        (true, true) => TestCounts { passed: 1, ..TestCounts::default() },
        (true, false) => TestCounts { failed: vec![format!("{} warned", typed(&command))], ..TestCounts::default() },
        (false, _) => TestCounts { failed: vec![ended(&command, output.status)], ..TestCounts::default() },
    };
    Ok(StepOutcome { name, counts, suites: vec![], elapsed: started.elapsed() })
}

/// Runs test binaries, copies their output to `out` as it arrives and counts the results.
pub fn tests(name: &'static str, mut command: Command, out: &mut impl Write) -> anyhow::Result<StepOutcome> {
    announce(name);
    let started = Instant::now();
    // One pipe for both streams, so that cargo's line about a binary stays in front of the binary's output.
    let (mut reader, writer) = io::pipe().context("no pipe")?;
    command.stdout(writer.try_clone().context("no pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let shown = typed(&command);
    // The command holds our writing ends of the pipe; without the drop, reading would never end.
    drop(command);
    let mut harness = Harness::default();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut piece).context("cannot read the tests' output")? {
            0 => break,
            length => {
                harness.read(&piece[..length]);
                out.write_all(&piece[..length]).and_then(|()| out.flush()).context("cannot write")?;
            }
        }
    }
    let status = child.wait().context("cannot wait for the tests")?;
    let suites = harness.take_suites();
    let mut counts = harness.finish();
    // It did not compile, or died before it printed a result.
    if !status.success() && counts.failed.is_empty() {
        counts.failed.push(format!("{shown} ended with {status}"));
    }
    Ok(StepOutcome { name, counts, suites, elapsed: started.elapsed() })
}

/// Prints the title of a step.
pub fn announce(name: &str) {
    println!("\n=== {name}");
}

fn ended(command: &Command, status: ExitStatus) -> String {
    format!("{} ended with {status}", typed(command))
}

/// The command as a user would type it, without its environment: `cargo fmt --all`.
fn typed(command: &Command) -> String {
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    format!("`cargo {}`", args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn standard_output_and_standard_error_are_counted() {
        let script = "echo 'SKIP a: no perf' >&2; echo 'test result: ok. 1 passed; 0 failed; 1 ignored'";
        let mut out = vec![];
        let counts = tests("tests", shell(script), &mut out).unwrap().counts;
        assert!(out.starts_with(b"SKIP a: no perf\ntest result"));
        assert_eq!((counts.passed, counts.skipped.len(), counts.failed.len()), (1, 1, 0));
    }

    #[test]
    fn a_test_binary_that_dies_before_its_result_has_failed() {
        assert_eq!(tests("tests", shell("kill -SEGV $$"), &mut io::sink()).unwrap().counts.failed.len(), 1);
    }

    #[test]
    fn a_check_counts_as_one() {
        assert_eq!(check("format", shell("true")).unwrap().counts.passed, 1);
        assert_eq!(check("format", shell("exit 3")).unwrap().counts.failed.len(), 1);
    }

    #[test]
    fn a_warning_fails_a_check_that_must_be_silent() {
        let failed = |script| silent_check("programs", shell(script)).unwrap().counts.failed.len();
        assert_eq!((failed("true"), failed("echo warning: unused >&2"), failed("exit 101")), (0, 1, 1));
    }
}
