//! The file systems that tests expect on any machine.

use std::fs;

use nix::mount::{MsFlags, mount};

use crate::qemu_devices;

/// Mount point, type and options; parents first.
const MOUNTS: &[(&str, &str, Option<&str>)] = &[
    ("/proc", "proc", None),
    ("/sys", "sysfs", None),
    ("/dev", "devtmpfs", None),
    ("/dev/pts", "devpts", Some("ptmxmode=0666")),
    ("/dev/shm", "tmpfs", None),
    ("/tmp", "tmpfs", None),
    ("/sys/kernel/debug", "debugfs", None),
    ("/sys/kernel/tracing", "tracefs", None),
    ("/sys/fs/bpf", "bpf", None),
    ("/sys/fs/cgroup", "cgroup2", None),
];

/// Mounts the file systems that this kernel has, and returns an error for each of the others.
pub fn mount_all() -> Vec<String> {
    let mut problems = Vec::new();
    for &(place, kind, options) in MOUNTS {
        // In sysfs the kernel creates the directory itself if it has the file system.
        let _ = fs::create_dir_all(place);
        if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), options) {
            problems.push(format!("cannot mount {kind} on `{place}`: {error}"));
        }
    }
    if let Err(error) = qemu_devices::raise_loopback() {
        problems.push(format!("cannot raise the loopback interface: {error}"));
    }
    problems
}
