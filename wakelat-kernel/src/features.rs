//! The features of this kernel and the privileges of this user.

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
    lockdown::Lockdown,
    mounts,
    privilege::{self, Privileges},
    release::Release,
    requirement,
    tracefs_access::TracefsAccess,
};
use crate::attach_choice::Attach;
use wakelat_core::report::Mode;

/// The features of this kernel and the privileges of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel's release.
    pub release: Release,
    /// Whether the kernel is fully preemptible (`CONFIG_PREEMPT_RT`), according to `uname -v` (init/Makefile,
    /// scripts/mkcompile_h).
    pub preempt_rt: bool,
    /// Path of the kernel's BTF.
    pub btf_path: PathBuf,
    /// What the kernel's BTF contains.
    pub btf: KernelBtf,
    /// The privileges of this process.
    pub privileges: Privileges,
    /// The kernel's lockdown mode.
    pub lockdown: Lockdown,
    /// Whether this process is in the initial PID namespace, and so sees the same IDs as the BPF programs.
    pub first_pid_namespace: bool,
    /// Access to tracefs, and its features.
    pub tracefs: TracefsAccess,
    /// Mount point of the cgroup v2 hierarchy.
    pub cgroup_v2: Option<PathBuf>,
    /// Whether `/proc/PID/schedstat` counts (`CONFIG_SCHED_INFO`): an independent count of waits.
    pub schedstat: bool,
    /// The version of Landlock's interface, which restricts files; `None` if it is not available.
    pub landlock_abi: Option<i32>,
    /// Whether system calls can be restricted with seccomp.
    pub seccomp: bool,
    /// The online CPUs.
    pub cpus_online: Option<Cpus>,
    /// The kernel's current clock source.
    pub clock_source: Option<String>,
}

impl Features {
    /// Detects the features. `btf` is the path of the kernel's BTF if it is not in its usual place; the
    /// file must exist.
    pub fn detect(btf: Option<&Path>) -> Self {
        let roots = Roots::default();
        let mut features = Self::detect_in(&roots, btf.unwrap_or(&roots.btf()));
        if let (Some(path), KernelBtf::Missing) = (btf, &features.btf) {
            features.btf =
                KernelBtf::Unusable(format!("the file `{}`, given with `--btf`, does not exist", path.display()));
        }
        features
    }

    /// Detects the features with procfs and sysfs at `roots`. A feature that cannot be read counts as absent.
    pub fn detect_in(roots: &Roots, btf: &Path) -> Self {
        let mounts = mounts::parse(&fs::read_to_string(roots.proc.join("self/mountinfo")).unwrap_or_default());
        let clock = "devices/system/clocksource/clocksource0/current_clocksource";
        Self {
            release: Release::running(),
            preempt_rt: is_preempt_rt(),
            btf: KernelBtf::read(btf),
            btf_path: btf.to_owned(),
            privileges: Privileges::detect(roots),
            lockdown: Lockdown::parse(
                &fs::read_to_string(roots.sys.join("kernel/security/lockdown")).unwrap_or_default(),
            ),
            first_pid_namespace: privilege::first_pid_namespace(roots),
            tracefs: TracefsAccess::read(&mounts),
            cgroup_v2: mounts::of_kind(&mounts, cgroup::V2).next().map(ToOwned::to_owned),
            schedstat: schedstat(&fs::read_to_string(roots.proc.join("self/schedstat")).unwrap_or_default()),
            landlock_abi: wakelat_sandbox::landlock_abi(),
            seccomp: wakelat_sandbox::has_seccomp(),
            cpus_online: Cpus::read(&roots.sys, "online").ok(),
            clock_source: fs::read_to_string(roots.sys.join(clock)).ok().map(|text| text.trim().to_owned()),
        }
    }

    /// Whether programs can be attached to typed tracepoints (kernel/trace/bpf_trace.c, from 5.5 on).
    pub fn typed_tracepoints(&self) -> bool {
        self.release.is_at_least(5, 5) && matches!(self.btf, KernelBtf::Present { .. })
    }

    /// Whether `attach` results in classic tracepoints here, which do not provide all data about a task.
    pub fn uses_classic_tracepoints(&self, attach: Attach) -> bool {
        attach == Attach::Classic || attach == Attach::Auto && self.btf == KernelBtf::Missing
    }

