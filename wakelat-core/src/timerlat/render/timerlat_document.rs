//! The JSON document of a timerlat run, field by field, as described in docs/output.md.
//!
//! Within one version of a schema (the number at the end of its name), fields may be added, but none is
//! removed or changes its meaning.

use crate::softirq::softirq_name;
use serde::{Serialize, Serializer};

use super::{
    super::{
        explain::{CauseShare, ExplainedActivation, LatencyCause},
        finding::{TimerlatFinding, findings},
        record::{LostByCpu, TimerlatContext},
        summary::{Latencies, ShareSum, TimerlatCoverage, TimerlatSummary, TimerlatSummaryOptions},
    },
    PERCENTILES, finding, labels,
};
use crate::{aggregate::distribution::Distribution, render::Style};

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
            coverage: CoverageDocument::new(&summary.coverage),
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
struct HeadDocument {
    schema: &'static str,
    threshold_ns: Option<u64>,
}

#[derive(Serialize)]
struct SumsDocument<'a> {
    all: LatenciesDocument<'a>,
    cpus: Vec<LatenciesDocument<'a>>,
    findings: Vec<FindingDocument>,
    explained: ExplainedDocument,
    coverage: CoverageDocument,
}

#[derive(Serialize)]
struct LatenciesDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    over: u64,
    irq: DistributionDocument<'a>,
    thread: DistributionDocument<'a>,
    user: DistributionDocument<'a>,
}

impl<'a> LatenciesDocument<'a> {
    fn new(cpu: Option<u32>, latencies: &'a Latencies) -> Self {
        let of = |context| DistributionDocument::new(latencies.of(context));
        let [irq, thread, user] = TimerlatContext::ALL.map(of);
        Self { cpu, over: latencies.over, irq, thread, user }
    }
}

#[derive(Serialize)]
pub(super) struct DistributionDocument<'a> {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    avg_ns: u64,
    max_ns: u64,
    max_at_ns: Option<u64>,
    #[serde(serialize_with = "percentiles")]
    percentiles_ns: &'a Distribution,
    buckets: Vec<BucketDocument>,
}

#[derive(Serialize)]
struct BucketDocument {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

/// Serializes the percentiles, with the percentage as the key: `"99.9": 1`.
fn percentiles<S: Serializer>(of: &Distribution, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(PERCENTILES.iter().map(|(percent, _)| (percent.to_string(), of.percentile_ns(*percent))))
}

impl<'a> DistributionDocument<'a> {
    pub(super) fn new(of: &'a Distribution) -> Self {
        let buckets = of.buckets().into_iter();
        Self {
            count: of.count(),
            sum_ns: of.sum_ns(),
            min_ns: of.min_ns(),
            avg_ns: of.avg_ns(),
            max_ns: of.max_ns(),
            max_at_ns: of.max().map(|max| max.at_ns),
            percentiles_ns: of,
            buckets: buckets.map(|b| BucketDocument { from_ns: b.from_ns, to_ns: b.to_ns, count: b.count }).collect(),
        }
    }
}

#[derive(Serialize)]
struct ExplainedDocument {
    activations: u64,
    sum_ns: u128,
    shares: Vec<SumDocument>,
}

#[derive(Serialize)]
struct CauseDocument {
    cause: &'static str,
    name: Option<String>,
    vector: Option<i32>,
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
struct FindingDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    sum_ns: u128,
    of_ns: u128,
    max_ns: u64,
    max_of_ns: u64,
    evidence: String,
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
struct SumDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    sum_ns: u128,
    max_ns: u64,
    activations: u64,
    times: u64,
}

impl SumDocument {
    fn new((cause, sum): (&LatencyCause, &ShareSum)) -> Self {
        let ShareSum { ns, max_ns, activations, times, .. } = *sum;
        Self { cause: CauseDocument::new(cause), sum_ns: ns, max_ns, activations, times }
    }
}

#[derive(Serialize)]
struct ActivationDocument {
    cpu: u32,
    seq: u64,
    context: &'static str,
    latency_ns: u64,
    due_at_ns: u64,
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
    user_ns: Option<u64>,
    shares: Vec<ShareDocument>,
    stack: Vec<String>,
    lossy: bool,
    stopped: Option<String>,
}

#[derive(Serialize)]
struct ShareDocument {
    #[serde(flatten)]
    cause: CauseDocument,
    ns: u64,
    times: u64,
    spans: Vec<SpanDocument>,
}

#[derive(Serialize)]
struct SpanDocument {
    from_ns: u64,
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
            stopped: activation.stopped.clone(),
        }
    }
}

#[derive(Serialize)]
struct CoverageDocument {
    complete: u64,
    without_irq: u64,
    without_thread: u64,
    missing: u64,
    restarts: u64,
    skipped: Option<u64>,
    noise: u64,
    duration_ns: u64,
    #[serde(flatten)]
    losses: LossesDocument,
}

impl CoverageDocument {
    fn new(coverage: &TimerlatCoverage) -> Self {
        let seen = coverage.activations;
        Self {
            complete: seen.complete,
            without_irq: seen.without_irq,
            without_thread: seen.without_thread,
            missing: seen.missing,
            restarts: seen.restarts,
            skipped: coverage.skipped,
            noise: coverage.noise,
            duration_ns: coverage.duration_ns,
            losses: LossesDocument::new(coverage),
        }
    }
}

#[derive(Serialize)]
pub(super) struct LossesDocument {
    lost: Vec<LostDocument>,
    overwritten: u64,
    missed: Option<u64>,
    other: u64,
    broken: u64,
    foreign: u64,
}

#[derive(Serialize)]
struct LostDocument {
    cpu: u32,
    events: u64,
    unknown: u64,
}

impl LossesDocument {
    pub(super) fn new(coverage: &TimerlatCoverage) -> Self {
        let cpus: std::collections::BTreeSet<u32> =
            coverage.lost.keys().chain(coverage.lost_unknown.keys()).copied().collect();
        let of = |lost: &LostByCpu, cpu| lost.get(&cpu).copied().unwrap_or(0);
        let lost =
            |cpu| LostDocument { cpu, events: of(&coverage.lost, cpu), unknown: of(&coverage.lost_unknown, cpu) };
        Self {
            lost: cpus.into_iter().map(lost).collect(),
            overwritten: coverage.overwritten,
            missed: coverage.missed,
            other: coverage.other,
            broken: coverage.broken.lines,
            foreign: coverage.foreign.lines,
        }
    }
}
