//! Parses a guest's two streams: which tests passed, and how the run ended. Pure.
//!
//! The init prints lines that begin with `##vm`; between them is libtest's output, one test at a time:
//!
//! ```text
//! ##vm boot 6.12.117+deb12-rt-amd64
//! ##vm suite kernel
//! test ring_buffer_can_be_made ... ok
//! VERIFIED sched_switch 412
//! test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
//! ##vm suite-end 0
//! ##vm end 0
//! ```

use std::{collections::BTreeMap, time::Duration};

use super::{instruction_table::InstructionKind, qemu::BootEnd};

/// The prefix of the init's own lines.
pub const MARKER: &str = "##vm ";

/// QEMU's exit code after the init has written 0x10 to its exit port: `(0x10 << 1) | 1`.
pub const EXIT_SUCCESS: i32 = 33;
/// QEMU's exit code after the init has written 0x11: something failed, and the streams have the reason.
pub const EXIT_FAILURE: i32 = 35;
/// QEMU's exit code when the guest reboots, which with `panic=-1` means a panic.
const EXIT_REBOOT: i32 = 0;

/// Strings in the lines by which the kernel reports that it is broken or stuck, or that files of the guest are missing
/// because its memory was too small for them (init/initramfs.c). There are three messages for a stall: `self-detected stall on CPU`, `detected stalls on CPUs/tasks` and
/// `detected expedited stalls` (kernel/rcu/tree_stall.h, kernel/rcu/tree_exp.h).
const REPORTS: &[&str] = &[
    "BUG: ",
    "Oops",
    "LOCKUP",
    "detected stall",
    "detected expedited stalls",
    "blocked for more than",
    "general protection fault",
    "Initramfs unpacking failed",
];

/// How many of the console's last lines go into a failure that has nothing better to show.
const CONSOLE_TAIL: usize = 4;

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestStatus {
    /// It passed.
    Passed,
    /// It failed, with this panic's message, or was running when the guest died.
    Failed(Option<String>),
    /// It found that this kernel lacks what it tests, for this reason.
    Skipped(String),
}

/// One test in one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestTest {
    /// `suite::test`.
    pub name: String,
    /// Its result.
    pub status: TestStatus,
}

impl GuestTest {
    /// The name of a test that failed, with the message of its panic.
    pub fn failure(&self) -> Option<String> {
        let TestStatus::Failed(message) = &self.status else { return None };
        Some(match message {
            Some(message) => format!("{}: {message}", self.name),
            None => self.name.clone(),
        })
    }
}

/// The outcome of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOutcome {
    /// The kernel's release; `None` if it did not get as far as the init.
    pub release: Option<String>,
    /// Time from the start of QEMU to the init's first line.
    pub boot: Option<Duration>,
    /// The tests, in the order in which they ran.
    pub tests: Vec<GuestTest>,
    /// The suites that ended, in the order in which they ran, and the duration of each.
    pub suites: Vec<(String, Duration)>,
    /// The instructions that tests reported, by kind, then by program or way to measure: the largest count of all
    /// variants of a program.
    pub instructions: BTreeMap<(InstructionKind, String), u64>,
    /// Warnings of the kernel, which do not fail a run.
    pub warnings: Vec<String>,
    /// Why the run failed; `None` if it passed.
    pub failure: Option<String>,
}

impl BootOutcome {
    /// The number of tests that passed, failed and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&TestStatus) -> bool| self.tests.iter().filter(|test| wanted(&test.status)).count();
        (
            count(|status| *status == TestStatus::Passed),
            count(|status| matches!(status, TestStatus::Failed(_))),
            count(|status| matches!(status, TestStatus::Skipped(_))),
        )
    }
}

/// A test whose result has not come yet.
struct RunningTest {
    name: String,
    /// Why it is skipped, if it has reported that.
    skipped: Option<String>,
    /// Why it panicked, if it has reported that.
    panicked: Option<String>,
}

