//! The JSON document of a timerlat run.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use crate::softirq::softirq_name;
use serde::Serialize;

use super::{
    super::{
        explain::{CauseShare, ExplainedActivation, LatencyCause},
        finding::{TimerlatFinding, findings},
        record::TimerlatContext,
        summary::{Latencies, ShareSum, TimerlatSummary, TimerlatSummaryOptions},
    },
    coverage_document::TimerlatCoverageDocument,
    distribution_document::DistributionDocument,
    finding, labels,
};
use crate::render::Style;

/// Renders `wakelat.timerlat/1` of a run, with the given activations.
pub fn run(summary: &TimerlatSummary, activations: &[ExplainedActivation]) -> serde_json::Result<String> {
    let mut text = TimerlatDocumentWriter::new(&summary.options);
    Ok(text.activations(activations)? + &text.end(summary)?)
}

/// Writes `wakelat.timerlat/1` in pieces: any number of activations as they complete, and the sums at the
/// end.
#[derive(Debug)]
pub struct TimerlatDocumentWriter {
    threshold_ns: Option<u64>,
    begun: bool,
}

impl TimerlatDocumentWriter {
    /// Creates a writer that has written nothing.
    pub fn new(options: &TimerlatSummaryOptions) -> Self {
        Self { threshold_ns: options.threshold_ns, begun: false }
    }

    /// Returns the next piece of the document, with the given activations; empty if there are none.
    pub fn activations(&mut self, activations: &[ExplainedActivation]) -> serde_json::Result<String> {
        let mut text = String::new();
        for one in activations {
            text += &self.before_next()?;
            text += &serde_json::to_string(&ActivationDocument::new(one))?;
        }
        Ok(text)
    }

    /// Returns the last piece of the document.
    pub fn end(&mut self, summary: &TimerlatSummary) -> serde_json::Result<String> {
        let before = if self.begun { String::new() } else { self.before_next()? };
        let sums = serde_json::to_string(&SumsDocument {
            all: LatenciesDocument::new(None, &summary.all),
            cpus: summary.cpus.iter().map(|(cpu, latencies)| LatenciesDocument::new(Some(*cpu), latencies)).collect(),
            findings: findings(summary).iter().map(FindingDocument::new).collect(),
            explained: ExplainedDocument {
                activations: summary.explained,
                sum_ns: summary.explained_ns,
                shares: summary.shares_by_size().into_iter().map(SumDocument::new).collect(),
            },
            coverage: TimerlatCoverageDocument::new(&summary.coverage),
        })?;
        // The fields of the sums continue the object that the head began.
        Ok(format!("{before}],{}\n", sums.trim_start_matches('{')))
    }

