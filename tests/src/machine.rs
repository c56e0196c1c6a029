//! Properties of this machine, and what they mean for a test.

use std::fs;

use nix::{sched::sched_getaffinity, unistd::Pid};

use crate::skip::Skip;

/// The CPUs that a test may use, in ascending order.
pub fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).expect("a thread may ask for its own affinity");
    (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// The CPU that tests load: the last one, because most machines handle their interrupts on the first.
pub fn one_cpu() -> usize {
    *cpus().last().expect("a test runs on a CPU")
}

/// Two CPUs. Skips the test if there is only one.
pub fn two_cpus() -> Result<[usize; 2], Skip> {
    match cpus()[..] {
        [first, .., last] => Ok([first, last]),
        _ => Err(Skip::because("needs two CPUs, found one")),
    }
}

/// Whether the CPU is emulated in software, where time passes differently: a system call takes tens of µs.
pub fn is_emulated() -> bool {
    /// What QEMU's translator calls its CPU on x86, and on arm64 the implementer that the architecture reserves for
    /// software (`MIDR_EL1`).
    const NAMES: [&str; 2] = ["QEMU TCG", "CPU implementer\t: 0x00"];
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|info| NAMES.iter().any(|name| info.contains(name)))
}

/// Whether this machine's time passes only while it runs. Not so if an emulator follows the host's
/// time: the host may then stop it between any two instructions for milliseconds.
pub fn has_own_time() -> bool {
    // Set by `cargo xtask vm`.
    !is_emulated() || std::env::var_os("WAKELAT_VM").is_some_and(|mode| mode == "deterministic" || mode == "counted")
}

/// Whether this machine is a guest that exists only for its tests, which may set its clock.
pub fn is_test_guest() -> bool {
    // Set by `cargo xtask vm`.
    std::env::var_os("WAKELAT_VM").is_some()
}

/// Whether the kernel is built with PREEMPT_RT, where a task may sleep for a spinlock: a block and a
/// wakeup without a system call (Documentation/locking/locktypes.rst, `spinlock_t and PREEMPT_RT`).
pub fn is_preempt_rt() -> bool {
    fs::read_to_string("/proc/sys/kernel/version").is_ok_and(|version| version.contains("PREEMPT_RT"))
}

/// Whether the kernel's own records report a task that blocks on a lock as preempted: under PREEMPT_RT before 5.15
/// (`preempt_schedule_lock()`, kernel/sched/core.c of the patch).
pub fn records_blocks_on_locks_as_preemptions() -> bool {
    is_preempt_rt() && release() < (5, 15)
}

/// Whether a task may sleep for the lock of a BPF ring buffer (`spinlock_t` in `struct bpf_ringbuf`,
/// kernel/bpf/ringbuf.c): two CPUs that meet in a ring buffer while they hold their run queue locks
/// then freeze the machine. This is so under PREEMPT_RT before 6.0, unless a distribution has
/// backported the fix.
pub fn ring_buffer_may_sleep() -> bool {
    is_preempt_rt() && release() < (6, 0)
}

/// The first two numbers of the kernel's release.
fn release() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    let number = "a release begins with two numbers";
    (numbers.next().expect(number), numbers.next().expect(number))
}

/// Whether the kernel reserves a part of each CPU for tasks that are not real-time
/// (Documentation/scheduler/sched-rt-group.rst).
pub fn throttles_real_time() -> bool {
    let runtime_us = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    runtime_us.trim().parse::<i64>().is_ok_and(|runtime_us| runtime_us >= 0)
}

/// Size of a page of memory, and of a page of a trace buffer: bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Memory that is available to a test: bytes.
pub fn available_memory() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A `--ring-size` that also has room for the switches of any other load on this machine: an eighth of
/// the available memory, at most 256 MiB, in bytes.
pub fn ring_size() -> String {
    let room = (available_memory() / 8).clamp(4 << 20, 256 << 20);
    (1u64 << room.ilog2()).to_string()
}

/// Context switches of all CPUs since boot (`ctxt` in `/proc/stat`, `show_stat`, fs/proc/stat.c).
pub fn switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("procfs is mounted");
    let count = stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.parse().ok());
    count.expect("the kernel counts its switches")
}

/// Length of the unit of `/proc/stat` (`USER_HZ`): ns.
pub const STAT_UNIT_NS: u64 = 10_000_000;

/// How long CPU `cpu` has been idle: ns, in steps of a tick (`show_stat`, fs/proc/stat.c).
pub fn idle_ns(cpu: usize) -> u64 {
    stat_ns(cpu, 3)
}

/// How long the hypervisor had CPU `cpu`: ns, in steps of a tick (`show_stat`, fs/proc/stat.c).
pub fn stolen_ns(cpu: usize) -> u64 {
    stat_ns(cpu, 7)
}

/// A field of the line of a CPU in `/proc/stat`: ns.
fn stat_ns(cpu: usize, field: usize) -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("procfs is mounted");
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let time = line.and_then(|line| line.split_whitespace().nth(field)?.parse::<u64>().ok());
    time.expect("the kernel counts how a CPU spends its time") * STAT_UNIT_NS
}

/// Whether a structure of this kernel has a member called `name`, by the names in its BTF: for names that only one
/// structure has.
pub fn has_member(name: &str) -> bool {
    let names = fs::read("/sys/kernel/btf/vmlinux").expect("the kernel has BTF");
    let name = [b"\0", name.as_bytes(), b"\0"].concat();
    names.windows(name.len()).any(|bytes| bytes == name)
}
