//! The JSON document of an osnoise run.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use serde::Serialize;

use super::{
    super::osnoise_summary::{CpuNoise, NoiseSummary},
    coverage_document::LossesDocument,
    distribution_document::DistributionDocument,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NoiseDocument {
    /// `wakelat.osnoise/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.osnoise/1")))]
    schema: &'static str,
    /// All CPUs together.
    all: CpuNoiseDocument,
    /// Each CPU by itself.
    cpus: Vec<CpuNoiseDocument>,
    /// What was seen and what was not.
    coverage: NoiseCoverageDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NoiseCoverageDocument {
    /// Noise records.
    noise: u64,
    /// Length of the window; for a saved trace, time from its first record to its last.
    duration_ns: u64,
    #[serde(flatten)]
    losses: LossesDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CpuNoiseDocument {
    /// The CPU; absent from the sum of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    /// Periods of the workload that ended.
    periods: u64,
    /// How long the workload ran in these periods.
    runtime_ns: u64,
    /// How much of that time was noise; the sum of `single` if no period ended.
    noise_ns: u128,
    /// The most noise in one period.
    max_noise_ns: u64,
    /// Longest single noise; taken from `single` if no period ended.
    max_single_ns: u64,
    /// Noises without an interference known to the kernel.
    hw: u64,
    /// Non-maskable interrupts.
    nmi: u64,
    /// Interrupts.
    irq: u64,
    /// Softirqs.
    softirq: u64,
    /// Threads.
    thread: u64,
    /// Single noises that begin where the previous one ended, without an interference; if they are the majority,
    /// they are the cost of recording.
    back_to_back: u64,
    /// Single noises that were traced (`sample_threshold`); a distribution.
    single: DistributionDocument,
}

impl CpuNoiseDocument {
    fn new(cpu: Option<u32>, noise: &CpuNoise) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type() {
        json_schemas::assert_current::<NoiseDocument>();
    }
}
