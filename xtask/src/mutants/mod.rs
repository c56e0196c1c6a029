//! `cargo xtask mutants`: plants bugs, one at a time, and shows which tests notice.

mod patch;
mod tree;
mod trial;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};

use patch::{Patch, Suite};
use tree::Tree;
use trial::Outcome;
use verdict::Verdict;

use crate::setup::{self, Purpose};

#[derive(clap::Args)]
pub struct Args {
    /// Try only mutants whose name begins with one of these
    names: Vec<String>,
    /// List the mutants, what each breaks and the suites that must notice, and try none
    #[arg(long)]
    list: bool,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let mut patches = Patch::all()?;
    patches.retain(|patch| args.names.is_empty() || args.names.iter().any(|name| patch.name.starts_with(name)));
    if patches.is_empty() {
        bail!("no mutant's name begins with {}", args.names.join(" or "));
    }
    let mut out = io::stdout();
    if args.list {
        for patch in &patches {
            let suites: Vec<_> = patch.suites.iter().map(Suite::word).collect();
            writeln!(out, "{}\n    breaks: {}\n    caught by: {}", patch.name, patch.breaks, suites.join(", "))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    setup::ensure(Purpose::Test)?;
    fs::create_dir_all(tree::directory()).context("cannot make `target/mutants`")?;
    let tree = Tree::new()?;
    tree.restore()?;
    let mut known = BTreeMap::new();
    let mut is_fine = true;
    for patch in &patches {
        let begin = Instant::now();
        let verdict = try_out(&tree, patch, &mut known)?;
        let (word, more) = verdict.words();
        writeln!(out, "{:<44} {word:<10} {:>4} s  {more}", patch.name, begin.elapsed().as_secs())?;
        is_fine &= verdict.is_fine();
    }
    writeln!(out, "logs: {}", tree::directory().display())?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plants a mutant, runs its suites and takes it out. What fails without a mutant is looked up once for each suite.
fn try_out(tree: &Tree, patch: &Patch, known: &mut BTreeMap<Suite, Vec<String>>) -> anyhow::Result<Verdict> {
    for suite in &patch.suites {
        if known.contains_key(suite) {
            continue;
        }
        let Outcome::Ran(counts) = trial::run(tree, "none", suite)? else {
            bail!("without a mutant, {} does not compile: see `{}`", suite.word(), tree::directory().display());
        };
        if !counts.failed.is_empty() {
            println!("without a mutant, {} fails: {}", suite.word(), counts.failed.join(", "));
        }
        known.insert(suite.clone(), counts.failed);
    }
    if let Err(error) = tree.apply(&patch.path) {
        return Ok(Verdict::Stale(format!("{error:#}")));
    }
    let run = |suite: &Suite| Ok((suite.clone(), trial::run(tree, &patch.name, suite)?, known[suite].clone()));
    let trials: anyhow::Result<Vec<_>> = patch.suites.iter().map(run).collect();
    tree.restore()?;
    Ok(Verdict::of(&trials?))
}
