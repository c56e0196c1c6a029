//! `wakelat diff`

use std::{collections::HashSet, path::PathBuf};

use clap::Args;

use super::{CliError, compare::CompareFlags};
use crate::config::{ConfigError, DiffConfig, OutputConfig, archive};

const EXAMPLES: &str = "\
Examples:
  wakelat diff base-*.wakelat -- new-*.wakelat       whether the waits got longer; exit 3 if so
  wakelat diff a.wakelat -- b.wakelat                one run each: what differs, without a verdict
  wakelat diff --by comm --margin p99=10% base-* -- new-*   by name, with 10 % only for p99
  wakelat diff --limit 'p99<2ms' base-* -- new-*     whether the new arm stays within a limit
  wakelat diff base.json -- new.json                 reports of `hist --json`, one per interval
  wakelat diff --markdown base-* -- new-*            for a comment on a pull request
  wakelat diff --report diff.html base-* -- new-*    a page that opens in any browser";

/// Compare recordings: whether waits got longer, by how much, and what they waited for
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DiffFlags {
    /// Recordings of the base, or reports of `hist --json`: one file for each run
    #[arg(value_name = "BASE", required = true, num_args = 1..)]
    base: Vec<PathBuf>,

    /// Recordings or reports of the new runs: one file for each run
    #[arg(value_name = "NEW", required = true, last = true, num_args = 1..)]
    new: Vec<PathBuf>,

    /// Write to a file; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,

    #[command(flatten)]
    compare: CompareFlags,
}

impl DiffFlags {
    pub(super) fn config(self, given: impl Fn(&str) -> bool) -> Result<DiffConfig, CliError> {
        let output = OutputConfig::to(self.output.as_deref())?;
        for path in self.base.iter().chain(&self.new) {
            if path.as_os_str() == "-" {
                return Err(ConfigError::Usage("`-` is not a run; expected files".to_owned()).into());
            }
            output.check_input("FILE", path)?;
        }
        let [base, new] = [archive::expand(&self.base)?, archive::expand(&self.new)?];
        let mut known = HashSet::new();
        if let Some(twice) = base.iter().chain(&new).find(|path| !known.insert(archive::identity(path))) {
            let why = format!("`{}` is given twice; expected different runs", twice.display());
            return Err(ConfigError::Usage(why).into());
        }
        Ok(DiffConfig { base, new, compare: self.compare.config(output.path, given)? })
    }
}
