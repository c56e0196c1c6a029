//! A mutant: a patch that breaks one thing, and the tests that must catch it. Pure except that it reads the
//! directory.
//!
//! The file begins with two lines, before the diff:
//!
//! ```text
//! Breaks: a second wakeup restarts the clock of a task that waits
//! Caught by: pitfalls/t06, wakelat-common/start
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use wakelat_build::workspace;

/// A patch with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The file's name without its extension.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
    /// What it breaks.
    pub breaks: String,
    /// The suites that must each fail; those that need no kernel come first.
    pub suites: Vec<MutantSuite>,
}

/// Tests that run together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MutantSuite {
    /// Where the tests are.
    pub location: SuiteLocation,
    /// Runs only the tests whose name contains this; empty for all.
    pub filter: String,
}

/// Where tests are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuiteLocation {
    /// The unit tests of this package.
    Package(String),
    /// This file of `wakelat/tests`: tests of the command's own code that need the running kernel.
    Command(String),
    /// This file of `tests/tests`: tests on the running kernel.
    Kernel(String),
}

impl Patch {
    /// Reads every patch in `tests/mutants`, sorted by name.
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
    /// Whether one of its suites needs the running kernel.
    pub fn needs_kernel(&self) -> bool {
        self.suites.iter().any(MutantSuite::needs_kernel)
    }
}

impl MutantSuite {
    /// Whether its tests run on the running kernel. Such tests take longer to build and to run.
    fn needs_kernel(&self) -> bool {
        !matches!(self.location, SuiteLocation::Package(_))
    }

    /// Parses `LOCATION` or `LOCATION/FILTER`; a location is a package or a file of `tests/tests` or
    /// `wakelat/tests`.
    fn parse(word: &str) -> anyhow::Result<Self> {
        let (name, filter) = word.split_once('/').unwrap_or((word, ""));
        let root = workspace::root();
        let is_file = |directory: &str| root.join(directory).join(name).with_extension("rs").is_file();
        let location = if is_file("tests/tests") {
            SuiteLocation::Kernel(name.to_owned())
        } else if is_file("wakelat/tests") {
            SuiteLocation::Command(name.to_owned())
        } else if root.join(name).join("Cargo.toml").is_file() {
            SuiteLocation::Package(name.to_owned())
        } else {
            bail!("`{name}` is neither a package nor a file of `tests/tests` or `wakelat/tests`");
        };
        Ok(Self { location, filter: filter.to_owned() })
    }

    /// The suite as a patch spells it.
    pub fn word(&self) -> String {
        let (SuiteLocation::Package(name) | SuiteLocation::Command(name) | SuiteLocation::Kernel(name)) =
            &self.location;
        if self.filter.is_empty() { name.clone() } else { format!("{name}/{}", self.filter) }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_lines_before_the_diff_name_the_suites_that_must_fail() {
        let text = "Breaks: the clock\nCaught by: pitfalls/t06, wakelat-common\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        let patch = Patch::parse(Path::new("/x/01-clock.patch"), text).unwrap();
        assert_eq!((&*patch.name, &*patch.breaks), ("01-clock", "the clock"));
        assert_eq!(patch.suites.iter().map(MutantSuite::word).collect::<Vec<_>>(), ["wakelat-common", "pitfalls/t06"]);
        assert_eq!(patch.suites[1].location, SuiteLocation::Kernel("pitfalls".to_owned()));
        assert!(Patch::parse(Path::new("a.patch"), "Breaks: it\n--- a\nCaught by: pitfalls\n").is_err());
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
        assert!(stale.is_empty(), "update these patches for the changed code:\n{}", stale.concat());
    }
}