/// Parses the streams line by line.
#[derive(Default)]
pub struct Transcript {
    outcome: BootOutcome,
    suite: String,
    suite_began: Duration,
    running: Option<RunningTest>,
    /// Tests with a result in this suite, to compare with libtest's own count.
    seen_in_suite: usize,
    problems: Vec<String>,
    ended: Option<i32>,
    panic: Option<String>,
    console: Vec<String>,
}

impl Transcript {
    /// Parses one line of the results; `at` is the time at which it came.
    pub fn result_line(&mut self, line: &str, at: Duration) {
        if let Some(words) = line.strip_prefix(MARKER) {
            self.marker(words, at);
        } else if let Some((name, rest)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            // Names may be padded to one width.
            self.running = Some(RunningTest { name: name.trim_end().to_owned(), skipped: None, panicked: None });
            self.result_line(rest, at);
        } else if let Some(summary) = line.strip_prefix("test result: ") {
            self.summary(summary);
        } else if let Some((test, reason)) = line.strip_prefix("SKIP ").and_then(|line| line.split_once(": ")) {
            self.skip(test, reason);
        } else if let Some((_, message)) = line.strip_prefix("FAIL ").and_then(|line| line.split_once(": ")) {
            if let Some(test) = &mut self.running {
                test.panicked = Some(message.to_owned());
            }
        } else if let Some((kind, name, count)) = InstructionKind::ALL.into_iter().find_map(|kind| {
            let (name, count) = line.strip_prefix(kind.marker())?.split_once(' ')?;
            Some((kind, name, count))
        }) {
            match count.trim().parse::<u64>() {
                Ok(count) => {
                    let noted = self.outcome.instructions.entry((kind, name.to_owned())).or_default();
                    *noted = count.max(*noted);
                }
                Err(_) => self.problems.push(format!("cannot read `{line}`")),
            }
        } else if line == "ok" {
            self.finish_test(TestStatus::Passed);
        } else if line == "FAILED" {
            self.finish_test(TestStatus::Failed(None));
        } else if let Some(reason) = line.strip_prefix("ignored") {
            let reason = reason.trim_start_matches([',', ' ']);
            self.finish_test(TestStatus::Skipped(if reason.is_empty() { "ignored" } else { reason }.to_owned()));
        }
    }

    /// Parses one line of the kernel's console.
    pub fn console_line(&mut self, line: &str) {
        let text = without_timestamp(line);
        if text.is_empty() {
            return;
        }
        if let Some((_, reason)) = text.split_once("Kernel panic - not syncing: ") {
            self.panic.get_or_insert_with(|| reason.to_owned());
        } else if REPORTS.iter().any(|sign| text.contains(sign)) {
            self.problems.push(format!("the kernel reported `{text}`"));
        } else if text.contains("WARNING: ") {
            self.outcome.warnings.push(text.to_owned());
        }
        self.console.push(text.to_owned());
    }

    /// Sums up the boot after QEMU has ended.
    pub fn finish(mut self, end: BootEnd) -> BootOutcome {
        let during = self.during();
        let first = match end {
            BootEnd::Exit(EXIT_SUCCESS) if self.ended == Some(0) => None,
            BootEnd::Exit(EXIT_SUCCESS | EXIT_FAILURE) => match self.ended {
                Some(0) => Some("the init reported success and failure at once".to_owned()),
                // The failed tests are the better explanation.
                Some(_) if !self.suite.is_empty() => None,
                Some(code) => Some(format!("the command ended with {code}")),
                None => Some("the guest ended without a report from its init".to_owned()),
            },
            BootEnd::Exit(EXIT_REBOOT) => Some(match &self.panic {
                Some(panic) => format!("kernel panic{during}: {panic}"),
                None => format!("the guest rebooted{during}{}", self.last_message()),
            }),
            BootEnd::Exit(code) => Some(format!("QEMU ended with {code}{}", self.last_message())),
            BootEnd::Signal(signal) => Some(format!("QEMU was killed by signal {signal}")),
            BootEnd::Silent(limit) => Some(format!("silent for {} s{during}{}", limit.as_secs(), self.last_message())),
            BootEnd::TimeLimit(limit) => {
                Some(format!("still running after {} s{during}{}", limit.as_secs(), self.last_message()))
            }
        };
        self.finish_test(TestStatus::Failed(None));
        let failed = self.outcome.counts().1;
        let tests = (failed > 0).then(|| format!("{failed} of {} tests failed", self.outcome.tests.len()));
        let reasons: Vec<String> = first.into_iter().chain(self.problems).chain(tests).collect();
        if !reasons.is_empty() {
            self.outcome.failure = Some(reasons.join("; "));
        } else if self.ended != Some(0) {
            self.outcome.failure = Some("the init reported a failure, but no test did".to_owned());
        }
        self.outcome
    }

