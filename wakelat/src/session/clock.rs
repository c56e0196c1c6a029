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
    read_unix_offset().0
}

/// Current offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC), if it differs from an earlier one
/// (`before_ns`) by a millisecond or more, because the wall clock was set or has drifted, or the machine was suspended;
/// or else the earlier one: ns.
pub fn followed_unix_offset_ns(before_ns: i64) -> i64 {
    follow(before_ns, read_unix_offset())
}

/// The offset that follows `before_ns`, if it is read as `now_ns` with an error of at most `error_ns`.
fn follow(before_ns: i64, (now_ns, error_ns): (i64, u64)) -> i64 {
    const SMALLEST_STEP_NS: u64 = 1_000_000;
    if now_ns.abs_diff(before_ns) < SMALLEST_STEP_NS.saturating_add(error_ns) { before_ns } else { now_ns }
}

/// The current offset from CLOCK_MONOTONIC to the Unix epoch, and how far it can be wrong, which is much if this thread
/// lost its CPU meanwhile: ns.
fn read_unix_offset() -> (i64, u64) {
    // CLOCK_MONOTONIC is read before and after CLOCK_REALTIME: the error of the middle is less than half of
    // the time between the two.
    let before = read(ClockId::Monotonic);
    let unix = read(ClockId::Realtime);
    let after = read(ClockId::Monotonic);
    (unix - before.midpoint(after), after.abs_diff(before))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    #[test]
    fn an_offset_follows_a_clock_that_was_set() {
        let now_ns = unix_offset_ns();
        for set_by_ns in [HOUR_NS, -HOUR_NS] {
            let followed_ns = followed_unix_offset_ns(now_ns - set_by_ns);
            assert!(followed_ns.abs_diff(now_ns) < HOUR_NS.unsigned_abs() / 2, "{followed_ns} is not {now_ns}");
        }
    }

    #[test]
    fn an_offset_does_not_follow_the_error_of_its_reading() {
        for (now_ns, error_ns, expected) in [
            (999_999, 0, 0),
            (-999_999, 0, 0),
            (1_000_000, 0, 1_000_000),
            (-1_000_000, 0, -1_000_000),
            // This thread lost its CPU while it read the clocks.
            (5_000_000, 10_000_000, 0),
            (HOUR_NS, 10_000_000, HOUR_NS),
        ] {
            assert_eq!(follow(0, (now_ns, error_ns)), expected, "{now_ns} ± {error_ns}");
        }
    }
}
