//! Parses the output of test binaries: libtest's format, which libtest-mimic shares.
//!
//! A test that cannot run here prints `SKIP <its name>: <reason>`, and libtest-mimic counts it as ignored;
//! this module counts it as skipped, with that reason. A kernel test that panics prints `FAIL <its name>: <message>`.

use std::{collections::BTreeMap, time::Duration};

/// The results of one or more test binaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    /// Tests that ran and passed.
    pub passed: usize,
    /// The tests that failed, with the start of the panic's message where the test printed it: `name: message`.
    pub failed: Vec<String>,
    /// Tests that did not run, with the reasons.
    pub skipped: Vec<SkippedTest>,
}

/// The name of a suite, and the duration that it reports.
pub type SuiteDuration = (String, Duration);

/// A test that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedTest {
    /// The test's name.
    pub test: String,
    /// Why it did not run.
    pub reason: String,
}

/// Parses the output of test binaries, in chunks of any size.
#[derive(Debug, Default)]
pub struct Harness {
    counts: TestCounts,
    /// The suite that cargo announced last.
    suite: String,
    suites: Vec<SuiteDuration>,
    /// The start of a line that is not complete.
    partial: Vec<u8>,
    /// Skips, ignored tests and failures of the current binary so far.
    skips: Vec<SkippedTest>,
    ignored: Vec<SkippedTest>,
    failures: Vec<String>,
    in_failures: bool,
    /// Why tests of the current binary panicked, by name.
    messages: BTreeMap<String, String>,
}

