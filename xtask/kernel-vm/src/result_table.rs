//! The report of a whole run. Pure.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write, time::Duration};

use super::verdict::{BootOutcome, GuestTest, TestStatus};

/// One kernel in one mode.
pub struct VmRow {
    /// The kernel's name in the list.
    pub kernel: String,
    /// The mode's name.
    pub mode: String,
    /// The result.
    pub result: VmResult,
}

/// The result of one kernel in one mode.
pub enum VmResult {
    /// It ran.
    Done {
        /// The outcome of the boot.
        outcome: BootOutcome,
        /// From the start of QEMU to its end.
        took: Duration,
    },
    /// It could not run here, for this reason.
    Skipped(String),
    /// It could not be started, for this reason.
    Broken(String),
}

impl VmRow {
    /// Why this row fails the whole run, if it does.
    pub fn failure(&self) -> Option<&str> {
        match &self.result {
            VmResult::Done { outcome, .. } => outcome.failure.as_deref(),
            VmResult::Skipped(_) => None,
            VmResult::Broken(why) => Some(why),
        }
    }
}

/// Renders the table, and below it the reasons behind its numbers.
pub fn render(rows: &[VmRow]) -> String {
    let mut cells: Vec<[String; 8]> =
        vec![["kernel", "release", "mode", "boot", "passed", "failed", "skipped", "time"].map(str::to_owned)];
    cells.extend(rows.iter().map(cells_of));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            // Names are left-aligned, numbers right-aligned.
            let _ = if column < 3 { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for section in [slowest(rows), failures(rows), skips(rows), warnings(rows)] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    }
    text
}

fn cells_of(row: &VmRow) -> [String; 8] {
    let (kernel, mode) = (row.kernel.clone(), row.mode.clone());
    let empty = String::new;
    match &row.result {
        VmResult::Done { outcome, took } => {
            let (passed, failed, skipped) = outcome.counts();
            let release = outcome.release.clone().unwrap_or_else(|| "-".to_owned());
            let boot = outcome.boot.map_or_else(|| "-".to_owned(), seconds);
            let time = seconds(*took);
            [kernel, release, mode, boot, passed.to_string(), failed.to_string(), skipped.to_string(), time]
        }
        VmResult::Skipped(_) => [kernel, "skipped".to_owned(), mode, empty(), empty(), empty(), empty(), empty()],
        VmResult::Broken(_) => [kernel, "broken".to_owned(), mode, empty(), empty(), empty(), empty(), empty()],
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The duration of each suite over all rows, longest first.
fn slowest(rows: &[VmRow]) -> String {
    let mut suites = times_of_suites(rows);
    suites.sort_by_key(|(_, took)| Reverse(*took));
    let listed = suites.iter().map(|(suite, took)| (suite.as_str(), *took));
    if suites.is_empty() { String::new() } else { format!("suites over all rows: {}\n", times(listed)) }
}

/// How long each suite took, over all rows.
pub fn times_of_suites(rows: &[VmRow]) -> Vec<(String, Duration)> {
    let mut by_suite: BTreeMap<&str, Duration> = BTreeMap::new();
    for row in rows {
        if let VmResult::Done { outcome, .. } = &row.result {
            for (suite, took) in &outcome.suites {
                *by_suite.entry(suite).or_default() += *took;
            }
        }
    }
    by_suite.into_iter().map(|(suite, took)| (suite.to_owned(), took)).collect()
}

/// Suites and how long they took: `kernel 21.0 s, counts 3.1 s`.
pub fn times<'a>(suites: impl IntoIterator<Item = (&'a str, Duration)>) -> String {
    let listed: Vec<String> = suites.into_iter().map(|(suite, took)| format!("{suite} {}", seconds(took))).collect();
    listed.join(", ")
}

fn failures(rows: &[VmRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let Some(why) = row.failure() else { continue };
        let _ = writeln!(text, "FAILED {} {}: {why}", row.kernel, row.mode);
        if let VmResult::Done { outcome, .. } = &row.result {
            for failed in outcome.tests.iter().filter_map(GuestTest::failure) {
                let _ = writeln!(text, "  {failed}");
            }
        }
    }
    text
}

