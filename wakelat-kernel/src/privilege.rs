//! The privileges of this process.

use std::{fs, os::unix::fs::MetadataExt as _};

use anyhow::{Result, bail};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::CapabilitySet,
};

use super::{Roots, release::Release};

/// Inode number of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Inode number of the initial user namespace (`PROC_USER_INIT_INO`, include/linux/proc_ns.h).
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The privileges of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// Effective capabilities.
    pub effective: CapabilitySet,
    /// Whether this process is in the initial user namespace, so that its capabilities apply to the whole
    /// machine.
    pub first_user_namespace: bool,
    /// Whether this process may lock memory without limit.
    pub memory_unlimited: bool,
    /// The highest real-time priority that this process may use: 0 for none, 99 with `cap_sys_nice`,
    /// otherwise `RLIMIT_RTPRIO` (sched(7)).
    pub max_rt_priority: u8,
}

impl Privileges {
    /// Reads the privileges of this process.
    pub fn detect(roots: &Roots) -> Self {
        let effective = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let limit =
            if effective.contains(CapabilitySet::SYS_NICE) { None } else { getrlimit(Resource::Rtprio).current };
        Self {
            effective,
            max_rt_priority: limit.map_or(99, |limit| limit.min(99) as u8),
            first_user_namespace: is_namespace(roots, "user", FIRST_USER_NAMESPACE),
            memory_unlimited: getrlimit(Resource::Memlock).current.is_none(),
        }
    }

    /// The capabilities that are missing to load and attach the programs, by their names for `setcap`.
    ///
    /// From 5.8 on, `cap_bpf` and `cap_perfmon` are required, and `cap_sys_admin` replaces either of them
    /// (`bpf_capable()`, `perfmon_capable()`, include/linux/capability.h); before, `cap_sys_admin` is
    /// required. Before 5.11, maps count against the limit of locked memory, which only `cap_sys_resource`
    /// raises (kernel/bpf/syscall.c).
    pub fn missing(&self, release: &Release) -> Vec<&'static str> {
        let lacks = |capability| !self.effective.contains(capability);
        let mut missing = Vec::new();
        if lacks(CapabilitySet::SYS_ADMIN) {
            if release.is_at_least(5, 8) {
                let either = [(CapabilitySet::BPF, "cap_bpf"), (CapabilitySet::PERFMON, "cap_perfmon")];
                missing.extend(either.into_iter().filter(|(flag, _)| lacks(*flag)).map(|(_, name)| name));
            } else {
                missing.push("cap_sys_admin");
            }
        }
        if !release.is_at_least(5, 11) && !self.memory_unlimited && lacks(CapabilitySet::SYS_RESOURCE) {
            missing.push("cap_sys_resource");
        }
        missing
    }
}

/// Removes the limit of locked memory, against which maps count before 5.11. Does nothing on later kernels.
///
/// # Errors
/// If this process has a limit and may not raise it.
pub fn raise_memory_limit(release: &Release) -> Result<()> {
    let unlimited = Rlimit { current: None, maximum: None };
    if release.is_at_least(5, 11) || setrlimit(Resource::Memlock, unlimited).is_ok() {
        return Ok(());
    }
    match getrlimit(Resource::Memlock).current {
        None => Ok(()),
        Some(bytes) => bail!(
            "locked memory is limited to `{bytes}` bytes, and before Linux 5.11 BPF maps count towards that limit; \
             run wakelat with `sudo`, or raise it with `ulimit -l unlimited`"
        ),
    }
}

/// Whether this process is in the initial PID namespace, whose IDs the BPF programs see.
pub fn first_pid_namespace(roots: &Roots) -> bool {
    is_namespace(roots, "pid", FIRST_PID_NAMESPACE)
}

/// The PID of this process by which the BPF programs know it; `None` in a nested PID namespace, which hides it.
pub fn own_pid(roots: &Roots) -> Option<u32> {
    first_pid_namespace(roots).then(std::process::id)
}

/// Whether this process is in the initial namespace of this kind. A kernel without that kind of namespace
/// has no file for it, and no other namespace either.
fn is_namespace(roots: &Roots, kind: &str, first: u64) -> bool {
    fs::metadata(roots.proc.join("self/ns").join(kind)).map_or(true, |metadata| metadata.ino() == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(effective: CapabilitySet, release: &str) -> Vec<&'static str> {
        let privileges =
            Privileges { effective, first_user_namespace: true, memory_unlimited: false, max_rt_priority: 0 };
        privileges.missing(&Release::parse(release))
    }

    #[test]
    fn two_capabilities_are_enough_from_5_11_on() {
        let both = CapabilitySet::BPF | CapabilitySet::PERFMON;
        assert_eq!(missing(both, "6.1.0"), [""; 0]);
        assert_eq!(missing(CapabilitySet::BPF, "6.1.0"), ["cap_perfmon"]);
        assert_eq!(missing(CapabilitySet::empty(), "6.1.0"), ["cap_bpf", "cap_perfmon"]);
        assert_eq!(missing(CapabilitySet::SYS_ADMIN, "6.1.0"), [""; 0]);
    }

    #[test]
    fn before_5_11_maps_count_as_locked_memory() {
        let both = CapabilitySet::BPF | CapabilitySet::PERFMON;
        assert_eq!(missing(both, "5.10.0"), ["cap_sys_resource"]);
        assert_eq!(missing(both | CapabilitySet::SYS_RESOURCE, "5.10.0"), [""; 0]);
        let unlimited =
            Privileges { effective: both, first_user_namespace: true, memory_unlimited: true, max_rt_priority: 0 };
        assert_eq!(unlimited.missing(&Release::parse("5.10.0")), [""; 0]);
    }

    #[test]
    fn before_5_8_cap_sys_admin_is_required() {
        let both = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_RESOURCE;
        assert_eq!(missing(both, "5.7.0"), ["cap_sys_admin"]);
    }
}
