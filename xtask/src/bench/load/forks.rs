//! Tasks that are born and die.

use anyhow::{Context as _, bail};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};

/// Forks children one after another, each of which ends at once, and waits for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkLoad {
    /// How many.
    pub children: u64,
}

impl ForkLoad {
    /// All of them.
    ///
    /// # Errors
    /// If there is no room for a process.
    pub fn perform(self) -> anyhow::Result<()> {
        for _ in 0..self.children {
            // SAFETY: this process has one thread, so the child finds no lock held, and it does nothing but end.
            match unsafe { fork() }.context("cannot fork")? {
                ForkResult::Parent { child } => {
                    waitpid(child, None)?;
                }
                // SAFETY: takes a number and does not return; what ends here runs nothing of its parent's.
                ForkResult::Child => unsafe { libc::_exit(0) },
            }
        }
        if self.children == 0 {
            bail!("no children to fork");
        }
        Ok(())
    }
}
