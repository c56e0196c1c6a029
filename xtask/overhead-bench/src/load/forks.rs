//! A load of tasks that are created and exit at once.

use anyhow::{Context as _, bail};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};

/// Forks children one after another, each of which exits at once, and waits for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkLoad {
    /// The number of children.
    pub children: u64,
}

impl ForkLoad {
    /// Forks all children.
    pub fn perform(self) -> anyhow::Result<()> {
        for _ in 0..self.children {
            // SAFETY: this process has one thread, so the child finds no lock held, and it only exits.
            match unsafe { fork() }.context("cannot fork")? {
                ForkResult::Parent { child } => {
                    waitpid(child, None)?;
                }
                // SAFETY: `_exit` takes a number and does not return; it runs no exit handlers.
                ForkResult::Child => unsafe { libc::_exit(0) },
            }
        }
        if self.children == 0 {
            bail!("no children to fork");
        }
        Ok(())
    }
}
