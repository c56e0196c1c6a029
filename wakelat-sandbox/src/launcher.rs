//! A process that starts programs which need privileges.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    CapabilitySet, Restrictions, capabilities,
    files::{self, Reachable},
    wait_for_single_thread,
};

/// What a process and the programs that it starts may still do after [`Launcher::enter`]: read any file and start any
/// program that the user may, with these capabilities and no others; and write files only in these directories. System
/// calls are not restricted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The capabilities to keep, if the process has them.
    pub capabilities: CapabilitySet,
    /// The directories in which regular files can be created, written, renamed and removed.
    pub writes_in: Vec<PathBuf>,
}

impl Launcher {
    /// Restricts this process and its descendants for the rest of their lives. Without Landlock, files are not restricted.
    ///
    /// # Errors
    /// If the process has several threads, or the kernel refuses a restriction that it supports.
    pub fn enter(&self) -> Result<Restrictions> {
        wait_for_single_thread()?;
        let capabilities = capabilities::pass_on(self.capabilities)?;
        let everywhere = [PathBuf::from("/")];
        let landlock_abi = files::restrict(&Reachable {
            reads: &everywhere,
            executes: &everywhere,
            writes_in: &self.writes_in,
            connects_to: &[],
            signals: false,
        })?;
        Ok(Restrictions { capabilities, landlock_abi, seccomp: false })
    }
}
