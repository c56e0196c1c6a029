//! The clocks: of the programs' timestamps, of wall time, and of the CPU time of this process.

use std::{path::Path, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use wakelat_kernel::task_schedstat::Schedstat;

/// Current CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns()`: ns.
pub fn monotonic_ns() -> u64 {
    u64::try_from(read(ClockId::Monotonic)).unwrap_or(0)
}

/// Current offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC): ns.
pub fn unix_offset_ns() -> i64 {
    // CLOCK_MONOTONIC is read before and after CLOCK_REALTIME: the error of the middle is less than half of
    // the time between the two.
    let before = read(ClockId::Monotonic);
    let unix = read(ClockId::Realtime);
    let after = read(ClockId::Monotonic);
    unix - before.midpoint(after)
}

/// Current offset from CLOCK_MONOTONIC to CLOCK_BOOTTIME, which also counts suspends: ns.
pub fn boottime_offset_ns() -> i64 {
    let before = read(ClockId::Monotonic);
    let boottime = read(ClockId::Boottime);
    let after = read(ClockId::Monotonic);
    // Without a suspend since the boot, the clocks are equal, and the difference is only the time between the readings.
    let offset_ns = boottime - before.midpoint(after);
    if offset_ns.abs() <= after - before { 0 } else { offset_ns }
}

/// CPU time of all threads of this process, in user space and in the kernel: ns.
pub fn cpu_ns() -> u64 {
    u64::try_from(read(ClockId::ProcessCPUTime)).unwrap_or(0)
}

/// CPU time of the calling thread, in user space and in the kernel: ns.
pub fn thread_cpu_ns() -> u64 {
    u64::try_from(read(ClockId::ThreadCPUTime)).unwrap_or(0)
}

/// The timer instant for a time of CLOCK_MONOTONIC.
pub fn instant(at_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()))
}

/// How long the calling thread was runnable and waited for a CPU: ns; `None` if the kernel does not count it.
pub fn run_delay_ns() -> Option<u64> {
    Schedstat::read(Path::new("/proc/thread-self")).map(|schedstat| schedstat.waited_ns)
}

fn read(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
