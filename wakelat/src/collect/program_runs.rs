//! What the programs have counted and timed of their own runs.

use std::rc::Rc;

use wakelat_common::{
    cpu_words::CpuWords,
    program_runs::{ProgramKind, ProgramRuns, RunTimeSums},
};

use super::{Collector, mapped_array::MappedArray};

/// What `wakelat-ebpf/src/program_run_timer.rs` keeps.
pub(super) struct ProgramRunMap {
    words: Rc<MappedArray<CpuWords>>,
}

/// Runs of all programs on all CPUs since they were loaded, and what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramRunTotals {
    /// Number of runs, timed or not.
    pub count: u64,
    /// Times of runs that measured.
    pub measured: RunTimeSums,
    /// Times of runs after the programs had stopped.
    pub stopped: RunTimeSums,
}

impl ProgramRunTotals {
    fn add(&mut self, runs: &ProgramRuns) {
        self.count += runs.count;
        for (sum, times) in [(&mut self.measured, runs.measured), (&mut self.stopped, runs.stopped)] {
            sum.timed += times.timed;
            sum.runs += times.runs;
            sum.ns += times.ns;
            sum.clock_ns += times.clock_ns;
        }
    }

    /// Number of timed runs.
    pub fn timed(&self) -> u64 {
        self.measured.timed + self.stopped.timed
    }

    /// Estimated time of all runs, without the kernel's calls of the programs: ns. Runs since the last timed one on
    /// their CPU count with the mean.
    pub fn programs_ns(&self) -> u64 {
        let times = [self.measured, self.stopped];
        let represented: u64 = times.iter().map(|times| times.runs).sum();
        let programs_ns: u64 = times.iter().map(RunTimeSums::programs_ns).sum();
        let timing_ns: u64 = times.iter().map(RunTimeSums::timing_ns).sum();
        let later = u128::from(self.count.saturating_sub(represented));
        let later_ns = (later * u128::from(programs_ns)).checked_div(u128::from(represented)).unwrap_or(0);
        programs_ns + timing_ns + later_ns as u64
    }
}

impl ProgramRunMap {
    /// In the words of all CPUs.
    pub(super) fn of(words: &Rc<MappedArray<CpuWords>>) -> Self {
        Self { words: Rc::clone(words) }
    }

    fn sum(&self, kinds: &[ProgramKind]) -> ProgramRunTotals {
        let mut totals = ProgramRunTotals::default();
        for cpu in self.words.values() {
            kinds.iter().for_each(|kind| totals.add(&cpu.runs.kinds[*kind as usize]));
        }
        totals
    }
}

impl Collector {
    /// The runs of all programs so far.
    pub fn program_runs(&self) -> ProgramRunTotals {
        self.program_runs.sum(&[ProgramKind::Switch, ProgramKind::Other])
    }

    /// The context switches that the program on `sched_switch` has seen so far.
    pub fn switches_seen(&self) -> u64 {
        self.program_runs.sum(&[ProgramKind::Switch]).count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(timed: u64, runs: u64, ns: u64) -> RunTimeSums {
        // A reading of the clock takes 20 ns.
        RunTimeSums { timed, runs, ns: ns + runs * 20, clock_ns: runs * 20 }
    }

    #[test]
    fn runs_that_no_timed_run_stands_for_yet_count_with_the_mean() {
        let totals = ProgramRunTotals { count: 1_100, measured: times(10, 600, 60_000), stopped: times(5, 400, 4_000) };
        // 64 ns on average, after a beginning of 15 ns; and three readings of the clock in each of 15 runs.
        assert_eq!(totals.programs_ns(), 1_100 * (64 + 15) + 15 * 60);
        assert_eq!(totals.timed(), 15);
    }

    #[test]
    fn programs_that_have_not_run_took_no_time() {
        assert_eq!(ProgramRunTotals::default().programs_ns(), 0);
    }

    #[test]
    fn cpus_and_kinds_are_added_up() {
        let cpu = ProgramRuns { count: 7, measured: times(1, 7, 700), stopped: times(1, 2, 3), ..Default::default() };
        let mut totals = ProgramRunTotals::default();
        (0..3).for_each(|_| totals.add(&cpu));
        assert_eq!(totals, ProgramRunTotals { count: 21, measured: times(3, 21, 2_100), stopped: times(3, 6, 9) });
    }
}
