//! Numbers of instructions on each kernel, and by how much they may grow without failing a run: those that the
//! verifier walks through for each program, and those that each way to measure executes. Pure.
//!
//! A table under version control has a row for each program, or way to measure, and a column for each kernel:
//!
//! ```text
//! program        6.1-rt  7.2-rt
//! sched_switch      412     430
//! sched_wakeup      210       -
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use anyhow::{Context, ensure};

use super::kernels::KERNELS;

/// The least width of a column.
const COLUMN: usize = 10;

/// Growth up to this many percent passes.
const TOLERATED_PERCENT: u64 = 10;

/// What is counted, and the table of the counts that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionKind {
    /// Instructions that the verifier walks through, by program.
    Verified,
    /// Instructions that a wakeup and the switch to its task take more than without wakelat, by the way to measure.
    Executed,
}

impl InstructionKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Verified, Self::Executed];

    /// The first word of a line in which a test reports a count.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Verified => "VERIFIED ",
            Self::Executed => "EXECUTED ",
        }
    }

    /// The file with the accepted counts, in the workspace.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Verified => "tests/verified-instructions.txt",
            Self::Executed => "tests/executed-instructions.txt",
        }
    }

    /// What a row of the table is.
    const fn row(self) -> &'static str {
        match self {
            Self::Verified => "program",
            Self::Executed => "mode",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Verified => {
                "# Instructions the verifier walks through, by program and kernel; `-` where the program was not loaded.\n"
            }
            Self::Executed => {
                "# Instructions that a wakeup and the switch to its task take more than without wakelat, by kernel.\n"
            }
        }
    }
}

const ON_GROWTH: &str =
    "# Growth of more than 10 % fails `cargo xtask vm` until it is run with `--accept-instructions`.\n";

/// Counts by program or way to measure, then by kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionTable(BTreeMap<String, BTreeMap<String, u64>>);

