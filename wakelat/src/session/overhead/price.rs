//! The cost of measuring, in CPU time, and the pauses in which nothing is measured: pure.

use crate::collect::ProgramRunTotals;

/// The cost of measuring since the start, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadCost {
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
    /// The kernel's number of switches outside pauses.
    pub switches: u64,
    /// Length of the pauses: ns.
    pub paused_ns: u64,
    /// Time of the programs: ns.
    pub programs_ns: u64,
    /// Runs of programs that were timed.
    pub timed_runs: u64,
}

/// The time of the programs, as it was last reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramTimeEstimate {
    reported_ns: u64,
}

impl ProgramTimeEstimate {
    /// The time of the programs after these runs: ns. Never less than before: a later, cheaper run lowers
    /// the estimate for the runs that no timed run stood for yet.
    pub fn update(&mut self, runs: &ProgramRunTotals) -> u64 {
        self.reported_ns = self.reported_ns.max(runs.programs_ns());
        self.reported_ns
    }
}

/// How often the kernel has switched while the programs measured, and how long they paused.
#[derive(Clone, Copy, Debug)]
pub struct MeasuringTime {
    /// The kernel's count when the last period or pause began.
    since: u64,
    /// Switches in earlier periods.
    before: u64,
    paused_ns: u64,
    /// When the pause began: ns; `None` outside a pause.
    paused_at_ns: Option<u64>,
    /// Until when a reading outside a pause has reported the time as measured: ns. No later pause begins before that, so
    /// that the time measured never decreases.
    measured_until_ns: u64,
}

impl MeasuringTime {
    /// The programs measure from the kernel's count of `switches` on.
    pub fn new(switches: u64) -> Self {
        Self { since: switches, before: 0, paused_ns: 0, paused_at_ns: None, measured_until_ns: 0 }
    }

    /// Whether the run is in a pause.
    pub fn is_paused(&self) -> bool {
        self.paused_at_ns.is_some()
    }

    /// Switches outside pauses, up to the kernel's count of `switches`.
    pub fn switches(&self, switches: u64) -> u64 {
        self.before + if self.is_paused() { 0 } else { switches.saturating_sub(self.since) }
    }

    /// Length of the pauses until a reading at `now_ns`. If the programs have stopped by themselves (`stopped_at_ns`), the
    /// pause that follows begins then. Neither this nor the time that is left for measuring decreases: ns.
    pub fn paused_at_reading(&mut self, now_ns: u64, stopped_at_ns: Option<u64>) -> u64 {
        if !self.is_paused() {
            let until_ns = stopped_at_ns.map_or(now_ns, |stopped_at_ns| stopped_at_ns.min(now_ns));
            self.measured_until_ns = self.measured_until_ns.max(until_ns);
        }
        self.paused_ns + now_ns.saturating_sub(self.paused_at_ns.unwrap_or(self.measured_until_ns))
    }

    /// A pause begins at the kernel's count of `switches`.
    pub fn pause(&mut self, switches: u64, now_ns: u64) {
        self.before = self.switches(switches);
        self.paused_at_ns = Some(now_ns.max(self.measured_until_ns));
    }

    /// The pause ends at the kernel's count of `switches`. Returns its length: ns.
    pub fn resume(&mut self, switches: u64, now_ns: u64) -> u64 {
        let pause_ns = self.paused_at_ns.map_or(0, |paused_at_ns| now_ns.saturating_sub(paused_at_ns));
        self.paused_ns += pause_ns;
        (self.since, self.paused_at_ns, self.measured_until_ns) = (switches, None, now_ns);
        pause_ns
    }
}

#[cfg(test)]
mod tests {
    use wakelat_common::program_runs::RunTimeSums;

    use super::*;

    #[test]
    fn reported_time_does_not_decrease_when_runs_become_cheaper() {
        let runs = |count, runs, ns| ProgramRunTotals {
            count,
            measured: RunTimeSums { timed: 0, runs, ns, clock_ns: 0 },
            ..ProgramRunTotals::default()
        };
        let mut estimate = ProgramTimeEstimate::default();
        assert_eq!(estimate.update(&runs(64, 1, 1_000)), 64_000);
        assert_eq!(estimate.update(&runs(65, 65, 7_400)), 64_000);
        assert_eq!(estimate.update(&runs(1_000, 1_000, 100_000)), 100_000);
    }

    #[test]
    fn switches_in_a_pause_are_not_counted() {
        let mut time = MeasuringTime::new(1_000);
        assert_eq!((time.switches(1_300), time.paused_at_reading(5, None)), (300, 0));
        time.pause(1_500, 10);
        assert_eq!((time.switches(9_000), time.paused_at_reading(25, None)), (500, 15));
        assert_eq!(time.resume(10_000, 30), 20);
        assert_eq!((time.switches(10_100), time.paused_at_reading(99, None)), (600, 20));
        time.pause(10_200, 100);
        assert_eq!(time.resume(10_300, 101), 1);
        assert_eq!((time.switches(10_300), time.paused_at_reading(200, None)), (700, 21));
    }

    #[test]
    fn the_time_measured_does_not_decrease_when_the_programs_stop_by_themselves() {
        for seen in [true, false] {
            let mut time = MeasuringTime::new(0);
            assert_eq!(time.paused_at_reading(100, None), 0);
            // They stop at 195. A reading at 200 notices it, or comes too early to do so; then a pause begins.
            let stopped_at_ns = seen.then_some(195);
            let measured_ns = if seen { 195 } else { 200 };
            assert_eq!(200 - time.paused_at_reading(200, stopped_at_ns), measured_ns);
            time.pause(0, 195);
            assert_eq!(300 - time.paused_at_reading(300, Some(195)), measured_ns);
            time.resume(0, 400);
            assert_eq!(450 - time.paused_at_reading(450, None), measured_ns + 50);
        }
    }
}
