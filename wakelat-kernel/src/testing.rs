//! Example machines and kernels, for tests.

use std::fs;

use rustix::thread::CapabilitySet;

use crate::{
    Features, Machine, Roots,
    btf::{KernelBtf, RingBufferSupport},
    cpus::Cpus,
    lockdown::Lockdown,
    mounts,
    privilege::Privileges,
    release::Release,
    tracefs_access::TracefsAccess,
};

/// A machine with four CPUs in a temporary directory: process 100 with thread 101, process 200, and the
/// cgroup `/kubepods` in a v2 hierarchy next to a v1 one.
pub fn arbitrary() -> (tempfile::TempDir, Machine) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for (id, tgid) in [(100, 100), (101, 100), (200, 200)] {
        fs::create_dir_all(root.join(format!("proc/{id}"))).unwrap();
        let status = format!("Name:\tx\nUmask:\t0022\nTgid:\t{tgid}\nPid:\t{id}\n");
        fs::write(root.join(format!("proc/{id}/status")), status).unwrap();
    }
    for path in ["v2/kubepods", "v1/kubepods", "plain"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    let mountinfo = format!(
        "1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {0}/v1 rw - cgroup b rw,cpu\n3 1 0:3 / {0}/v2 rw - cgroup2 c rw\n",
        root.display()
    );
    let machine = Machine {
        roots: Roots { proc: root.join("proc"), sys: root.join("sys") },
        cpus: Cpus::parse("0-3").unwrap(),
        pid_max: 32768,
        threads: 300,
        page_bytes: 4096,
        mounts: mounts::parse(&mountinfo),
        publishes_btf: true,
        first_pid_namespace: true,
    };
    (directory, machine)
}

/// A kernel with all features, and root privileges.
pub fn everything() -> Features {
    Features {
        release: Release::parse("6.12.0"),
        preempt_rt: false,
        btf_path: "/sys/kernel/btf/vmlinux".into(),
        btf: KernelBtf::Present { missing_tracepoints: Vec::new(), ring_buffer: RingBufferSupport::Usable },
        privileges: Privileges {
            effective: CapabilitySet::all(),
            first_user_namespace: true,
            memory_unlimited: true,
            max_rt_priority: 99,
        },
        lockdown: Lockdown::None,
        first_pid_namespace: true,
        tracefs: TracefsAccess::Open {
            path: "/sys/kernel/tracing".into(),
            hist_triggers: true,
            tracers: ["timerlat", "osnoise", "nop"].map(str::to_owned).to_vec(),
        },
        cgroup_v2: Some("/sys/fs/cgroup".into()),
        schedstat: true,
        landlock_abi: Some(6),
        seccomp: true,
        cpus_online: Some(Cpus::parse("0-3").unwrap()),
        clock_source: Some("tsc".to_owned()),
    }
}