impl Harness {
    /// Parses the next chunk.
    pub fn read(&mut self, piece: &[u8]) {
        self.partial.extend_from_slice(piece);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end());
        }
    }

    /// Takes the durations of the binaries that have printed their results.
    pub fn take_suites(&mut self) -> Vec<SuiteDuration> {
        std::mem::take(&mut self.suites)
    }

    /// Returns the totals. A binary that died before it printed a result adds nothing; its exit code
    /// reports the failure.
    pub fn finish(mut self) -> TestCounts {
        self.read(b"\n");
        self.counts
    }

    fn line(&mut self, line: &str) {
        if let Some(skip) = skip(line) {
            // --show-output repeats what libtest did not capture.
            if !self.skips.contains(&skip) {
                self.skips.push(skip);
            }
        } else if let Some((test, message)) = line.strip_prefix("FAIL ").and_then(|line| line.split_once(": ")) {
            self.messages.insert(test.to_owned(), message.to_owned());
        } else if let Some(ignored) = ignored(line) {
            self.ignored.push(ignored);
        } else if let Some(suite) = suite(line) {
            self.suite = suite;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.suites.extend(took(result).map(|took| (std::mem::take(&mut self.suite), took)));
            self.result(result);
        } else if line == "failures:" {
            // This section appears twice: first with the output of each test, then as a list of names.
            self.in_failures = true;
            self.failures.clear();
        } else if let (true, Some(name)) = (self.in_failures, line.strip_prefix("    ")) {
            self.failures.push(name.to_owned());
        }
    }

    /// Counts the totals of a result line:
    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`
    fn result(&mut self, result: &str) {
        let number = |label: &str| {
            result.split([';', '.']).find_map(|part| part.trim().strip_suffix(label)?.parse().ok()).unwrap_or(0)
        };
        let (passed, failed) = (number(" passed"), number(" failed"));
        let mut skips = std::mem::take(&mut self.skips);
        let mut only_ignored = std::mem::take(&mut self.ignored);
        only_ignored.retain(|test| !skips.iter().any(|skip| skip.test == test.test));
        skips.append(&mut only_ignored);
        self.counts.passed += passed;
        self.counts.skipped.append(&mut skips);
        let mut failures = std::mem::take(&mut self.failures);
        failures.truncate(failed);
        failures.resize_with(failed, || "a test without a name".to_owned());
        let messages = std::mem::take(&mut self.messages);
        self.counts.failed.extend(failures.into_iter().map(|test| match messages.get(&test) {
            Some(message) => format!("{test}: {message}"),
            None => test,
        }));
        self.in_failures = false;
    }
}

/// The suite that a line of cargo announces: `Running tests/compare.rs (target/…)`,
/// `Running unittests src/lib.rs (target/debug/deps/wakelat-1a)` or `Doc-tests wakelat`; or, of the kernel tests, a line of
/// their program: `suite counts`.
fn suite(line: &str) -> Option<String> {
    if let Some(suite) = line.strip_prefix("suite ") {
        return Some(suite.to_owned());
    }
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (documentation)"));
    }
    let (_, binary) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = binary.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned())
}

/// The duration at the end of a result line: `finished in 0.01s`.
fn took(result: &str) -> Option<Duration> {
    let seconds = result.rsplit_once("finished in ")?.1.trim().strip_suffix('s')?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// Parses `SKIP name: reason`, at the start of a line or after `test name ... `, which is still incomplete
/// if the harness captures nothing.
fn skip(line: &str) -> Option<SkippedTest> {
    let rest = line.strip_prefix("SKIP ").or_else(|| {
        let (before, rest) = line.split_once(" ... SKIP ")?;
        before.starts_with("test ").then_some(rest)
    })?;
    let (test, reason) = rest.split_once(": ")?;
    Some(SkippedTest { test: test.to_owned(), reason: reason.to_owned() })
}

/// Parses `test name ... ignored`, with or without a reason after a comma.
fn ignored(line: &str) -> Option<SkippedTest> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let reason = outcome.strip_prefix("ignored")?;
    let reason = reason.trim_start_matches([',', ' ']);
    let reason = if reason.is_empty() { "ignored" } else { reason };
    Some(SkippedTest { test: test.trim_end().to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(output: &str) -> TestCounts {
        let mut harness = Harness::default();
        harness.read(output.as_bytes());
        harness.finish()
    }

    fn skipped(test: &str, reason: &str) -> SkippedTest {
        SkippedTest { test: test.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn binaries_add_up() {
        let output = "\
running 2 tests
test a ... ok
test b ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.20s
";
        assert_eq!(counts(output), TestCounts { passed: 42, ..TestCounts::default() });
    }

    #[test]
    fn a_skip_that_the_harness_calls_ignored_counts_once() {
        let output = "\
test counts_are_exact_btf ... ok
test counts_are_exact_raw ... 
SKIP counts_are_exact_raw: needs two CPUs, found one
ignored, needs two CPUs, found one

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.00s
";
        let skipped = vec![skipped("counts_are_exact_raw", "needs two CPUs, found one")];
        assert_eq!(counts(output), TestCounts { passed: 1, failed: vec![], skipped });
    }

    #[test]
    fn a_failing_test_is_named_once() {
        let output = "\
test good ... ok
test bad ... FAILED

failures:

---- bad stdout ----
thread 'bad' panicked at src/lib.rs:1:1:
    SKIPPED nothing


failures:
    bad

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(counts(output), TestCounts { passed: 1, failed: vec!["bad".to_owned()], skipped: vec![] });
    }

    #[test]
    fn a_failing_test_that_prints_its_message_is_listed_with_it() {
        let output = "\
test bad ... 
FAIL bad: 12 of 13
FAILED

failures:

---- bad ----
test panicked: 12
of 13


failures:
    bad
    worse

test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(counts(output).failed, ["bad: 12 of 13", "worse"]);
    }

    #[test]
    fn each_suite_has_its_time_under_the_name_of_its_binary() {
        let mut harness = Harness::default();
        let result = |seconds| format!("test result: ok. 1 passed; 0 failed; 0 ignored; finished in {seconds}s\n");
        harness.read(b"     Running tests/compare.rs (target/debug/deps/compare-1a2b)\n");
        harness.read(result("14.25").as_bytes());
        harness.read(b"     Running tests/main.rs (target/debug/deps/kernel-1a2b)\n\nsuite counts\n");
        harness.read(result("3.5").as_bytes());
        harness.read(b"     Running unittests src/bin/a.rs (target/debug/deps/bpf_toolchain-3c)\n");
        harness.read(result("0.01").as_bytes());
        harness.read(b"   Doc-tests wakelat\n");
        harness.read(result("2").as_bytes());
        let expected =
            [("compare", 14_250), ("counts", 3500), ("bpf_toolchain", 10), ("wakelat (documentation)", 2000)];
        let expected = expected.map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)));
        assert_eq!(harness.take_suites(), expected);
    }

    #[test]
    fn lines_can_be_split_across_chunks() {
        let mut harness = Harness::default();
        for piece in ["test a ... SK", "IP a: no perf\nignored\ntest res", "ult: ok. 0 passed; 0 fai", "led; 1 ignored"]
        {
            harness.read(piece.as_bytes());
        }
        assert_eq!(harness.finish(), TestCounts { skipped: vec![skipped("a", "no perf")], ..TestCounts::default() });
    }

    #[test]
    fn a_binary_that_died_has_no_result() {
        assert_eq!(counts("running 3 tests\ntest a ... ok\n"), TestCounts::default());
    }

    #[test]
    fn an_ignored_test_is_a_skip() {
        let output = "\
test slow ... ignored
test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(counts(output).skipped, [skipped("slow", "ignored")]);
    }
}
