//! The rounds: each workload with each instrument in turn, and without any in between.

use serde::Serialize;

use super::affinity::CpuList;
use super::figures::{ComparedObservation, Figures};
use super::instrument::{FLOOR, Instrument, REFERENCE, SkippedInstrument};
use super::observation::{BenchContext, Observation};
use super::table::{self, FigureRow};
use super::workload::BenchWorkload;

/// How much to measure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BenchScale {
    /// How often each instrument runs under each workload.
    pub rounds: usize,
    /// The divisor of a run's length: each run does one in `part` of the rounds of a whole one.
    pub part: u64,
}

/// The results under one workload.
#[derive(Serialize)]
pub struct WorkloadResult<'a> {
    /// The workload's id.
    pub workload: &'static str,
    /// The description of the workload.
    pub about: &'static str,
    /// The CPUs it ran on.
    pub workload_cpus: Vec<usize>,
    /// The CPUs that the user-space programs of the tools ran on meanwhile.
    pub tool_cpus: Vec<usize>,
    /// The results of each instrument that ran.
    pub instruments: Vec<InstrumentResult<'a>>,
}

/// The results of one instrument under one workload.
#[derive(Serialize)]
pub struct InstrumentResult<'a> {
    /// The instrument's id.
    pub instrument: &'a str,
    #[serde(skip)]
    title: &'a str,
    /// The figures over all rounds.
    pub figures: Figures,
    /// The observations, round by round.
    pub rounds: Vec<Observation>,
}

/// Measures `instruments` under `workload`. Adds those that do not run here to `skipped`.
///
/// # Errors
/// Fails if the workload fails, or the run is interrupted.
pub fn measure_under<'a>(
    workload: &BenchWorkload,
    instruments: &'a [Instrument],
    allowed: &CpuList,
    scale: BenchScale,
    context: &BenchContext,
    skipped: &mut Vec<SkippedInstrument>,
) -> anyhow::Result<Option<WorkloadResult<'a>>> {
    let Some(cpus) = allowed.last(workload.cpus) else {
        eprintln!("bench: {} needs {} CPUs", workload.id, workload.cpus);
        return Ok(None);
    };
    let tool_cpus = allowed.besides(&cpus);
    let mut staged = workload.stage(cpus.clone(), scale.part, context.directory)?;
    // The first run finds cold caches and is not counted.
    staged.perform(context.interrupt)?;
    let mut before = staged.perform(context.interrupt)?;
    let mut rounds: Vec<Vec<Option<Observation>>> = Vec::new();
    for round in 0..scale.rounds {
        let mut observations: Vec<Option<Observation>> = instruments.iter().map(|_| None).collect();
        // Each round begins with another instrument, so that none is always the first or behind the same.
        for offset in 0..instruments.len() {
            let which = (round + offset) % instruments.len();
            let instrument = &instruments[which];
            if skipped.iter().any(|skipped| skipped.is(&instrument.id, workload.id)) {
                continue;
            }
            eprintln!("bench: {}, round {} of {}: {}", workload.id, round + 1, scale.rounds, instrument.title);
            let mut skip = |error: anyhow::Error, workload: Option<&'static str>| -> anyhow::Result<()> {
                context.interrupt.check()?;
                eprintln!("bench: {} is skipped: {error:#}", instrument.title);
                let (instrument, title) = (instrument.id.clone(), instrument.title.clone());
                skipped.push(SkippedInstrument { instrument, title, workload, reason: format!("{error:#}") });
                Ok(())
            };
            let tool = match context.start(instrument, &tool_cpus) {
                Ok(tool) => tool,
                Err(error) => {
                    skip(error, None)?;
                    continue;
                }
            };
            match context.observe(tool, &mut staged, before) {
                Ok(observation) => {
                    before = observation.after;
                    observations[which] = Some(observation);
                }
                Err(error) => {
                    skip(error, Some(workload.id))?;
                    before = staged.perform(context.interrupt)?;
                }
            }
        }
        rounds.push(observations);
    }
    Ok(Some(WorkloadResult {
        workload: workload.id,
        about: workload.about,
        workload_cpus: cpus.0,
        tool_cpus: tool_cpus.0,
        instruments: measured(instruments, &rounds),
    }))
}

/// Combines the rounds of each instrument. One that failed in a round is left out.
fn measured<'a>(instruments: &'a [Instrument], rounds: &[Vec<Option<Observation>>]) -> Vec<InstrumentResult<'a>> {
    let position = |id: &str| instruments.iter().position(|instrument| instrument.id == id);
    let (floor, reference) = (position(FLOOR), position(REFERENCE));
    let result = |which: usize| {
        let compared: Option<Vec<ComparedObservation>> = rounds
            .iter()
            .map(|round| {
                let at = |index: Option<usize>| round[index?].as_ref();
                Some(ComparedObservation { own: at(Some(which))?, floor: at(floor), reference: at(reference) })
            })
            .collect();
        let compared = compared?;
        Some(InstrumentResult {
            instrument: &instruments[which].id,
            title: &instruments[which].title,
            figures: Figures::of(&compared),
            rounds: compared.iter().map(|round| round.own.clone()).collect(),
        })
    };
    (0..instruments.len()).filter_map(result).collect()
}

impl WorkloadResult<'_> {
    /// The results as a section of the page.
    pub fn section(&self) -> String {
        let rows = self.instruments.iter().map(|measured| FigureRow {
            title: measured.title,
            floor: measured.instrument == FLOOR,
            figures: &measured.figures,
        });
        format!("**{}**: {}\n\n{}", self.workload, self.about, table::table(&rows.collect::<Vec<_>>()))
    }
}
