//! A mutant: a patch that breaks one thing, and what must notice. Pure but for reading the directory.
//!
//! The file begins with two lines, before the diff:
//!
//! ```text
//! Breaks: a second wakeup restarts the clock of a task that waits
//! Caught by: traps/t06, wakelat-common/start
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::workspace;

/// A patch and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The file's name without its extension.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it breaks.
    pub breaks: String,
    /// The suites of which each must fail, those first that need no kernel.
    pub suites: Vec<MutantSuite>,
}

/// Tests that are run together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MutantSuite {
    /// Where they are.
    pub location: SuiteLocation,
    /// Only those whose name contains this; all where it is empty.
    pub filter: String,
}

/// Where tests are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuiteLocation {
    /// The unit tests of this package.
    Package(String),
    /// This file of `tests/tests`: tests on the running kernel.
    Kernel(String),
}

impl Patch {
    /// Every patch in `tests/mutants`, by name.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let directory = workspace::root().join("tests/mutants");
        let entries = fs::read_dir(&directory).with_context(|| format!("cannot read `{}`", directory.display()))?;
        let mut patches = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
                patches.push(Self::parse(&path, &text).with_context(|| format!("in `{}`", path.display()))?);
            }
        }
        patches.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(patches)
    }

    fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let field = |name: &str| -> anyhow::Result<&str> {
            let line =
                text.lines().take_while(|line| !line.starts_with("--- ")).find_map(|line| line.strip_prefix(name));
            Ok(line.with_context(|| format!("no line begins with `{name}`"))?.trim())
        };
        let suites = field("Caught by:")?.split(',').map(|word| MutantSuite::parse(word.trim()));
        let mut suites: Vec<_> = suites.collect::<anyhow::Result<_>>()?;
        suites.sort_by_key(MutantSuite::needs_kernel);
        Ok(Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_owned(),
            breaks: field("Breaks:")?.to_owned(),
            suites,
        })
    }
}

impl Patch {
    /// Whether one of its suites does.
    pub fn needs_kernel(&self) -> bool {
        self.suites.iter().any(MutantSuite::needs_kernel)
    }
}

impl MutantSuite {
    /// Whether its tests are on the running kernel. They take longer to build and to run.
    fn needs_kernel(&self) -> bool {
        matches!(self.location, SuiteLocation::Kernel(_))
    }

    /// From `PLACE` or `PLACE/FILTER`, where the place is a package or a file of `tests/tests`.
    fn parse(word: &str) -> anyhow::Result<Self> {
        let (place, filter) = word.split_once('/').unwrap_or((word, ""));
        let root = workspace::root();
        let place = if root.join("tests/tests").join(place).with_extension("rs").is_file() {
            SuiteLocation::Kernel(place.to_owned())
        } else if root.join(place).join("Cargo.toml").is_file() {
            SuiteLocation::Package(place.to_owned())
        } else {
            bail!("`{place}` is neither a package nor a file of `tests/tests`");
        };
        Ok(Self { location: place, filter: filter.to_owned() })
    }

    /// As in the patch.
    pub fn word(&self) -> String {
        let (SuiteLocation::Package(place) | SuiteLocation::Kernel(place)) = &self.location;
        if self.filter.is_empty() { place.clone() } else { format!("{place}/{}", self.filter) }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_lines_before_the_diff_say_what_must_notice() {
        let text = "Breaks: the clock\nCaught by: traps/t06, wakelat-common\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        let patch = Patch::parse(Path::new("/x/01-clock.patch"), text).unwrap();
        assert_eq!((&*patch.name, &*patch.breaks), ("01-clock", "the clock"));
        assert_eq!(patch.suites.iter().map(MutantSuite::word).collect::<Vec<_>>(), ["wakelat-common", "traps/t06"]);
        assert_eq!(patch.suites[1].location, SuiteLocation::Kernel("traps".to_owned()));
        assert!(Patch::parse(Path::new("a.patch"), "Breaks: it\n--- a\nCaught by: traps\n").is_err());
        assert!(Patch::parse(Path::new("a.patch"), "Breaks: it\nCaught by: nothing-like-it\n").is_err());
    }

    #[test]
    fn every_mutant_still_applies() {
        let root = workspace::root();
        let mut stale = Vec::new();
        for patch in Patch::all().unwrap() {
            let mut apply = Command::new("git");
            apply.args(["apply", "--check"]).arg(&patch.path).current_dir(&root);
            let output = apply.output().expect("`git` is installed: apt-get install git");
            if !output.status.success() {
                stale.push(format!("{}: {}", patch.name, String::from_utf8_lossy(&output.stderr)));
            }
        }
        assert!(stale.is_empty(), "plant these anew in the code that has changed:\n{}", stale.concat());
    }
}
