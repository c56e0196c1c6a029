//! The JSON document of an osnoise run, field by field, as described in docs/output.md.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use serde::Serialize;

use super::{
    super::osnoise_summary::{CpuNoise, NoiseSummary},
    timerlat_document::{DistributionDocument, LossesDocument},
};

/// Renders `wakelat.osnoise/1` of a run.
pub fn noise(summary: &NoiseSummary) -> serde_json::Result<String> {
    let document = NoiseDocument {
        schema: "wakelat.osnoise/1",
        all: CpuNoiseDocument::new(None, &summary.all),
        cpus: summary.cpus.iter().map(|(cpu, noise)| CpuNoiseDocument::new(Some(*cpu), noise)).collect(),
        coverage: NoiseCoverageDocument {
            noise: summary.coverage.noise,
            duration_ns: summary.coverage.duration_ns,
            losses: LossesDocument::new(&summary.coverage),
        },
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

#[derive(Serialize)]
struct NoiseDocument<'a> {
    schema: &'static str,
    all: CpuNoiseDocument<'a>,
    cpus: Vec<CpuNoiseDocument<'a>>,
    coverage: NoiseCoverageDocument,
}

#[derive(Serialize)]
struct NoiseCoverageDocument {
    noise: u64,
    duration_ns: u64,
    #[serde(flatten)]
    losses: LossesDocument,
}

#[derive(Serialize)]
struct CpuNoiseDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    periods: u64,
    runtime_ns: u64,
    noise_ns: u128,
    max_noise_ns: u64,
    max_single_ns: u64,
    hw: u64,
    nmi: u64,
    irq: u64,
    softirq: u64,
    thread: u64,
    back_to_back: u64,
    single: DistributionDocument<'a>,
}

impl<'a> CpuNoiseDocument<'a> {
    fn new(cpu: Option<u32>, noise: &'a CpuNoise) -> Self {
        let counts = noise.counts();
        Self {
            cpu,
            periods: noise.periods,
            runtime_ns: noise.runtime_ns,
            noise_ns: noise.noise_ns(),
            max_noise_ns: noise.max_noise_ns,
            max_single_ns: noise.max_single_ns(),
            hw: counts.hw,
            nmi: counts.nmi,
            irq: counts.irq,
            softirq: counts.softirq,
            thread: counts.thread,
            back_to_back: noise.back_to_back,
            single: DistributionDocument::new(&noise.samples),
        }
    }
}
