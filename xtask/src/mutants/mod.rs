//! `cargo xtask mutants`: plants bugs, one at a time, and shows which tests catch them.

mod patch;
mod tree;
mod trial;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};

use patch::{MutantSuite, Patch};
use tree::Tree;
use trial::TrialOutcome;
use verdict::MutantVerdict;

use crate::setup::{self, Purpose};

#[derive(clap::Args)]
pub struct MutantsArgs {
    /// Try only mutants whose name begins with one of these
    names: Vec<String>,
    /// List the mutants, what each breaks and the suites that must catch it, and try none
    #[arg(long)]
    list: bool,
}

pub fn main(args: &MutantsArgs) -> anyhow::Result<ExitCode> {
    let mut patches = Patch::all()?;
    patches.retain(|patch| args.names.is_empty() || args.names.iter().any(|name| patch.name.starts_with(name)));
    if patches.is_empty() {
        bail!("no mutant's name begins with {}", args.names.join(" or "));
    }
    let mut out = io::stdout();
    if args.list {
        for patch in &patches {
            let suites: Vec<_> = patch.suites.iter().map(MutantSuite::word).collect();
            writeln!(out, "{}\n    breaks: {}\n    caught by: {}", patch.name, patch.breaks, suites.join(", "))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    setup::ensure(Purpose::Test)?;
    fs::create_dir_all(tree::directory()).context("cannot make `target/mutants`")?;
    let tree = Tree::new()?;
    tree.restore()?;
    // Mutants that need no kernel come first: they are built and tested in seconds.
    patches.sort_by_key(Patch::needs_kernel);
    let known = failing_without(&tree, &patches)?;
    let (mut caught, mut not_caught) = (0, Vec::new());
    for patch in &patches {
        let begin = Instant::now();
        let verdict = try_mutant(&tree, patch, &known)?;
        let (word, more) = verdict.describe();
        writeln!(out, "{:<44} {word:<10} {:>4} s  {more}", patch.name, begin.elapsed().as_secs())?;
        match verdict {
            MutantVerdict::Caught(_) => caught += 1,
            MutantVerdict::NotTried(_) => {}
            MutantVerdict::Uncaught(_) | MutantVerdict::Stale(_) => not_caught.push(&*patch.name),
        }
    }
    writeln!(out, "logs: {}", tree::directory().display())?;
    writeln!(out, "{}", summary(patches.len(), caught, &not_caught))?;
    Ok(if not_caught.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the tests of each suite that fail without a mutant. All suites run before the first mutant, so
/// that the tree is built without one only once.
fn failing_without(tree: &Tree, patches: &[Patch]) -> anyhow::Result<BTreeMap<MutantSuite, Vec<String>>> {
    let suites: BTreeSet<&MutantSuite> = patches.iter().flat_map(|patch| &patch.suites).collect();
    let mut known = BTreeMap::new();
    for suite in suites {
        let TrialOutcome::Ran(counts) = trial::run(tree, "none", suite)? else {
            bail!("without a mutant, {} does not compile: see `{}`", suite.word(), tree::directory().display());
        };
        if !counts.failed.is_empty() {
            println!("without a mutant, {} fails: {}", suite.word(), counts.failed.join(", "));
        }
        known.insert(suite.clone(), counts.failed);
    }
    Ok(known)
}

/// Applies a mutant, runs its suites until one does not catch it, and reverts it.
fn try_mutant(tree: &Tree, patch: &Patch, known: &BTreeMap<MutantSuite, Vec<String>>) -> anyhow::Result<MutantVerdict> {
    if let Err(error) = tree.apply(&patch.path) {
        return Ok(MutantVerdict::Stale(format!("{error:#}")));
    }
    let mut trials = Vec::new();
    for suite in &patch.suites {
        trials.push((suite.clone(), trial::run(tree, &patch.name, suite)?, known[suite].clone()));
        if !MutantVerdict::of(&trials).is_fine() {
            break;
        }
    }
    tree.restore()?;
    Ok(MutantVerdict::of(&trials))
}

/// The last line of the report; `all` is the number of mutants.
fn summary(all: usize, caught: usize, not_caught: &[&str]) -> String {
    let mut line = format!("mutants: {caught} caught, {} not", not_caught.len());
    if !not_caught.is_empty() {
        line += &format!(" ({})", not_caught.join(", "));
    }
    let untried = all - caught - not_caught.len();
    if untried > 0 {
        line += &format!(", {untried} not tried");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_names_the_mutants_that_were_not_caught() {
        assert_eq!(summary(3, 3, &[]), "mutants: 3 caught, 0 not");
        assert_eq!(summary(4, 1, &["07-a", "21-b"]), "mutants: 1 caught, 2 not (07-a, 21-b), 1 not tried");
    }
}
