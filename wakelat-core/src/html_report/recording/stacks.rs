//! The stacks of the page: the waiting time of each, for a flame graph.

use std::{cmp::Reverse, collections::BTreeMap};

use super::name_table::NameTable;

/// Number of stacks in the page: those with the most waiting time. The others are one.
const MAX_STACKS: usize = 2_000;

/// The waiting time of a stack (ns), and the numbers of its frames, the outermost first.
pub type StackRow = (u128, Vec<usize>);

/// The rows of folded stacks, the one with the most waiting time first. They add up to all waits.
pub fn rows(folded: &BTreeMap<String, u128>, table: &mut NameTable) -> Vec<StackRow> {
    let mut lines: Vec<(&String, u128)> = folded.iter().map(|(line, ns)| (line, *ns)).collect();
    lines.sort_by_key(|(_, ns)| Reverse(*ns));
    let others = lines.split_off(lines.len().min(MAX_STACKS));
    let mut row =
        |(line, ns): (&String, u128)| (ns, line.split(';').map(|name| table.number(name.to_owned())).collect());
    let mut rows: Vec<StackRow> = lines.into_iter().map(&mut row).collect();
    if !others.is_empty() {
        rows.push(row((&"(other stacks)".to_owned(), others.iter().map(|(_, ns)| ns).sum())));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stacks_of_a_page_are_few_and_add_up_to_all_waits() {
        let folded: BTreeMap<String, u128> = (0..3_000u128).map(|at| (format!("task;main;f{at}"), at)).collect();
        let mut table = NameTable::default();
        let rows = rows(&folded, &mut table);
        assert_eq!(rows.len(), MAX_STACKS + 1);
        assert_eq!(rows.iter().map(|(ns, _)| ns).sum::<u128>(), folded.values().sum());
        let names = table.into_names();
        let of = |row: usize| rows[row].1.iter().map(|at| &*names[*at]).collect::<Vec<_>>();
        assert_eq!((of(0), of(MAX_STACKS)), (vec!["task", "main", "f2999"], vec!["(other stacks)"]));
    }
}