    fn before_next(&mut self) -> serde_json::Result<String> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(",".to_owned());
        }
        let head = HeadDocument { schema: "wakelat.timerlat/1", threshold_ns: self.threshold_ns };
        Ok(format!("{},\"activations\":[", serde_json::to_string(&head)?.trim_end_matches('}')))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HeadDocument {
    /// `wakelat.timerlat/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.timerlat/1")))]
    schema: &'static str,
    /// The latency from which an activation is explained; `null` if every activation is.
    threshold_ns: Option<u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SumsDocument {
    /// All CPUs together.
    all: LatenciesDocument,
    /// Each CPU by itself.
    cpus: Vec<LatenciesDocument>,
    /// The causes that are large enough, largest first: timerlat.md.
    findings: Vec<FindingDocument>,
    /// All activations that reached the threshold.
    explained: ExplainedDocument,
    /// What was seen and what was not.
    coverage: TimerlatCoverageDocument,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LatenciesDocument {
    /// The CPU; absent from the sum of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    /// Activations that reached the threshold; 0 without a threshold.
    over: u64,
    /// Latency measured by the timer interrupt; a distribution.
    irq: DistributionDocument,
    /// Latency measured by the thread; a distribution.
    thread: DistributionDocument,
    /// Latency measured by a user-space thread on its return; a distribution.
    user: DistributionDocument,
}

impl LatenciesDocument {
    fn new(cpu: Option<u32>, latencies: &Latencies) -> Self {
        let of = |context| DistributionDocument::new(latencies.of(context));
        let [irq, thread, user] = TimerlatContext::ALL.map(of);
        Self { cpu, over: latencies.over, irq, thread, user }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExplainedDocument {
    /// Number of activations.
    activations: u64,
    /// Sum of their latencies, which is also the sum of the shares.
    sum_ns: u128,
    /// Time by cause, largest first.
    shares: Vec<SumDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseDocument {
    /// `irq_delay`, `idle_exit`, `timer_irq`, `irq`, `softirq`, `nmi`, `blocking_thread`, `thread`, `scheduling`,
    /// `user_space`, `unexplained`: timerlat.md.
    #[cfg_attr(test, schemars(extend("enum" = super::csv::KINDS)))]
    cause: &'static str,
    /// Name of the interrupt, the softirq or the thread.
    name: Option<String>,
    /// Number of the interrupt or the softirq.
    vector: Option<i32>,
    /// Thread; 0 is the idle task.
    tid: Option<u32>,
}

impl CauseDocument {
    fn new(cause: &LatencyCause) -> Self {
        let (name, vector, tid) = match cause {
            LatencyCause::TimerIrq(name, vector) | LatencyCause::Irq(name, vector) => {
                (Some(name.clone()), Some(*vector), None)
            }
            LatencyCause::Softirq(vector) => (softirq_name(*vector).map(str::to_owned), Some(*vector), None),
            LatencyCause::Blocking(task) | LatencyCause::Thread(task) => {
                (Some(task.comm.to_string()), None, Some(task.tid))
            }
            _ => (None, None, None),
        };
        Self { cause: labels::kind(cause), name, vector, tid }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    /// Time of the cause in all explained activations.
    sum_ns: u128,
    /// Sum of the latencies of these activations.
    of_ns: u128,
    /// Longest time of the cause in one activation.
    max_ns: u64,
    /// Latency of that activation.
    max_of_ns: u64,
    /// What was found, in words.
    evidence: String,
    /// What to do about it, in words.
    remedy: String,
}

impl FindingDocument {
    fn new(found: &TimerlatFinding) -> Self {
        let TimerlatFinding { cause, sum, total_ns } = found;
        let style = Style { unicode: true, width: usize::MAX, ..Style::default() };
        Self {
            cause: CauseDocument::new(cause),
            sum_ns: sum.ns,
            of_ns: *total_ns,
            max_ns: sum.max_ns,
            max_of_ns: sum.max_of_ns,
            evidence: finding::evidence(found, &style),
            remedy: finding::remedy(found),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SumDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    /// Time of the cause.
    sum_ns: u128,
    /// Longest time in one activation.
    max_ns: u64,
    /// Number of activations that contain the cause.
    activations: u64,
    /// Number of separate occurrences.
    times: u64,
}

impl SumDocument {
    fn new((cause, sum): (&LatencyCause, &ShareSum)) -> Self {
        let ShareSum { ns, max_ns, activations, times, .. } = *sum;
        Self { cause: CauseDocument::new(cause), sum_ns: ns, max_ns, activations, times }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ActivationDocument {
    /// CPU of the activation.
    cpu: u32,
    /// Number of the activation on that CPU.
    seq: u64,
    /// Where the last latency was measured: `irq`, `thread`, `user`.
    #[cfg_attr(test, schemars(extend("enum" = TimerlatContext::ALL.map(labels::context))))]
    context: &'static str,
    /// The last latency.
    latency_ns: u64,
    /// When the timer was due, by the clock of the trace.
    due_at_ns: u64,
    /// Latency of the interrupt.
    irq_ns: Option<u64>,
    /// Latency of the thread.
    thread_ns: Option<u64>,
    /// Latency of the return to user space.
    user_ns: Option<u64>,
    /// Where the latency went, in order of time; the shares add up to `latency_ns`.
    shares: Vec<ShareDocument>,
    /// Functions that the interrupt found, its own first.
    stack: Vec<String>,
    /// Whether events of this CPU were lost during the activation.
    lossy: bool,
    /// Noise records of the activation that wakelat has not kept, because there were too many; their time is
    /// unexplained.
    noise_left_out: u64,
    /// What the tracer printed when it stopped in this activation.
    stopped: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShareDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    /// Time of the cause.
    ns: u64,
    /// Number of separate occurrences.
    times: u64,
    /// When the cause was active, including what interrupted it; empty for unexplained time.
    spans: Vec<SpanDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpanDocument {
    /// Start of the span, since the timer was due.
    from_ns: u64,
    /// End of the span, since the timer was due.
    to_ns: u64,
}

impl ActivationDocument {
    fn new(one: &ExplainedActivation) -> Self {
        let activation = &one.activation;
        let latency = |context| activation.measured(context).map(|measured| measured.latency_ns);
        let [irq_ns, thread_ns, user_ns] = TimerlatContext::ALL.map(latency);
        let share = |share: &CauseShare| ShareDocument {
            cause: CauseDocument::new(&share.cause),
            ns: share.ns,
            times: share.times,
            spans: share.spans.iter().map(|s| SpanDocument { from_ns: s.from_ns, to_ns: s.to_ns }).collect(),
        };
        Self {
            cpu: activation.cpu,
            seq: activation.seq,
            context: labels::context(one.context),
            latency_ns: one.latency_ns,
            due_at_ns: one.due_at_ns,
            irq_ns,
            thread_ns,
            user_ns,
            shares: one.shares.iter().map(share).collect(),
            stack: activation.stack.iter().map(ToString::to_string).collect(),
            lossy: activation.lossy,
            noise_left_out: activation.noise_left_out,
            stopped: activation.stopped.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole document, which [`TimerlatDocumentWriter`] writes in pieces.
    #[derive(Serialize, schemars::JsonSchema)]
    struct TimerlatDocument {
        #[serde(flatten)]
        head: HeadDocument,
        /// Single activations: for `why`, `hist` and `top` the longest ones, longest first, as many as `--worst`
        /// requests; for `trace` all that reached the threshold, in their order.
        activations: Vec<ActivationDocument>,
        #[serde(flatten)]
        sums: SumsDocument,
    }

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_types() {
        json_schemas::assert_current::<TimerlatDocument>();
    }
}
