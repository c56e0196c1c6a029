//! How many runs the programs may have, under a limit of the overhead, and how many they had.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray},
};
use wakelat_common::share::CpuRuns;

use super::{Collector, load::take};

/// The maps of `wakelat-ebpf/src/budget.rs`, and the sampling level.
pub(super) struct RunBudget {
    runs: PerCpuArray<MapData, CpuRuns>,
    left: Array<MapData, i64>,
    stopped_at_ns: Array<MapData, u64>,
    sampling_shift: Array<MapData, u32>,
}

/// Runs of all programs on all CPUs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Those that measured.
    pub measured: u64,
    /// Those after the programs had stopped.
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
    /// Waits that begin from now on are sampled of one task in 2^`level`.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn set_sampling_shift(&mut self, level: u8) -> Result<()> {
        self.budget.sampling_shift.set(0, u32::from(level), 0).context("cannot change how many tasks are sampled")
    }

    /// The programs may have `runs` from now on, unless they have stopped.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn allow_runs(&mut self, runs: u64) -> Result<()> {
        let runs = i64::try_from(runs).unwrap_or(i64::MAX);
        self.budget.left.set(0, runs, 0).context("cannot change how many runs the programs may have")
    }

    /// Programs that have stopped measure again once they are attached. Only while they are detached: of a wait that
    /// goes on, they have missed events.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn clear_stop(&mut self) -> Result<()> {
        self.budget.stopped_at_ns.set(0, 0, 0).context("cannot let the programs measure again")
    }

    /// When the programs stopped: ns of CLOCK_MONOTONIC; none while they measure.
    ///
    /// # Errors
    /// Where the kernel refuses to read the map.
    pub fn stopped_at_ns(&self) -> Result<Option<u64>> {
        let at_ns = self.budget.stopped_at_ns.get(&0, 0).context("cannot read whether the programs have stopped")?;
        Ok((at_ns != 0).then_some(at_ns))
    }

    /// The runs so far. They are counted only under a limit.
    ///
    /// # Errors
    /// Where the kernel refuses to read the map.
    pub fn run_counts(&self) -> Result<RunCounts> {
        let per_cpu = self.budget.runs.get(&0, 0).context("cannot read how often the programs ran")?;
        Ok(per_cpu.iter().fold(RunCounts::default(), |sum, cpu| RunCounts {
            measured: sum.measured + cpu.measured,
            stopped: sum.stopped + cpu.stopped,
        }))
    }
}
