//! The clocks: what the programs stamp with, what people read, and what this process takes.

use std::{path::Path, time::Duration};

use tokio::time::Instant;

use crate::kernel::schedstat::Schedstat;

/// ns of CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns()`.
pub fn monotonic_ns() -> u64 {
    u64::try_from(read(libc::CLOCK_MONOTONIC)).unwrap_or(0)
}

/// What to add to CLOCK_MONOTONIC to have ns since 1970-01-01 UTC, as it stands now.
pub fn unix_offset_ns() -> i64 {
    // One clock read on either side of the other: the middle is off by less than half of the time between.
    let before = read(libc::CLOCK_MONOTONIC);
    let unix = read(libc::CLOCK_REALTIME);
    let after = read(libc::CLOCK_MONOTONIC);
    unix - before.midpoint(after)
}

/// ns that this process has been on a CPU, in user space and in the kernel, all threads together.
pub fn cpu_ns() -> u64 {
    u64::try_from(read(libc::CLOCK_PROCESS_CPUTIME_ID)).unwrap_or(0)
}

/// The instant of CLOCK_MONOTONIC for timers.
pub fn instant(at_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()))
}

/// ns that the calling thread has been runnable and waited for a CPU; none where the kernel does not count it.
pub fn run_delay_ns() -> Option<u64> {
    Schedstat::read(Path::new("/proc/thread-self")).map(|account| account.waited_ns)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; these clocks exist on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
