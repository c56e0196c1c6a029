//! What two boots of one machine said, held against each other: bit for bit the same where time is counted in
//! instructions, and with it every figure of every report. Pure.

use std::fmt::Write;

use super::{
    qemu::GuestStream,
    verdict::{BootOutcome, GuestTest, TestStatus},
};

/// The name under which the comparison stands among the tests.
const TEST: &str = "repeated::two_runs_of_one_machine_say_the_same";

/// How many lines that differ are shown.
const SHOWN: usize = 20;

/// What one boot said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOutput {
    results: Vec<String>,
    console: Vec<String>,
}

impl BootOutput {
    /// One more line. Which of two streams is read first is for the host to say, so each is kept by itself.
    pub fn line(&mut self, stream: GuestStream, line: &str) {
        match stream {
            GuestStream::Results => self.results.push(line.to_owned()),
            GuestStream::Console => self.console.push(line.to_owned()),
        }
    }

    /// How many lines.
    fn count(&self) -> usize {
        self.results.len() + self.console.len()
    }

    /// Each line that is not the same in `other` at the same place.
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

/// A line in which two boots differ; none where one has said less.
struct Difference<'a> {
    number: usize,
    first: Option<&'a str>,
    second: Option<&'a str>,
}

/// The outcome of the first boot with what came of the comparison, and the lines that differ.
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
    let fate = if differences.is_empty() { TestStatus::Passed } else { TestStatus::Failed };
    outcome.tests.push(GuestTest { name: TEST.to_owned(), status: fate });
    let differ = (!differences.is_empty())
        .then(|| format!("of {} lines {} differ when the same machine runs again", first.count(), differences.len()));
    let reasons: Vec<String> = [outcome.failure.take(), again.failure, differ].into_iter().flatten().collect();
    outcome.failure = (!reasons.is_empty()).then(|| reasons.join("; "));
    (outcome, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(results: &[&str]) -> (BootOutcome, BootOutput) {
        let mut said = BootOutput::default();
        results.iter().for_each(|line| said.line(GuestStream::Results, line));
        said.line(GuestStream::Console, "a word of the kernel's");
        (BootOutcome::default(), said)
    }

    #[test]
    fn two_boots_that_say_the_same_pass() {
        let (outcome, shown) = compare(boot(&["p99 4.1 us"]), boot(&["p99 4.1 us"]));
        assert_eq!((outcome.failure.as_deref(), shown.as_str()), (None, ""));
        assert_eq!(outcome.counts(), (1, 0, 0));
    }

    #[test]
    fn a_single_figure_that_differs_and_a_line_more_fail_and_are_shown() {
        let (outcome, shown) = compare(boot(&["a", "p99 4.1 us"]), boot(&["a", "p99 4.2 us", "b"]));
        assert_eq!(shown, "line 2\n- p99 4.1 us\n+ p99 4.2 us\nline 3\n- (no line)\n+ b\n");
        assert_eq!(outcome.failure.as_deref(), Some("of 3 lines 2 differ when the same machine runs again"));
        assert_eq!(outcome.counts(), (0, 1, 0));
    }

    #[test]
    fn a_boot_that_fails_fails_the_pair() {
        let failed = BootOutcome { failure: Some("kernel panic: x".to_owned()), ..BootOutcome::default() };
        let (outcome, _) = compare(boot(&["a"]), (failed, boot(&["a"]).1));
        assert_eq!(outcome.failure.as_deref(), Some("kernel panic: x"));
    }
}