    /// Support for the BPF ring buffer. For a kernel without usable BTF, the version decides: Linux 6.12
    /// was the first whose ring buffer has a lock that spins under PREEMPT_RT.
    pub fn ring_buffer(&self) -> RingBufferSupport {
        match &self.btf {
            KernelBtf::Present { ring_buffer, .. } => *ring_buffer,
            _ if !self.release.is_at_least(5, 8) => RingBufferSupport::Missing,
            _ if self.preempt_rt && !self.release.is_at_least(6, 12) => RingBufferSupport::SleepingLock,
            _ => RingBufferSupport::Usable,
        }
    }

    /// Whether the kernel counts the events for which it skipped a program that is attached as it is by default.
    pub fn counts_missed_runs(&self) -> bool {
        counts_missed_runs(&self.release, self.uses_classic_tracepoints(Attach::Auto))
    }

    /// Checks that a measurement can begin with programs attached like this, with this SCHED_FIFO priority of the
    /// reader, and in this mode.
    ///
    /// # Errors
    /// The first missing requirement, with its remedy.
    pub fn check_can_measure(&self, attach: Attach, rt_priority: Option<u8>, mode: Mode) -> Result<()> {
        requirement::check(self, attach, rt_priority, mode)
    }
}

/// Whether a kernel counts the events for which it skipped a program (`recursion_misses`, kernel/bpf/syscall.c, since 5.12;
/// of a classic tracepoint `trace_call_bpf`, kernel/trace/bpf_trace.c, since 6.7).
pub fn counts_missed_runs(release: &Release, is_classic: bool) -> bool {
    if is_classic { release.is_at_least(6, 7) } else { release.is_at_least(5, 12) }
}

/// Whether the running kernel is fully preemptible (`CONFIG_PREEMPT_RT`).
pub fn is_preempt_rt() -> bool {
    has_preempt_rt(&rustix::system::uname().version().to_string_lossy())
}

/// Whether `PREEMPT_RT` is a word of the version, as in `#1 SMP PREEMPT_RT Debian 5.10.251-1 (2026-02-11)`.
fn has_preempt_rt(version: &str) -> bool {
    version.split_whitespace().any(|word| word == "PREEMPT_RT")
}

/// Whether the kernel counts: this process has run, so not all of run time, waiting time and number of
/// slices can be 0.
fn schedstat(text: &str) -> bool {
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.len() == 3 && fields.iter().any(|field| *field > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_programs_of_classic_tracepoints_are_counted_since_6_7() {
        let of = |release, is_classic| counts_missed_runs(&Release::parse(release), is_classic);
        assert_eq!(
            [of("5.10", false), of("5.12", false), of("6.6", true), of("6.7", true)],
            [false, true, false, true]
        );
    }

    #[test]
    fn schedstat_that_stays_zero_does_not_count() {
        assert!(schedstat("1200 30 4\n"));
        assert!(!schedstat("0 0 0\n") && !schedstat(""));
    }

    #[test]
    fn a_missing_btf_file_is_not_reported_as_a_kernel_without_btf() {
        let features = Features::detect(Some(Path::new("/nonexistent/vmlinux")));
        assert_eq!(
            features.btf,
            KernelBtf::Unusable("the file `/nonexistent/vmlinux`, given with `--btf`, does not exist".to_owned())
        );
    }

    #[test]
    fn preempt_rt_is_found_in_the_kernels_version() {
        assert!(has_preempt_rt("#1 SMP PREEMPT_RT Debian 5.10.251-1 (2026-02-11)"));
        assert!(!has_preempt_rt("#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-02-11)"));
    }

    #[test]
    fn without_btf_the_ring_buffer_of_an_old_rt_kernel_counts_as_unsafe() {
        let of = |release: &str, preempt_rt| {
            let release = Release::parse(release);
            Features { release, preempt_rt, btf: KernelBtf::Missing, ..crate::testing::everything() }.ring_buffer()
        };
        assert_eq!(of("5.10.0-43-rt-amd64", true), RingBufferSupport::SleepingLock);
        assert_eq!(of("6.12.0-rt-amd64", true), RingBufferSupport::Usable);
        assert_eq!(of("5.10.0-46-cloud-amd64", false), RingBufferSupport::Usable);
        assert_eq!(of("5.4.0", false), RingBufferSupport::Missing);
    }

    #[test]
    fn a_kernel_without_btf_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots { sys: directory.path().to_owned(), ..Roots::default() };
        let features = Features::detect_in(&roots, &roots.btf());
        assert_eq!(features.btf, KernelBtf::Missing);
        assert!(!features.typed_tracepoints());
    }
}
