//! The run budget of the programs under an overhead limit, and the counts of their runs.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray},
};
use wakelat_common::program_run_budget::CpuRuns;

use super::{Collector, map::take};

/// The maps of `wakelat-ebpf/src/program_run_budget.rs`, and the sampling shift.
pub(super) struct RunBudget {
    runs: PerCpuArray<MapData, CpuRuns>,
    left: Array<MapData, i64>,
    stopped_at_ns: Array<MapData, u64>,
    sampling_shift: Array<MapData, u32>,
}

/// Runs of all programs on all CPUs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Runs that measured.
    pub measured: u64,
    /// Runs after the programs had stopped.
    pub stopped: u64,
}

impl RunBudget {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            runs: PerCpuArray::try_from(take(ebpf, "RUNS")?)?,
            left: Array::try_from(take(ebpf, "RUNS_LEFT")?)?,
            stopped_at_ns: Array::try_from(take(ebpf, "STOPPED_AT")?)?,
            sampling_shift: Array::try_from(take(ebpf, "SAMPLING_SHIFT")?)?,
        })
    }
}

impl Collector {
    /// Sets the sampling shift: waits that begin from now on are measured for one task in 2^`shift`.
    pub fn set_sampling_shift(&mut self, shift: u8) -> Result<()> {
        self.budget.sampling_shift.set(0, u32::from(shift), 0).context("cannot change the sampling rate")
    }

    /// Sets the budget: the programs may run `runs` times from now on, unless they have stopped.
    pub fn allow_runs(&mut self, runs: u64) -> Result<()> {
        let runs = i64::try_from(runs).unwrap_or(i64::MAX);
        self.budget.left.set(0, runs, 0).context("cannot set the run budget of the BPF programs")
    }

    /// Stops the programs at `now_ns` (CLOCK_MONOTONIC), unless they have stopped: they return at once from now on.
    /// Programs that are running may still measure: see [`Self::pause_and`].
    ///
    /// # Errors
    /// If the kernel refuses to read or write the map.
    pub fn stop(&mut self, now_ns: u64) -> Result<()> {
        if self.stopped_at_ns()?.is_some() {
            return Ok(());
        }
        self.budget.stopped_at_ns.set(0, now_ns, 0).context("cannot stop the BPF programs")
    }

    /// Lets stopped programs measure again. They have missed events of the waits that were pending, so call this
    /// only after [`Self::take_pending`].
    pub fn clear_stop(&mut self) -> Result<()> {
        self.budget.stopped_at_ns.set(0, 0, 0).context("cannot resume the BPF programs")
    }

    /// When the programs stopped: ns of CLOCK_MONOTONIC; `None` while they measure.
    pub fn stopped_at_ns(&self) -> Result<Option<u64>> {
        let at_ns =
            self.budget.stopped_at_ns.get(&0, 0).context("cannot read whether the BPF programs have stopped")?;
        Ok((at_ns != 0).then_some(at_ns))
    }

    /// Reads the runs so far, which are counted only under a limit.
    pub fn run_counts(&self) -> Result<RunCounts> {
        let per_cpu = self.budget.runs.get(&0, 0).context("cannot read the run counts of the BPF programs")?;
        Ok(per_cpu.iter().fold(RunCounts::default(), |sum, cpu| RunCounts {
            measured: sum.measured + cpu.measured,
            stopped: sum.stopped + cpu.stopped,
        }))
    }
}
