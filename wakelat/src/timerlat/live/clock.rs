//! From the clock of the tracer's interferences to the one that everything else has. Pure.
//!
//! The tracer stamps the beginning of an interference with `trace_clock_local()` (`time_get()`,
//! kernel/trace/trace_osnoise.c), whatever clock the buffer has. The event itself comes right after its end, which is the
//! beginning and the duration, and later by whatever interrupted it: the durations are net. So the least distance between
//! the event's own time and that sum is how far the clocks are apart on that CPU.

use std::collections::HashMap;

/// How long a distance is good for, before the clocks may have drifted apart by more than it says: ns.
const HALF_LIFE_NS: u64 = 1_000_000_000;

/// What is known of each CPU's clock.
#[derive(Clone, Debug, Default)]
pub struct LocalClock(HashMap<u32, ClockOffset>);

/// CLOCK_MONOTONIC less the local clock: the least seen in the half-life under way, and in the one before.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    least: i64,
    before: i64,
    since_ns: u64,
}

impl LocalClock {
    /// When an interference began by CLOCK_MONOTONIC: one that was reported at `at_ns` of that clock, began at `start_ns`
    /// of the local one, and took `duration_ns`. Never after `at_ns`.
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
    fn a_beginning_is_told_by_the_clock_of_the_event() {
        let mut clock = LocalClock::default();
        // 300 ns pass until the event is recorded, 100 at the least.
        assert_eq!(clock.start(0, APART + 1_300, 500, 500), APART + 800);
        assert_eq!(clock.start(0, APART + 2_100, 1_500, 500), APART + 1_600);
        // Interrupted for 10 µs: the beginning is where it was all the same.
        assert_eq!(clock.start(0, APART + 13_200, 2_000, 1_000), APART + 2_100);
    }

    #[test]
    fn every_cpu_has_a_clock_of_its_own() {
        let mut clock = LocalClock::default();
        assert_eq!(clock.start(0, 1_000, 400, 100), 900);
        assert_eq!(clock.start(1, 1_000, 4_000, 100), 900);
    }

    #[test]
    fn an_old_distance_is_forgotten() {
        let mut clock = LocalClock::default();
        clock.start(0, 1_000, 900, 100);
        // The clocks drift apart: a microsecond per half-life.
        let at = |n: u64| n * (HALF_LIFE_NS + 1) + n * 1_000;
        for n in 1..9 {
            let start = at(n) - n * 1_000 - 100;
            assert!(clock.start(0, at(n), start, 100) >= at(n) - 100 - 1_000, "{n}");
        }
    }
}
