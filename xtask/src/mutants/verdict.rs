//! Sums up the trials of a mutant. Pure.

use super::{patch::MutantSuite, trial::TrialOutcome};
use crate::test::harness::TestCounts;

/// The verdict on a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MutantVerdict {
    /// Every suite caught it, with these failing tests.
    Caught(Vec<String>),
    /// These suites ran and did not catch it.
    Uncaught(Vec<String>),
    /// None of the tests that should catch it can run on this kernel or machine, for this reason.
    NotTried(String),
    /// Its patch does not apply, or the patched code does not compile.
    Stale(String),
}

impl MutantVerdict {
    /// Sums up the outcomes of the mutant's suites. The last field of each holds the tests that fail
    /// without any mutant.
    pub fn of(trials: &[(MutantSuite, TrialOutcome, Vec<String>)]) -> Self {
        let (mut caught, mut uncaught, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for (suite, outcome, known) in trials {
            let TrialOutcome::Ran(TestCounts { passed, failed, skipped: skips }) = outcome else {
                return Self::Stale(format!("does not compile for {}", suite.word()));
            };
            let mut new_failures = failed.iter().filter(|test| !known.contains(test)).peekable();
            match (new_failures.peek(), skips.first()) {
                (Some(_), _) => caught.extend(new_failures.map(|test| named(suite, test))),
                (None, Some(skip)) if *passed == 0 => skipped.push(format!("{}: {}", skip.test, skip.reason)),
                _ => uncaught.push(suite.word()),
            }
        }
        match skipped.into_iter().next() {
            _ if !uncaught.is_empty() => Self::Uncaught(uncaught),
            Some(reason) if caught.is_empty() => Self::NotTried(reason),
            _ => Self::Caught(caught),
        }
    }

    /// Whether the mutant needs no attention.
    pub fn is_fine(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::NotTried(_))
    }

    /// The verdict for the table: a word and the details.
    pub fn describe(&self) -> (&'static str, String) {
        /// More tests would add nothing.
        const SHOWN: usize = 3;
        match self {
            Self::Caught(tests) if tests.len() > SHOWN => {
                ("caught", format!("{} and {} more", tests[..SHOWN].join(", "), tests.len() - SHOWN))
            }
            Self::Caught(tests) => ("caught", tests.join(", ")),
            Self::Uncaught(suites) => ("NOT CAUGHT", format!("by {}", suites.join(", "))),
            Self::NotTried(reason) => ("not tried", reason.clone()),
            Self::Stale(reason) => ("STALE", reason.clone()),
        }
    }
}

/// The name of a test with its suite but without its modules, which the suite identifies well enough.
fn named(suite: &MutantSuite, test: &str) -> String {
    let test = test.rsplit("::").next().unwrap_or(test);
    format!("{}: {test}", suite.word())
}

#[cfg(test)]
mod tests {
    use super::super::patch::SuiteLocation;
    use super::*;
    use crate::test::harness::SkippedTest;

    fn trial(
        passed: usize,
        failed: &[&str],
        skipped: &[&str],
        known: &[&str],
    ) -> (MutantSuite, TrialOutcome, Vec<String>) {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let skipped =
            names(skipped).into_iter().map(|test| SkippedTest { test, reason: "needs root".to_owned() }).collect();
        let suite = MutantSuite { location: SuiteLocation::Kernel("pitfalls".to_owned()), filter: String::new() };
        (suite, TrialOutcome::Ran(TestCounts { passed, failed: names(failed), skipped }), names(known))
    }

    #[test]
    fn every_suite_must_catch_a_mutant() {
        let caught = trial(3, &["t06"], &[], &[]);
        assert_eq!(
            MutantVerdict::of(std::slice::from_ref(&caught)),
            MutantVerdict::Caught(vec!["pitfalls: t06".to_owned()])
        );
        let passed = trial(3, &[], &["t05"], &[]);
        assert_eq!(MutantVerdict::of(&[caught, passed]), MutantVerdict::Uncaught(vec!["pitfalls".to_owned()]));
    }

    #[test]
    fn a_test_that_fails_without_the_mutant_does_not_catch_it() {
        assert!(!MutantVerdict::of(&[trial(3, &["t06"], &[], &["t06"])]).is_fine());
    }

    #[test]
    fn a_mutant_whose_tests_are_all_skipped_is_not_tried() {
        assert!(matches!(MutantVerdict::of(&[trial(0, &[], &["t06"], &[])]), MutantVerdict::NotTried(_)));
        assert!(!MutantVerdict::of(&[trial(0, &[], &[], &[])]).is_fine(), "a filter that matches nothing");
    }
}
