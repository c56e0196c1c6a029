//! The clock of the BPF programs, read from user space.

use std::time::Duration;

use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// CLOCK_MONOTONIC in ns: what `bpf_ktime_get_ns` reads.
pub fn now_ns() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has CLOCK_MONOTONIC")).as_nanos() as u64
}

/// Keeps the CPU busy for `duration_ns`, without a system call that could block.
pub fn spin(duration_ns: u64) {
    let end = now_ns() + duration_ns;
    while now_ns() < end {}
}

/// Keeps the CPU busy for good.
///
/// Not with `spin_loop`: QEMU's translator leaves its loop at each `pause` (`do_pause`, target/i386/tcg/misc_helper.c),
/// which takes it a microsecond, while a guest whose time is counted in instructions sees a few ns of it pass. A slice of
/// the scheduler then takes seconds, and a test with a hog seems to hang.
pub fn burn() -> ! {
    let mut number = 0u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}

/// Blocks the calling task until `at_ns`: what a periodic workload does for a living.
pub fn block_until(at_ns: u64) {
    let at = Duration::from_nanos(at_ns).into();
    clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
        .expect("no signal handler is installed where workloads sleep");
}
