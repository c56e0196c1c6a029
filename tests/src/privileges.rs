//! The privileges of processes, and those that wakelat keeps.

use std::fs;

use rustix::thread::CapabilitySet;

/// The sets of capabilities in `/proc/PID/status`.
pub const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// A number in a file such as `/proc/PID/status`.
///
/// # Panics
/// If there is no such file or number.
pub fn status(path: &str, name: &str) -> u64 {
    let status = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("no {name} in {path}")).trim();
    let radix = if name.starts_with("Cap") { 16 } else { 10 };
    u64::from_str_radix(value, radix).unwrap_or_else(|error| panic!("{name}: {value}: {error}"))
}

/// The capabilities that this process has.
pub fn own() -> u64 {
    status("/proc/self/status", "CapPrm")
}

/// The version of this kernel.
pub fn version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs is mounted");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// The capabilities that reading maps needs: see docs/security.md.
pub fn for_maps() -> u64 {
    let is_open = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").is_ok_and(|off| off.trim() == "0");
    if version() >= (5, 19) || is_open { 0 } else { CapabilitySet::BPF.bits() }
}

/// What raising the priority later needs, where wakelat cannot raise its `RLIMIT_RTPRIO`.
pub fn for_real_time() -> u64 {
    let has_resource = own() & CapabilitySet::SYS_RESOURCE.bits() != 0;
    if has_resource { 0 } else { CapabilitySet::SYS_NICE.bits() }
}
