//! Converts the times of interferences to the clock of everything else. Pure.
//!
//! The tracer takes the start of an interference from `trace_clock_local()` (`time_get()`,
//! kernel/trace/trace_osnoise.c), whatever the clock of the buffer is. The event itself is recorded right
//! after the end of the interference, which is the start plus the duration, but later by whatever
//! interrupted it, because durations are net. So the minimum distance between the time of the event and
//! that sum is the offset between the two clocks on that CPU.

use std::collections::HashMap;

/// How long a minimum distance is used: ns. After that, the clocks may have drifted further apart than it
/// shows.
const HALF_LIFE_NS: u64 = 1_000_000_000;

/// The offset of the local clock of each CPU.
#[derive(Clone, Debug, Default)]
pub struct LocalClock(HashMap<u32, ClockOffset>);

/// CLOCK_MONOTONIC minus the local clock: the minimum in the current half-life, and in the previous one.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    least: i64,
    before: i64,
    since_ns: u64,
}

impl LocalClock {
    /// Converts the start of an interference to CLOCK_MONOTONIC: it was reported at `at_ns` of that clock,
    /// began at `start_ns` of the local clock, and took `duration_ns`. The result is never after `at_ns`.
    pub fn start(&mut self, cpu: u32, at_ns: u64, start_ns: u64, duration_ns: u64) -> u64 {
        let distance = at_ns.wrapping_sub(start_ns.wrapping_add(duration_ns)).cast_signed();
        let known = self.0.entry(cpu).or_insert(ClockOffset { least: distance, before: distance, since_ns: at_ns });
        if at_ns.saturating_sub(known.since_ns) > HALF_LIFE_NS {
            *known = ClockOffset { least: distance, before: known.least, since_ns: at_ns };
        }
        known.least = known.least.min(distance);
        start_ns.wrapping_add_signed(known.least.min(known.before)).min(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: u64 = 7_000_000;

    #[test]
    fn the_start_is_converted_to_the_clock_of_the_event() {
        let mut clock = LocalClock::default();
        // 300 ns pass until the event is recorded; the minimum is 100 ns.
        assert_eq!(clock.start(0, APART + 1_300, 500, 500), APART + 800);
        assert_eq!(clock.start(0, APART + 2_100, 1_500, 500), APART + 1_600);
        // An interruption of 10 µs does not move the start.
        assert_eq!(clock.start(0, APART + 13_200, 2_000, 1_000), APART + 2_100);
    }

    #[test]
    fn every_cpu_has_a_clock_of_its_own() {
        let mut clock = LocalClock::default();
        assert_eq!(clock.start(0, 1_000, 400, 100), 900);
        assert_eq!(clock.start(1, 1_000, 4_000, 100), 900);
    }

    #[test]
    fn an_old_minimum_expires() {
        let mut clock = LocalClock::default();
        clock.start(0, 1_000, 900, 100);
        // The clocks drift apart by a microsecond per half-life.
        let at = |n: u64| n * (HALF_LIFE_NS + 1) + n * 1_000;
        for n in 1..9 {
            let start = at(n) - n * 1_000 - 100;
            assert!(clock.start(0, at(n), start, 100) >= at(n) - 100 - 1_000, "{n}");
        }
    }
}
