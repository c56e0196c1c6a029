//! What this kernel and this user can do.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{
    Roots,
    btf::{KernelBtf, RingBufferSupport},
    cgroup,
    cpus::Cpus,
    mounts,
    privilege::{self, Privileges},
    release::Release,
    requirement,
    tracefs::TracefsAccess,
};
use crate::{
    config::{Attach, Resources},
    report::Mode,
};

/// What this kernel and this user can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel's release.
    pub release: Release,
    /// The kernel is fully preemptible (`CONFIG_PREEMPT_RT`), as `uname -v` says (init/Makefile, scripts/mkcompile_h).
    pub preempt_rt: bool,
    /// Where the kernel's types are looked for.
    pub btf_path: PathBuf,
    /// What it says of its own types.
    pub btf: KernelBtf,
    /// What this process may do.
    pub privileges: Privileges,
    /// The kernel's secrets are kept even from root.
    pub lockdown: Lockdown,
    /// This process sees the ids that the kernel side sees.
    pub first_pid_namespace: bool,
    /// Where tracefs is and what it offers.
    pub tracefs: TracefsAccess,
    /// Where the cgroup v2 hierarchy is mounted.
    pub cgroup_v2: Option<PathBuf>,
    /// `/proc/PID/schedstat` counts (`CONFIG_SCHED_INFO`): an independent account of waits.
    pub schedstat: bool,
    /// CPUs that are online.
    pub cpus_online: Option<Cpus>,
    /// The clock that the kernel keeps time by.
    pub clock_source: Option<String>,
}

/// How much of the kernel is kept even from root (`kernel_lockdown(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Nothing, or the kernel does not know lockdown.
    None,
    /// Only what would change it.
    Integrity,
    /// Reading as well: BPF programs cannot read kernel memory (`LOCKDOWN_BPF_READ_KERNEL`, include/linux/security.h).
    Confidentiality,
}

impl Features {
    /// This kernel and this user. The kernel's types are in `btf`, where they are not where they usually are; it must exist.
    pub fn detect(btf: Option<&Path>) -> Self {
        let roots = Roots::default();
        let mut features = Self::detect_in(&roots, btf.unwrap_or(&roots.btf()));
        if let (Some(path), KernelBtf::Missing) = (btf, &features.btf) {
            features.btf = KernelBtf::Unusable(format!("there is no file `{}`, given with `--btf`", path.display()));
        }
        features
    }

    /// This kernel and this user, with procfs and sysfs from elsewhere. What cannot be read is taken for absent.
    pub fn detect_in(roots: &Roots, btf: &Path) -> Self {
        let mounts = mounts::parse(&fs::read_to_string(roots.proc.join("self/mountinfo")).unwrap_or_default());
        let clock = "devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            release: Release::running(),
            preempt_rt: is_preempt_rt(&rustix::system::uname().version().to_string_lossy()),
            btf: KernelBtf::read(btf),
            btf_path: btf.to_owned(),
            privileges: Privileges::detect(roots),
            lockdown: lockdown(&fs::read_to_string(roots.sys.join("kernel/security/lockdown")).unwrap_or_default()),
            first_pid_namespace: privilege::first_pid_namespace(roots),
            tracefs: TracefsAccess::read(&mounts),
            cgroup_v2: mounts::of_kind(&mounts, cgroup::V2).next().map(ToOwned::to_owned),
            schedstat: schedstat(&fs::read_to_string(roots.proc.join("self/schedstat")).unwrap_or_default()),
            cpus_online: Cpus::read(&roots.sys, "online").ok(),
            clock_source: fs::read_to_string(roots.sys.join(clock)).ok().map(|text| text.trim().to_owned()),
        }
    }

    /// Programs can be attached to typed tracepoints (kernel/trace/bpf_trace.c, from 5.5 on).
    pub fn typed_tracepoints(&self) -> bool {
        self.release.is_at_least(5, 5) && matches!(self.btf, KernelBtf::Present { .. })
    }

    /// The way `attach` takes here is by classic tracepoints, which do not tell all of a task.
    pub fn uses_classic_tracepoints(&self, attach: Attach) -> bool {
        attach == Attach::Classic || attach == Attach::Auto && self.btf == KernelBtf::Missing
    }

    /// The BPF ring buffer. A kernel that does not publish its types is judged by its version: Linux 6.12 was the first whose
    /// ring buffer has a lock that spins under PREEMPT_RT.
    pub fn ring_buffer(&self) -> RingBufferSupport {
        match &self.btf {
            KernelBtf::Present { ring_buffer, .. } => *ring_buffer,
            _ if !self.release.is_at_least(5, 8) => RingBufferSupport::Missing,
            _ if self.preempt_rt && !self.release.is_at_least(6, 12) => RingBufferSupport::SleepingLock,
            _ => RingBufferSupport::Usable,
        }
    }

    /// The kernel counts the events for which it skipped a program (`bpf_prog_info.recursion_misses`, from 5.12 on).
    pub fn counts_missed_runs(&self) -> bool {
        self.release.is_at_least(5, 12)
    }

    /// Whether a measurement that takes these resources and counts in this mode can begin.
    ///
    /// # Errors
    /// The first thing that is missing, with its remedy.
    pub fn check_can_measure(&self, resources: &Resources, mode: Mode) -> Result<()> {
        requirement::check(self, resources, mode)
    }
}

