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

/// Lets this thread open only files below `paths`, and only for reading, write regular files only below `writes_in`, and
/// connect only to the TCP ports `connects_to`; before Linux 6.7, ports are not restricted. `without_signals` also forbids signals to processes outside of the
/// sandbox. Returns the version in force.
pub fn restrict(
    paths: &[PathBuf],
    writes_in: &[PathBuf],
    connects_to: &[u16],
    without_signals: bool,
) -> Result<Option<i32>> {
    let Some(abi) = landlock_abi() else { return Ok(None) };
    let writing = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let restrict = || {
        let scope = if without_signals { Scope::from_all(NEWEST) } else { Scope::AbstractUnixSocket.into() };
        let port = |port: &u16| Ok::<_, landlock::RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp));
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(scope)?
            .create()?
            .add_rules(path_beneath_rules(paths, AccessFs::ReadFile | AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(writes_in, writing))?
            .add_rules(connects_to.iter().map(port))?
            .restrict_self()
    };
    let status = restrict().context("cannot restrict files with Landlock")?;
    Ok((status.ruleset != RulesetStatus::NotEnforced).then_some(abi))
}