    fn marker(&mut self, words: &str, at: Duration) {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        match word {
            "boot" => (self.outcome.release, self.outcome.boot) = (Some(rest.to_owned()), Some(at)),
            "suite" => (self.suite, self.suite_began, self.seen_in_suite) = (rest.to_owned(), at, 0),
            "suite-end" => {
                // libtest ends with 101 if a test failed.
                if !matches!(rest, "0" | "101") {
                    self.problems.push(format!("suite `{}` ended with {rest}{}", self.suite, self.during()));
                }
                self.finish_test(TestStatus::Failed(None));
                self.outcome.suites.push((self.suite.clone(), at.saturating_sub(self.suite_began)));
            }
            "end" => self.ended = rest.parse().ok(),
            "problem" => self.problems.push(rest.to_owned()),
            _ => self.problems.push(format!("cannot read `##vm {words}`")),
        }
    }

    /// Records the result of the running test.
    fn finish_test(&mut self, status: TestStatus) {
        let Some(RunningTest { name, skipped, panicked }) = self.running.take() else { return };
        let status = match (status, skipped) {
            (TestStatus::Failed(_), _) => TestStatus::Failed(panicked),
            (_, Some(reason)) => TestStatus::Skipped(reason),
            (status, None) => status,
        };
        self.seen_in_suite += 1;
        self.outcome.tests.push(GuestTest { name: format!("{}::{name}", self.suite), status });
    }

    fn skip(&mut self, test: &str, reason: &str) {
        match &mut self.running {
            Some(running) => running.skipped = Some(reason.to_owned()),
            None => self.problems.push(format!("`{test}` was skipped while no test ran: {reason}")),
        }
    }

    /// Checks libtest's own count, `ok. 3 passed; 1 failed; 0 ignored; …`: a result line that was lost in
    /// other output must not pass for a test that ran.
    fn summary(&mut self, summary: &str) {
        let words: Vec<&str> = summary.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        let count_of = |what: &str| {
            let at = words.iter().position(|word| *word == what)?;
            words[at.checked_sub(1)?].parse::<usize>().ok()
        };
        let Some(counted) = ["passed", "failed", "ignored"].into_iter().map(count_of).sum::<Option<usize>>() else {
            self.problems.push(format!("cannot read `test result: {summary}`"));
            return;
        };
        if counted != self.seen_in_suite {
            self.problems.push(format!(
                "suite `{}` counts {counted} tests, but the results of {} were seen",
                self.suite, self.seen_in_suite
            ));
        }
    }

    fn during(&self) -> String {
        match &self.running {
            Some(test) => format!(" in `{}::{}`", self.suite, test.name),
            None => String::new(),
        }
    }

    fn last_message(&self) -> String {
        match self.console.len() {
            0 => String::new(),
            lines => format!(
                "; the console's last lines: {}",
                self.console[lines.saturating_sub(CONSOLE_TAIL)..].join(" | ")
            ),
        }
    }
}

/// Strips the timestamp, which changes from run to run, from `[   12.345678] text`. A caller's number
/// before the text is kept.
fn without_timestamp(line: &str) -> &str {
    let text = line.trim();
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((time, text)) if time.chars().all(|c| c.is_ascii_digit() || ". ".contains(c)) => text.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
