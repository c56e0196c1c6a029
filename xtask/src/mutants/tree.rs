//! A scratch copy of the workspace, in which mutants are built: the user's own files are left alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::workspace;

/// A git worktree below `target`.
pub struct Tree {
    path: PathBuf,
}

impl Tree {
    /// The workspace as it is now, with changes that are not committed, but without files that git does not know.
    ///
    /// # Errors
    /// If git fails.
    pub fn new() -> anyhow::Result<Self> {
        let root = workspace::root();
        // A commit of the working files that no branch has; none, and depending on git's version an error, where they are those of HEAD.
        let changed = git(&root, &["stash", "create"]).unwrap_or_default();
        let commit = if changed.is_empty() { git(&root, &["rev-parse", "HEAD"])? } else { changed };
        let path = directory().join("tree");
        if path.join(".git").exists() {
            git(&path, &["checkout", "--quiet", "--force", "--detach", &commit])?;
        } else {
            git(&root, &["worktree", "prune"])?;
            let shown = path.to_string_lossy();
            git(&root, &["worktree", "add", "--quiet", "--force", "--detach", &shown, &commit])?;
        }
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Applies `patch`.
    ///
    /// # Errors
    /// If it does not apply.
    pub fn apply(&self, patch: &Path) -> anyhow::Result<()> {
        git(&self.path, &["apply", &patch.to_string_lossy()]).map(drop)
    }

    /// Takes every change back.
    ///
    /// # Errors
    /// If git fails.
    pub fn restore(&self) -> anyhow::Result<()> {
        git(&self.path, &["checkout", "--quiet", "--force", "--", "."]).map(drop)
    }
}

/// Where the tree, its build and the logs are.
pub fn directory() -> PathBuf {
    workspace::root().join("target/mutants")
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(directory).output().context("cannot run `git`")?;
    if !output.status.success() {
        bail!("`git {}`: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