/// Each reason once, with the tests that it kept from running and the guests in which it did.
fn skips(rows: &[VmRow]) -> String {
    let mut by_reason: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for row in rows {
        let guest = format!("{} {}", row.kernel, row.mode);
        match &row.result {
            VmResult::Skipped(why) => by_reason.entry(why).or_default().entry("all").or_default().push(guest),
            VmResult::Broken(_) => {}
            VmResult::Done { outcome, .. } => {
                for test in &outcome.tests {
                    if let TestStatus::Skipped(why) = &test.status {
                        by_reason.entry(why).or_default().entry(&test.name).or_default().push(guest.clone());
                    }
                }
            }
        }
    }
    let mut text = String::new();
    for (reason, tests) in by_reason {
        let count: usize = tests.values().map(Vec::len).sum();
        let _ = writeln!(text, "skipped {count}: {reason}");
        for (test, guests) in tests {
            let _ = writeln!(text, "  {test}: {}", guests.join(", "));
        }
    }
    text
}

fn warnings(rows: &[VmRow]) -> String {
    let mut text = String::new();
    for row in rows {
        if let VmResult::Done { outcome, .. } = &row.result {
            for warning in &outcome.warnings {
                let _ = writeln!(text, "warning {} {}: {warning}", row.kernel, row.mode);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, status: TestStatus) -> GuestTest {
        GuestTest { name: name.to_owned(), status }
    }

    fn row(kernel: &str, result: VmResult) -> VmRow {
        VmRow { kernel: kernel.to_owned(), mode: "smp".to_owned(), result }
    }

    #[test]
    fn every_row_failure_and_skip_reason_is_shown() {
        let skip = || TestStatus::Skipped("no hist triggers".to_owned());
        let good = BootOutcome {
            release: Some("6.12.117+deb12-rt-amd64".to_owned()),
            boot: Some(Duration::from_millis(2345)),
            tests: vec![test("s::a", TestStatus::Passed), test("s::b", skip())],
            ..BootOutcome::default()
        };
        let bad = BootOutcome {
            tests: vec![test("s::a", TestStatus::Failed(Some("1 of 2".to_owned()))), test("s::b", skip())],
            failure: Some("kernel panic in `s::a`: Fatal exception".to_owned()),
            warnings: vec!["WARNING: x".to_owned()],
            ..BootOutcome::default()
        };
        let took = Duration::from_secs(5);
        let text = render(&[
            row("6.12-rt", VmResult::Done { outcome: good, took }),
            row("7.2-rt", VmResult::Done { outcome: bad, took }),
            row("6.1-rt", VmResult::Skipped("no mirror".to_owned())),
            row("5.10-cloud", VmResult::Broken("no file".to_owned())),
        ]);
        assert_eq!(
            text,
            "\
kernel      release                  mode   boot  passed  failed  skipped   time
6.12-rt     6.12.117+deb12-rt-amd64  smp   2.3 s       1       0        1  5.0 s
7.2-rt      -                        smp       -       0       1        1  5.0 s
6.1-rt      skipped                  smp
5.10-cloud  broken                   smp

FAILED 7.2-rt smp: kernel panic in `s::a`: Fatal exception
  s::a: 1 of 2
FAILED 5.10-cloud smp: no file

skipped 2: no hist triggers
  s::b: 6.12-rt smp, 7.2-rt smp
skipped 1: no mirror
  all: 6.1-rt smp

warning 7.2-rt smp: WARNING: x
"
        );
    }

    #[test]
    fn a_skipped_kernel_is_not_a_failure_but_a_broken_one_is() {
        assert_eq!(row("a", VmResult::Skipped("x".to_owned())).failure(), None);
        assert_eq!(row("a", VmResult::Broken("x".to_owned())).failure(), Some("x"));
    }
}
