//! The step that runs the kernel tests in guests, on the kernels of the list.

use std::time::Instant;

use kernel_vm::{TestStatus, VmArgs, VmResult, VmRow};

use super::harness::{SkippedTest, TestCounts};
use super::step::StepOutcome;

const NAME: &str = "real kernels";

/// Runs the everyday selection, or every kernel in every mode if `full`.
pub fn step(full: bool) -> StepOutcome {
    println!("\n=== {NAME}");
    let started = Instant::now();
    match kernel_vm::run(&if full { VmArgs::default() } else { VmArgs::everyday() }) {
        Ok(rows) => StepOutcome {
            name: NAME,
            counts: counts(&rows),
            suites: kernel_vm::times_of_suites(&rows),
            elapsed: started.elapsed(),
        },
        Err(error) => StepOutcome { elapsed: started.elapsed(), ..StepOutcome::failure(NAME, format!("{error:#}")) },
    }
}

fn counts(rows: &[VmRow]) -> TestCounts {
    let mut counts = TestCounts::default();
    for row in rows {
        let guest = format!("{} {}", row.kernel, row.mode);
        match &row.result {
            VmResult::Done { outcome, .. } => {
                for test in &outcome.tests {
                    match &test.status {
                        TestStatus::Passed => counts.passed += 1,
                        TestStatus::Failed(_) => {}
                        TestStatus::Skipped(reason) => {
                            let name = format!("{guest}: {}", test.name);
                            counts.skipped.push(SkippedTest { test: name, reason: reason.clone() })
                        }
                    }
                    counts.failed.extend(test.failure().map(|failed| format!("{guest}: {failed}")));
                }
            }
            VmResult::Skipped(reason) => {
                counts.skipped.push(SkippedTest { test: guest.clone(), reason: reason.clone() })
            }
            VmResult::Broken(_) => {}
        }
        counts.failed.extend(row.failure().map(|why| format!("{guest}: {why}")));
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kernel_vm::{BootOutcome, GuestTest};

    use super::*;

    #[test]
    fn tests_and_failures_of_all_guests_add_up() {
        let test = |name: &str, status| GuestTest { name: name.to_owned(), status };
        let row = |result| VmRow { kernel: "6.1-rt".to_owned(), mode: "smp".to_owned(), result };
        let outcome = BootOutcome {
            tests: vec![test("s::a", TestStatus::Passed), test("s::b", TestStatus::Skipped("one CPU".to_owned()))],
            failure: Some("kernel panic".to_owned()),
            ..Default::default()
        };
        let rows = [
            row(VmResult::Done { outcome, took: Duration::ZERO }),
            row(VmResult::Skipped("no mirror".to_owned())),
            row(VmResult::Broken("no file".to_owned())),
        ];
        let skip = |test: &str, reason: &str| SkippedTest { test: test.to_owned(), reason: reason.to_owned() };
        assert_eq!(
            counts(&rows),
            TestCounts {
                passed: 1,
                failed: vec!["6.1-rt smp: kernel panic".to_owned(), "6.1-rt smp: no file".to_owned()],
                skipped: vec![skip("6.1-rt smp: s::b", "one CPU"), skip("6.1-rt smp", "no mirror")],
            }
        );
    }
}
