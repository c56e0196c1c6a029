//! Observes one instrument in one round.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use aya::sys::Stats;
use serde::Serialize;

use super::affinity::CpuList;
use super::instrument::Instrument;
use super::load::LoadTimes;
use super::losses::Losses;
use super::process_usage;
use super::programs::{EventRuns, RunsByEvent};
use super::running_instrument::{self, RunningInstrument};
use super::sigint::InterruptFlag;
use super::workload::PreparedWorkload;

/// One instrument in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Observation {
    /// Time from the start of the tool to the first event that it measured: seconds.
    pub start_s: Option<f64>,
    /// The workload without any instrument, right before.
    pub before: LoadTimes,
    /// The workload under the instrument.
    pub under: LoadTimes,
    /// The workload under the instrument while the kernel accounts BPF run times, which costs time itself.
    pub accounted: LoadTimes,
    /// The workload without any instrument, right after.
    pub after: LoadTimes,
    /// Runs of the instrument's BPF programs in `accounted`.
    pub runs: RunsByEvent,
    /// CPU time of the tool in `under`: seconds.
    pub tool_cpu_s: f64,
    /// Elapsed time that `tool_cpu_s` covers, which includes starting and ending the workload: seconds.
    pub tool_elapsed_s: f64,
    /// Memory of the tool at the end, if it is a program: bytes.
    pub resident_bytes: Option<u64>,
    /// Kernel memory of the tool's maps at the end: bytes.
    pub map_bytes: u64,
    /// What the tool reports as lost.
    pub losses: Option<Losses>,
}

/// What all observations of a run share.
pub struct BenchContext<'a> {
    /// The BPF object with the empty programs.
    pub empty_programs: &'a Path,
    /// The directory for files.
    pub directory: &'a Path,
    /// Whether the run has been interrupted.
    pub interrupt: &'a InterruptFlag,
}

impl BenchContext<'_> {
    /// Starts `instrument` on `cpus`. Also returns the time to its first event: seconds.
    ///
    /// # Errors
    /// Fails if it does not run here.
    pub fn start<'a>(
        &self,
        instrument: &'a Instrument,
        cpus: &CpuList,
    ) -> anyhow::Result<(RunningInstrument<'a>, Option<f64>)> {
        // The kernel counts a program's runs only while the statistics are enabled.
        let _accounting = enable_run_stats()?;
        running_instrument::start(instrument, self.empty_programs, cpus, self.directory, self.interrupt)
    }

    /// Observes `tool` under `workload`; `before` is the workload's last run without an instrument.
    pub fn observe(
        &self,
        (tool, start_s): (RunningInstrument, Option<f64>),
        workload: &mut PreparedWorkload,
        before: LoadTimes,
    ) -> anyhow::Result<Observation> {
        let processes = tool.processes()?;
        let (begin, cpu_before_s) = (Instant::now(), process_usage::cpu_s(&processes));
        let under = workload.perform(self.interrupt)?;
        let tool_elapsed_s = begin.elapsed().as_secs_f64();
        let tool_cpu_s = process_usage::cpu_s(&processes) - cpu_before_s;

        let accounting = enable_run_stats()?;
        let runs_before = tool.held()?.runs;
        let accounted = workload.perform(self.interrupt)?;
        let held = tool.held()?;
        drop(accounting);

        let resident_bytes = (!processes.is_empty()).then(|| process_usage::resident_bytes(&processes));
        let losses = tool.stop(self.interrupt)?;
        let after = workload.perform(self.interrupt)?;
        let since = |runs: &EventRuns, event| runs.since(runs_before.get(event).copied().unwrap_or_default());
        let runs = held.runs.iter().map(|(event, runs)| (*event, since(runs, event))).collect();
        Ok(Observation {
            start_s,
            before,
            under,
            accounted,
            after,
            runs,
            tool_cpu_s,
            tool_elapsed_s,
            resident_bytes,
            map_bytes: held.map_bytes,
            losses,
        })
    }
}

/// Makes the kernel account the run times of BPF programs until the result is dropped.
fn enable_run_stats() -> anyhow::Result<OwnedFd> {
    aya::sys::enable_stats(Stats::RunTime).context("the kernel does not account BPF run times")
}
