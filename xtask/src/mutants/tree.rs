//! A scratch copy of the workspace, in which mutants are built. The user's own files are not touched.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use wakelat_build::workspace;

/// A git worktree below `target`.
pub struct Tree {
    path: PathBuf,
}

impl Tree {
    /// Checks out the workspace as it is now, with uncommitted changes but without untracked files.
    pub fn new() -> anyhow::Result<Self> {
        let root = workspace::root();
        // `git stash create` makes a commit of the working files that is on no branch. If the files are
        // those of HEAD, it prints nothing or, depending on git's version, fails.
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

    /// The directory of the tree.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Applies `patch`.
    ///
    /// # Errors
    /// Fails if it does not apply.
    pub fn apply(&self, patch: &Path) -> anyhow::Result<()> {
        git(&self.path, &["apply", &patch.to_string_lossy()]).map(drop)
    }

    /// Reverts every change.
    pub fn restore(&self) -> anyhow::Result<()> {
        git(&self.path, &["checkout", "--quiet", "--force", "--", "."]).map(drop)
    }
}

/// The directory of the tree, its build and the logs.
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
