//! Restricts system calls with seccomp: those that [`super::syscall_list`] allows succeed, all others fail with EPERM.

use std::{collections::BTreeMap, env::consts::ARCH, fs};

use anyhow::{Context as _, Result};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

use super::{Sandbox, kernel_calls, syscall_list::allowed};

/// Whether system calls can be restricted: the kernel has seccomp (`CONFIG_SECCOMP_FILTER`), and there is a list for this
/// architecture.
pub fn has_seccomp() -> bool {
    // `proc_pid_seccomp()` (fs/proc/array.c, 5.10 on) prints the line only with CONFIG_SECCOMP_FILTER.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    TargetArch::try_from(ARCH).is_ok() && status.lines().any(|line| line.starts_with("Seccomp_filters:"))
}

/// Installs the filter for `sandbox`.
pub fn install(sandbox: &Sandbox) -> Result<()> {
    let unfilterable = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let install = |filter: &BpfProgram, logs| {
        kernel_calls::install_filter(filter, logs).context("cannot restrict system calls with seccomp")
    };
    install(&filter(unfilterable, SeccompAction::Allow, NOT_IMPLEMENTED)?, false)?;
    install(&filter(rules(sandbox)?, REFUSED, SeccompAction::Allow)?, true)
}

/// A refused call fails instead of ending the process: a library may make a call that it can do without.
const REFUSED: SeccompAction = SeccompAction::Errno(libc::EPERM as u32);

/// The arguments of clone3(2) are in memory, which no filter can read. C libraries use clone(2) if it does not exist.
const NOT_IMPLEMENTED: SeccompAction = SeccompAction::Errno(libc::ENOSYS as u32);

/// A filter that takes `matched` for a call that one of `rules` matches, and `otherwise` for the others. Of several filters,
/// the kernel carries out the most restrictive action (seccomp(2)).
fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram> {
    let compile = || {
        let arch = TargetArch::try_from(ARCH)?;
        SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()
    };
    compile().map_err(|error: seccompiler::BackendError| error).context("cannot compile the list of system calls")
}

fn rules(sandbox: &Sandbox) -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let own_pid = std::process::id();
    allowed(sandbox, own_pid).into_iter().map(|call| Ok((call.number, call.rules()?))).collect()
}