/// The word in brackets of `none [integrity] confidentiality`.
fn lockdown(text: &str) -> Lockdown {
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some(("integrity", _)) => Lockdown::Integrity,
        Some(("confidentiality", _)) => Lockdown::Confidentiality,
        _ => Lockdown::None,
    }
}

/// The word is one of `#1 SMP PREEMPT_RT Debian 5.10.251-1 (2026-02-11)`.
fn is_preempt_rt(version: &str) -> bool {
    version.split_whitespace().any(|word| word == "PREEMPT_RT")
}

/// This process has run, so a kernel that counts has counted: time on a CPU, time waiting, number of slices.
fn schedstat(text: &str) -> bool {
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.len() == 3 && fields.iter().any(|field| *field > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockdown_mode_is_the_word_in_brackets() {
        assert_eq!(lockdown("[none] integrity confidentiality\n"), Lockdown::None);
        assert_eq!(lockdown("none [integrity] confidentiality\n"), Lockdown::Integrity);
        assert_eq!(lockdown("none integrity [confidentiality]\n"), Lockdown::Confidentiality);
        assert_eq!(lockdown(""), Lockdown::None);
    }

    #[test]
    fn schedstat_that_stays_zero_does_not_count() {
        assert!(schedstat("1200 30 4\n"));
        assert!(!schedstat("0 0 0\n") && !schedstat(""));
    }

    #[test]
    fn a_file_that_is_named_and_missing_is_no_kernel_without_btf() {
        let features = Features::detect(Some(Path::new("/nonexistent/vmlinux")));
        assert_eq!(
            features.btf,
            KernelBtf::Unusable("there is no file `/nonexistent/vmlinux`, given with `--btf`".to_owned())
        );
    }

    #[test]
    fn preempt_rt_is_a_word_of_the_kernels_version() {
        assert!(is_preempt_rt("#1 SMP PREEMPT_RT Debian 5.10.251-1 (2026-02-11)"));
        assert!(!is_preempt_rt("#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-02-11)"));
    }

    #[test]
    fn without_btf_the_ring_buffer_of_an_old_rt_kernel_is_not_trusted() {
        let of = |release: &str, preempt_rt| {
            let release = Release::parse(release);
            Features { release, preempt_rt, btf: KernelBtf::Missing, ..requirement::tests::everything() }.ring_buffer()
        };
        assert_eq!(of("5.10.0-43-rt-amd64", true), RingBufferSupport::SleepingLock);
        assert_eq!(of("6.12.0-rt-amd64", true), RingBufferSupport::Usable);
        assert_eq!(of("5.10.0-46-cloud-amd64", false), RingBufferSupport::Usable);
        assert_eq!(of("5.4.0", false), RingBufferSupport::Missing);
    }

    #[test]
    fn a_kernel_without_btf_is_told_from_one_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots { sys: directory.path().to_owned(), ..Roots::default() };
        let features = Features::detect_in(&roots, &roots.btf());
        assert_eq!(features.btf, KernelBtf::Missing);
        assert!(!features.typed_tracepoints());
    }
}
