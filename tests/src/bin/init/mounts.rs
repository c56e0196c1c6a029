//! The file systems a test expects of any machine.

use std::fs;

use nix::mount::{MsFlags, mount};

use crate::machine;

/// Where, which, and with what options; parents first.
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

/// Mounts what this kernel has, and says what it has not.
pub fn mount_all() -> Vec<String> {
    let mut problems = Vec::new();
    for &(place, kind, options) in MOUNTS {
        // In sysfs the kernel makes the directories itself, where it has the file system.
        let _ = fs::create_dir_all(place);
        if let Err(error) = mount(Some(kind), place, Some(kind), MsFlags::empty(), options) {
            problems.push(format!("cannot mount {kind} on `{place}`: {error}"));
        }
    }
    if let Err(error) = machine::raise_loopback() {
        problems.push(format!("cannot raise the loopback interface: {error}"));
    }
    problems
}
