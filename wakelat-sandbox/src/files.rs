//! Restricts files, TCP ports, abstract Unix sockets and signals with Landlock.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
    Scope, path_beneath_rules,
};

use super::kernel_calls::landlock_abi;

/// The newest version whose restrictions are requested. An older kernel enforces those that it knows.
const NEWEST: ABI = ABI::V6;

/// What a thread may still reach.
pub struct Reachable<'a> {
    /// Files, and directories with those below, that it may read.
    pub reads: &'a [PathBuf],
    /// As `reads`: programs that it may start.
    pub executes: &'a [PathBuf],
    /// Directories in which it may create, write, rename and remove regular files.
    pub writes_in: &'a [PathBuf],
    /// TCP ports that it may connect to; before Linux 6.7, every port.
    pub connects_to: &'a [u16],
    /// Whether it may send signals to processes outside of the sandbox.
    pub signals: bool,
}

/// Restricts this thread to what is reachable. Returns the version in force.
pub fn restrict(reachable: &Reachable) -> Result<Option<i32>> {
    let Reachable { reads, executes, writes_in, connects_to, signals } = reachable;
    let Some(abi) = landlock_abi() else { return Ok(None) };
    let writing = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let restrict = || {
        let scope = if *signals { Scope::AbstractUnixSocket.into() } else { Scope::from_all(NEWEST) };
        let port = |port: &u16| Ok::<_, landlock::RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp));
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(scope)?
            .create()?
            .add_rules(path_beneath_rules(*reads, AccessFs::ReadFile | AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(*executes, AccessFs::Execute))?
            .add_rules(path_beneath_rules(*writes_in, writing))?
            .add_rules(connects_to.iter().map(port))?
            .restrict_self()
    };
    let status = restrict().context("cannot restrict files with Landlock")?;
    Ok((status.ruleset != RulesetStatus::NotEnforced).then_some(abi))
}
