//! Measures the rate of the counter that an emulated guest uses as its clock.

use std::{
    arch::x86_64::_rdtsc,
    thread,
    time::{Duration, Instant},
};

/// Long enough for an error below 0.1 %; the guest refines the rate by itself.
const MEASURED_FOR: Duration = Duration::from_millis(50);

/// Measures the rate of this CPU's time stamp counter: kHz.
///
/// QEMU's translator shows the host's counter to the guest, unscaled, but not its rate. A guest that
/// measures the rate against an emulated timer while the host is busy has been seen to be wrong by a factor
/// of eight.
pub fn tsc_khz() -> u64 {
    let (started, first) = read_both();
    thread::sleep(MEASURED_FOR);
    let (ended, last) = read_both();
    let elapsed_ns = (ended - started).as_nanos();
    u64::try_from(u128::from(last.wrapping_sub(first)) * 1_000_000 / elapsed_ns.max(1)).unwrap_or(u64::MAX)
}

/// Reads both clocks: of several tries, returns the one with the least time between the two reads.
fn read_both() -> (Instant, u64) {
    let tries = (0..16).map(|_| {
        let before = Instant::now();
        // SAFETY: every x86-64 CPU has the instruction, and Linux lets programs use it.
        let counter = unsafe { _rdtsc() };
        (before.elapsed(), before, counter)
    });
    let (_, at, counter) = tries.min_by_key(|(took, ..)| *took).expect("several tries");
    (at, counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree_within_a_percent() {
        let (one, two) = (tsc_khz(), tsc_khz());
        assert!(one.abs_diff(two) * 100 < one, "{one} {two}");
    }
}
