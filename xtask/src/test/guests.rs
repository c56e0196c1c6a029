//! The kernel tests once more, in the kernels of the list.

use std::time::Instant;

use super::harness::{Counts, Skip};
use super::step::Outcome;
use crate::vm::table::{self, Row, Run};
use crate::vm::verdict::Fate;
use crate::vm::{self, Args};

const NAME: &str = "real kernels";

/// Runs them: those of every day, or all in every mode.
pub fn step(full: bool) -> Outcome {
    println!("\n=== {NAME}");
    let started = Instant::now();
    match vm::run(&if full { Args::default() } else { Args::everyday() }) {
        Ok(rows) => Outcome {
            name: NAME,
            counts: counts(&rows),
            suites: table::times_of_suites(&rows),
            elapsed: started.elapsed(),
        },
        Err(error) => Outcome { elapsed: started.elapsed(), ..Outcome::failure(NAME, format!("{error:#}")) },
    }
}

fn counts(rows: &[Row]) -> Counts {
    let mut counts = Counts::default();
    for row in rows {
        let place = format!("{} {}", row.kernel, row.mode);
        match &row.result {
            Run::Done { outcome, .. } => {
                for test in &outcome.tests {
                    let name = format!("{place}: {}", test.name);
                    match &test.fate {
                        Fate::Passed => counts.passed += 1,
                        Fate::Failed => counts.failed.push(name),
                        Fate::Skipped(reason) => counts.skipped.push(Skip { test: name, reason: reason.clone() }),
                    }
                }
            }
            Run::Skipped(reason) => counts.skipped.push(Skip { test: place.clone(), reason: reason.clone() }),
            Run::Broken(_) => {}
        }
        counts.failed.extend(row.failure().map(|why| format!("{place}: {why}")));
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::vm::verdict::{self, Test};

    #[test]
    fn tests_of_all_guests_and_guests_that_died_add_up() {
        let test = |name: &str, fate| Test { name: name.to_owned(), fate };
        let row = |result| Row { kernel: "6.1-rt".to_owned(), mode: "smp".to_owned(), result };
        let outcome = verdict::Outcome {
            tests: vec![test("s::a", Fate::Passed), test("s::b", Fate::Skipped("one CPU".to_owned()))],
            failure: Some("kernel panic".to_owned()),
            ..Default::default()
        };
        let rows = [
            row(Run::Done { outcome, took: Duration::ZERO }),
            row(Run::Skipped("no mirror".to_owned())),
            row(Run::Broken("no file".to_owned())),
        ];
        let skip = |test: &str, reason: &str| Skip { test: test.to_owned(), reason: reason.to_owned() };
        assert_eq!(
            counts(&rows),
            Counts {
                passed: 1,
                failed: vec!["6.1-rt smp: kernel panic".to_owned(), "6.1-rt smp: no file".to_owned()],
                skipped: vec![skip("6.1-rt smp: s::b", "one CPU"), skip("6.1-rt smp", "no mirror")],
            }
        );
    }
}
