//! The clock of the BPF programs, read from user space.

use std::time::Duration;

use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// CLOCK_MONOTONIC in ns: what `bpf_ktime_get_ns` reads.
pub fn now_ns() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has CLOCK_MONOTONIC")).as_nanos() as u64
}

/// Keeps the CPU busy for `duration_ns`, without a system call that could block. Returns for how many
/// ns of this nothing else ran on the CPU: two readings of the clock that are unusually far apart have
/// an interrupt between them.
pub fn spin(duration_ns: u64) -> u64 {
    /// Longer than one reading takes, even in an emulator, and shorter than most interrupts.
    const STEP_NS: u64 = 5_000;
    let mut last_ns = now_ns();
    let (end_ns, mut own_ns) = (last_ns + duration_ns, 0);
    while last_ns < end_ns {
        let now_ns = now_ns();
        let step_ns = now_ns - last_ns;
        own_ns += if step_ns <= STEP_NS { step_ns } else { 0 };
        last_ns = now_ns;
    }
    own_ns
}

/// Keeps the CPU busy until another CPU has made `is_so` true. If an emulator runs the CPUs in turn,
/// `spin_loop` lets the others run: see [`burn`].
pub fn spin_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::hint::spin_loop();
    }
}

/// Keeps the CPU busy forever.
///
/// Does not use `spin_loop`: QEMU's translator leaves its loop at each `pause` (`do_pause`,
/// target/i386/tcg/misc_helper.c), which takes it a microsecond, while a guest whose time is counted in
/// instructions sees only a few ns pass. A slice of the scheduler then takes seconds, and a test with a
/// hog seems to hang.
pub fn burn() -> ! {
    let mut number = 0u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}

/// Blocks the calling task until `at_ns` (CLOCK_MONOTONIC), as a periodic workload does.
pub fn block_until(at_ns: u64) {
    let at = Duration::from_nanos(at_ns).into();
    clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
        .expect("no signal handler is installed where workloads sleep");
}
