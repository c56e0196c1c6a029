//! The summary that is printed after all steps.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::time::Duration;

use super::harness::{SkippedTest, SuiteDuration, TestCounts};
use super::step::StepOutcome;

/// A suite that takes at least this long is listed by its name.
const LONG: Duration = Duration::from_secs(5);

/// The outcomes of all steps, in order.
#[derive(Debug, Default)]
pub struct TestSummary {
    outcomes: Vec<StepOutcome>,
}

impl TestSummary {
    /// Adds a step.
    pub fn add(&mut self, outcome: StepOutcome) {
        self.outcomes.push(outcome);
    }

    /// Whether nothing failed. A skipped test is not a failure.
    pub fn passed(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.counts.failed.is_empty())
    }

    /// Whether nothing was checked at all.
    pub fn is_empty(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.counts == TestCounts::default())
    }

    /// Writes one line per step, the skipped tests with their reasons, the failures, and the totals on the
    /// last line.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n=== summary")?;
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for StepOutcome { name, counts, suites, elapsed } in &self.outcomes {
            let totals = totals(counts.passed, counts.failed.len(), counts.skipped.len());
            writeln!(out, "{name:<14} {totals:<36} {:>6.1} s", elapsed.as_secs_f64())?;
            if let Some(slowest) = slowest(suites) {
                writeln!(out, "               of these {slowest}")?;
            }
            passed += counts.passed;
            failed += counts.failed.len();
            skipped += counts.skipped.len();
        }
        let skips = |outcome: &StepOutcome| {
            let line = |skip: &SkippedTest| format!("{}: {}", skip.test, skip.reason);
            outcome.counts.skipped.iter().map(line).collect()
        };
        self.write_list(out, "skipped", skips)?;
        self.write_list(out, "failed", |outcome| outcome.counts.failed.clone())?;
        writeln!(out, "wakelat: {}", totals(passed, failed, skipped))
    }

    fn write_list(
        &self,
        out: &mut impl Write,
        title: &str,
        lines_of: impl Fn(&StepOutcome) -> Vec<String>,
    ) -> io::Result<()> {
        for outcome in &self.outcomes {
            for line in lines_of(outcome) {
                writeln!(out, "{title}: {}: {line}", outcome.name)?;
            }
        }
        Ok(())
    }
}

/// The suites that took at least [`LONG`], longest first: `pitfalls 52.0 s, why 19.0 s`.
fn slowest(suites: &[SuiteDuration]) -> Option<String> {
    let mut slow: Vec<&SuiteDuration> = suites.iter().filter(|(_, took)| *took >= LONG).collect();
    slow.sort_by_key(|(_, took)| Reverse(*took));
    let listed: Vec<String> = slow.iter().map(|(name, took)| format!("{name} {:.1} s", took.as_secs_f64())).collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

fn totals(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &'static str, counts: TestCounts) -> StepOutcome {
        StepOutcome { name, counts, suites: vec![], elapsed: Duration::from_millis(1500) }
    }

    fn text(summary: &TestSummary) -> String {
        let mut text = vec![];
        summary.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_last_line_is_the_total_of_all_steps() {
        let mut summary = TestSummary::default();
        summary.add(outcome("format", TestCounts { passed: 1, ..TestCounts::default() }));
        let skipped = vec![SkippedTest { test: "peers".to_owned(), reason: "no perf".to_owned() }];
        summary.add(outcome("kernel tests", TestCounts { passed: 7, failed: vec!["t19_x".to_owned()], skipped }));
        assert_eq!(
            text(&summary),
            "\n=== summary\n\
             format         1 passed, 0 failed, 0 skipped           1.5 s\n\
             kernel tests   7 passed, 1 failed, 1 skipped           1.5 s\n\
             skipped: kernel tests: peers: no perf\n\
             failed: kernel tests: t19_x\n\
             wakelat: 8 passed, 1 failed, 1 skipped\n"
        );
        assert!(!summary.passed());
    }

    #[test]
    fn long_suites_are_listed_longest_first() {
        let suite = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
        let suites = vec![suite("why", 19), suite("kernel", 1), suite("pitfalls", 52)];
        let mut summary = TestSummary::default();
        summary.add(StepOutcome { suites, ..outcome("kernel tests", TestCounts::default()) });
        assert!(
            text(&summary).contains("\n               of these pitfalls 52.0 s, why 19.0 s\n"),
            "{}",
            text(&summary)
        );
    }

    #[test]
    fn a_summary_without_results_is_empty() {
        let mut summary = TestSummary::default();
        summary.add(outcome("tests", TestCounts::default()));
        assert!(summary.is_empty());
        summary.add(outcome("kernel tests", TestCounts { passed: 1, ..TestCounts::default() }));
        assert!(!summary.is_empty());
    }

    #[test]
    fn a_skip_is_not_a_failure() {
        let mut summary = TestSummary::default();
        let skipped = vec![SkippedTest { test: "peers".to_owned(), reason: "no perf".to_owned() }];
        summary.add(outcome("tests", TestCounts { skipped, ..TestCounts::default() }));
        assert!(summary.passed());
    }
}