impl InstructionTable {
    /// Parses a table.
    ///
    /// # Errors
    /// Fails if a row has another length than the first, or a count is not a number.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(first) = rows.next() else { return Ok(Self::default()) };
        let kernels: Vec<&str> = first.split_whitespace().skip(1).collect();
        let mut table = Self::default();
        for row in rows {
            let mut words = row.split_whitespace();
            let name = words.next().context("an empty row")?;
            let counts: Vec<&str> = words.collect();
            ensure!(
                counts.len() == kernels.len(),
                "row `{name}` has {} counts, expected one for each of {} kernels",
                counts.len(),
                kernels.len()
            );
            for (kernel, count) in kernels.iter().zip(counts).filter(|(_, count)| *count != "-") {
                let count = count.parse().with_context(|| format!("`{count}` in row `{name}` is not a count"))?;
                table.insert(kernel, name, count);
            }
        }
        Ok(table)
    }

    /// Renders the table as text that [`Self::parse`] reads.
    pub fn render(&self, kind: InstructionKind) -> String {
        // In the order of the list; kernels that have left the list come last.
        let mut kernels: Vec<String> = KERNELS.iter().map(|kernel| kernel.to_string()).collect();
        let others: Vec<&String> = self.0.values().flat_map(BTreeMap::keys).collect();
        kernels.retain(|kernel| others.contains(&kernel));
        for other in others {
            if !kernels.contains(other) {
                kernels.push(other.clone());
            }
        }
        let width = self.0.keys().map(String::len).chain([kind.row().len()]).max().unwrap_or_default();
        let mut text = format!("{}{ON_GROWTH}{:width$}", kind.heading(), kind.row());
        for kernel in &kernels {
            let _ = write!(text, "  {kernel:>COLUMN$}");
        }
        text.push('\n');
        for (program, counts) in &self.0 {
            let _ = write!(text, "{program:width$}");
            for kernel in &kernels {
                let count = counts.get(kernel).map_or("-".to_owned(), u64::to_string);
                let _ = write!(text, "  {count:>column$}", column = COLUMN.max(kernel.len()));
            }
            text.push('\n');
        }
        text
    }

    /// Records a count; of several on one kernel, the largest.
    pub fn insert(&mut self, kernel: &str, name: &str, count: u64) {
        let noted = self.0.entry(name.to_owned()).or_default().entry(kernel.to_owned()).or_default();
        *noted = count.max(*noted);
    }

    /// Whether the table has no counts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kernels that have a count.
    fn kernels(&self) -> BTreeSet<&str> {
        self.0.values().flat_map(BTreeMap::keys).map(String::as_str).collect()
    }

    /// The kernels in `seen` without a column in this table: there is nothing to compare their counts with.
    pub fn unknown_kernels<'a>(&self, seen: &'a Self) -> Vec<&'a str> {
        let known = self.kernels();
        seen.kernels().into_iter().filter(|kernel| !known.contains(kernel)).collect()
    }

    /// The counts in `seen` that exceed this table, on kernels that have a column: one line for each.
    pub fn regressions(&self, seen: &Self) -> Vec<String> {
        let known = self.kernels();
        let mut complaints = Vec::new();
        for (program, counts) in &seen.0 {
            for (kernel, &count) in counts.iter().filter(|(kernel, _)| known.contains(kernel.as_str())) {
                match self.0.get(program).and_then(|counts| counts.get(kernel)) {
                    None => complaints.push(format!("{program} on {kernel}: {count}, not in the table")),
                    Some(&accepted) if count * 100 > accepted * (100 + TOLERATED_PERCENT) => {
                        complaints.push(format!("{program} on {kernel}: {accepted} accepted, {count} seen"));
                    }
                    Some(_) => {}
                }
            }
        }
        complaints
    }

    /// This table with the counts in `seen` in place of its own. For a kernel in `seen`, programs that were
    /// not seen are removed.
    pub fn accepting(&self, seen: &Self) -> Self {
        let fresh: Vec<&String> = seen.0.values().flat_map(BTreeMap::keys).collect();
        let mut accepted = self.clone();
        for counts in accepted.0.values_mut() {
            counts.retain(|kernel, _| !fresh.contains(&kernel));
        }
        for (program, counts) in &seen.0 {
            for (kernel, count) in counts {
                accepted.insert(kernel, program, *count);
            }
        }
        accepted.0.retain(|_, counts| !counts.is_empty());
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, &str, u64)]) -> InstructionTable {
        let mut table = InstructionTable::default();
        for (kernel, program, count) in counts {
            table.insert(kernel, program, *count);
        }
        table
    }

    #[test]
    fn a_rendered_table_is_read_back() {
        let table = table(&[("6.1-rt", "switch", 412), ("7.2-rt", "switch", 430), ("5.10-cloud", "wakeup", 7)]);
        assert_eq!(InstructionTable::parse(&table.render(InstructionKind::Verified)).unwrap(), table);
        assert_eq!(InstructionTable::parse("").unwrap(), InstructionTable::default());
    }

    #[test]
    fn kernels_are_in_the_order_of_the_list() {
        let text = table(&[("7.2-rt", "p", 2), ("6.12-rt", "p", 1), ("5.10-cloud", "p", 3)]);
        let text = text.render(InstructionKind::Executed);
        let heading: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(heading, ["mode", "5.10-cloud", "6.12-rt", "7.2-rt"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_names() {
        let text = table(&[("6.12-cloud-arm64", "p", 1), ("7.2-rt", "p", 2)]).render(InstructionKind::Executed);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["mode      7.2-rt  6.12-cloud-arm64", "p              2                 1"]);
    }

    #[test]
    fn growth_of_ten_percent_passes_and_one_more_does_not() {
        let accepted = table(&[("6.1-rt", "p", 100)]);
        assert!(accepted.regressions(&table(&[("6.1-rt", "p", 110)])).is_empty());
        assert!(accepted.regressions(&table(&[("6.1-rt", "p", 50)])).is_empty());
        assert_eq!(accepted.regressions(&table(&[("6.1-rt", "p", 111)])), ["p on 6.1-rt: 100 accepted, 111 seen"]);
    }

    #[test]
    fn a_program_that_is_not_in_the_table_must_be_accepted_first() {
        let accepted = table(&[("6.1-rt", "p", 100)]);
        let seen = table(&[("6.1-rt", "new", 5)]);
        assert_eq!(accepted.regressions(&seen), ["new on 6.1-rt: 5, not in the table"]);
        assert!(accepted.accepting(&seen).regressions(&seen).is_empty());
    }

    #[test]
    fn a_kernel_that_is_not_in_the_table_is_named_but_fails_nothing() {
        let accepted = table(&[("6.1-rt", "p", 100)]);
        let seen = table(&[("6.1-rt", "p", 100), ("bookworm:6.1-amd64", "p", 900)]);
        assert_eq!(accepted.unknown_kernels(&seen), ["bookworm:6.1-amd64"]);
        assert!(accepted.regressions(&seen).is_empty());
    }

    #[test]
    fn accepting_replaces_the_kernels_that_ran_and_keeps_the_others() {
        let old = table(&[("6.1-rt", "gone", 1), ("6.1-rt", "p", 100), ("7.2-rt", "p", 200)]);
        let new = old.accepting(&table(&[("6.1-rt", "p", 90)]));
        assert_eq!(new, table(&[("6.1-rt", "p", 90), ("7.2-rt", "p", 200)]));
    }

    #[test]
    fn the_larger_count_of_two_modes_is_kept() {
        assert_eq!(table(&[("6.1-rt", "p", 5), ("6.1-rt", "p", 4)]), table(&[("6.1-rt", "p", 5)]));
    }

    #[test]
    fn a_damaged_table_is_an_error_that_names_the_row() {
        let error = InstructionTable::parse("program a b\np 1\n").unwrap_err().to_string();
        assert_eq!(error, "row `p` has 1 counts, expected one for each of 2 kernels");
        assert!(InstructionTable::parse("program a\np x\n").unwrap_err().to_string().contains("`x` in row `p`"));
    }
}
