//! Compares the output of two boots of one machine. If time is counted in instructions, it is the same bit
//! for bit, and with it every figure of every report. Pure.

use std::fmt::Write;

use super::{
    qemu::GuestStream,
    verdict::{BootOutcome, GuestTest, TestStatus},
};

/// The name of the comparison in the list of tests.
const TEST: &str = "repeated::two_runs_of_one_machine_have_the_same_output";

/// How many lines that differ are shown.
const SHOWN: usize = 20;

/// The output of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOutput {
    results: Vec<String>,
    console: Vec<String>,
}

impl BootOutput {
    /// Adds a line. The order in which the two streams are read depends on the host, so each is kept
    /// separately.
    pub fn line(&mut self, stream: GuestStream, line: &str) {
        match stream {
            GuestStream::Results => self.results.push(line.to_owned()),
            GuestStream::Console => self.console.push(line.to_owned()),
        }
    }

    /// The number of lines.
    fn count(&self) -> usize {
        self.results.len() + self.console.len()
    }

    /// The lines that are not the same in `other` at the same position.
    fn differences<'a>(&'a self, other: &'a Self) -> Vec<Difference<'a>> {
        [(&self.results, &other.results), (&self.console, &other.console)]
            .into_iter()
            .flat_map(|(first, second)| {
                (0..first.len().max(second.len())).map(move |at| Difference {
                    number: at + 1,
                    first: first.get(at).map(String::as_str),
                    second: second.get(at).map(String::as_str),
                })
            })
            .filter(|line| line.first != line.second)
            .collect()
    }
}

/// A line in which two boots differ; `None` for the boot that printed fewer lines.
struct Difference<'a> {
    number: usize,
    first: Option<&'a str>,
    second: Option<&'a str>,
}

/// Compares two boots. Returns the outcome of the first with the result of the comparison, and the lines
/// that differ.
pub fn compare(
    (mut outcome, first): (BootOutcome, BootOutput),
    (again, second): (BootOutcome, BootOutput),
) -> (BootOutcome, String) {
    let differences = first.differences(&second);
    let mut shown = String::new();
    for Difference { number, first, second } in differences.iter().take(SHOWN) {
        let _ =
            writeln!(shown, "line {number}\n- {}\n+ {}", first.unwrap_or("(no line)"), second.unwrap_or("(no line)"));
    }
    let status = if differences.is_empty() { TestStatus::Passed } else { TestStatus::Failed(None) };
    outcome.tests.push(GuestTest { name: TEST.to_owned(), status });
    let differ = (!differences.is_empty())
        .then(|| format!("{} of {} lines differ when the same machine runs again", differences.len(), first.count()));
    let reasons: Vec<String> = [outcome.failure.take(), again.failure, differ].into_iter().flatten().collect();
    outcome.failure = (!reasons.is_empty()).then(|| reasons.join("; "));
    (outcome, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(results: &[&str]) -> (BootOutcome, BootOutput) {
        let mut output = BootOutput::default();
        results.iter().for_each(|line| output.line(GuestStream::Results, line));
        output.line(GuestStream::Console, "a message of the kernel");
        (BootOutcome::default(), output)
    }

    #[test]
    fn two_boots_with_the_same_output_pass() {
        let (outcome, shown) = compare(boot(&["p99 4.1 us"]), boot(&["p99 4.1 us"]));
        assert_eq!((outcome.failure.as_deref(), shown.as_str()), (None, ""));
        assert_eq!(outcome.counts(), (1, 0, 0));
    }

    #[test]
    fn a_different_figure_and_an_additional_line_fail_and_are_shown() {
        let (outcome, shown) = compare(boot(&["a", "p99 4.1 us"]), boot(&["a", "p99 4.2 us", "b"]));
        assert_eq!(shown, "line 2\n- p99 4.1 us\n+ p99 4.2 us\nline 3\n- (no line)\n+ b\n");
        assert_eq!(outcome.failure.as_deref(), Some("2 of 3 lines differ when the same machine runs again"));
        assert_eq!(outcome.counts(), (0, 1, 0));
    }

    #[test]
    fn a_boot_that_fails_fails_the_pair() {
        let failed = BootOutcome { failure: Some("kernel panic: x".to_owned()), ..BootOutcome::default() };
        let (outcome, _) = compare(boot(&["a"]), (failed, boot(&["a"]).1));
        assert_eq!(outcome.failure.as_deref(), Some("kernel panic: x"));
    }
}
