//! The rounds: each workload with each instrument in turn, and the workload by itself in between.

use serde::Serialize;

use super::affinity::CpuList;
use super::figures::{ComparedObservation, Figures};
use super::instrument::{FLOOR, Instrument, REFERENCE, SkippedInstrument};
use super::observation::{BenchContext, Observation};
use super::table::{self, FigureRow};
use super::workload::BenchWorkload;

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BenchScale {
    /// How often each instrument has its turn under each workload.
    pub rounds: usize,
    /// A performance is one such part of a whole one.
    pub part: u64,
}

/// What was found under one workload.
#[derive(Serialize)]
pub struct WorkloadResult<'a> {
    /// The workload's id.
    pub workload: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The CPUs it ran on.
    pub workload_cpus: Vec<usize>,
    /// The CPUs that programs of user space ran on meanwhile.
    pub tool_cpus: Vec<usize>,
    /// Each instrument that ran.
    pub instruments: Vec<InstrumentResult<'a>>,
}

/// What was found of one instrument under one workload.
#[derive(Serialize)]
pub struct InstrumentResult<'a> {
    /// The instrument's id.
    pub instrument: &'a str,
    #[serde(skip)]
    title: &'a str,
    /// Over all rounds.
    pub figures: Figures,
    /// Round by round.
    pub rounds: Vec<Observation>,
}

/// Measures `instruments` under `workload`. Those that do not run here join `skipped`.
///
/// # Errors
/// If the workload fails, or somebody wants everything to end.
pub fn measure_under<'a>(
    workload: &BenchWorkload,
    instruments: &'a [Instrument],
    allowed: &CpuList,
    extent: BenchScale,
    scene: &BenchContext,
    skipped: &mut Vec<SkippedInstrument>,
) -> anyhow::Result<Option<WorkloadResult<'a>>> {
    let Some(cpus) = allowed.last(workload.cpus) else {
        eprintln!("bench: {} needs {} CPUs", workload.id, workload.cpus);
        return Ok(None);
    };
    let tool_cpus = allowed.besides(&cpus);
    let mut staged = workload.stage(cpus.clone(), extent.part, scene.directory)?;
    // The first performance finds cold caches and is not counted.
    staged.perform(scene.interrupt)?;
    let mut before = staged.perform(scene.interrupt)?;
    let mut rounds: Vec<Vec<Option<Observation>>> = Vec::new();
    for round in 0..extent.rounds {
        let mut observations: Vec<Option<Observation>> = instruments.iter().map(|_| None).collect();
        // Each round begins with another one, so that none is always the first or behind the same.
        for turn in 0..instruments.len() {
            let which = (round + turn) % instruments.len();
            let instrument = &instruments[which];
            if skipped.iter().any(|skipped| skipped.is(&instrument.id, workload.id)) {
                continue;
            }
            eprintln!("bench: {}, round {} of {}: {}", workload.id, round + 1, extent.rounds, instrument.title);
            let mut skip = |error: anyhow::Error, workload: Option<&'static str>| -> anyhow::Result<()> {
                scene.interrupt.check()?;
                eprintln!("bench: {} is skipped: {error:#}", instrument.title);
                let (instrument, title) = (instrument.id.clone(), instrument.title.clone());
                skipped.push(SkippedInstrument { instrument, title, workload, reason: format!("{error:#}") });
                Ok(())
            };
            let tool = match scene.start(instrument, &tool_cpus) {
                Ok(tool) => tool,
                Err(error) => {
                    skip(error, None)?;
                    continue;
                }
            };
            match scene.observe(tool, &mut staged, before) {
                Ok(observation) => {
                    before = observation.after;
                    observations[which] = Some(observation);
                }
                Err(error) => {
                    skip(error, Some(workload.id))?;
                    before = staged.perform(scene.interrupt)?;
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

/// Puts each instrument's rounds together. One that failed in one round has none of them.
fn measured<'a>(instruments: &'a [Instrument], rounds: &[Vec<Option<Observation>>]) -> Vec<InstrumentResult<'a>> {
    let place = |id: &str| instruments.iter().position(|instrument| instrument.id == id);
    let (floor, reference) = (place(FLOOR), place(REFERENCE));
    let of = |which: usize| {
        let compared: Option<Vec<ComparedObservation>> = rounds
            .iter()
            .map(|round| {
                let at = |place: Option<usize>| round[place?].as_ref();
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
    (0..instruments.len()).filter_map(of).collect()
}

impl WorkloadResult<'_> {
    /// As a section of a page.
    pub fn section(&self) -> String {
        let rows = self.instruments.iter().map(|measured| FigureRow {
            title: measured.title,
            floor: measured.instrument == FLOOR,
            figures: &measured.figures,
        });
        format!("**{}**: {}\n\n{}", self.workload, self.about, table::table(&rows.collect::<Vec<_>>()))
    }
}
