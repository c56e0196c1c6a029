//! Renders CSV: a row for each bucket, CPU, cause or activation, with integers in ns. docs/output.md
//! describes the columns. Each row shows whether records were lost.

use crate::softirq::softirq_name;
use std::io;

use super::{
    super::{
        explain::{ExplainedActivation, LatencyCause},
        linear::{Bins, LinearHistogram},
        osnoise_summary::{CpuNoise, NoiseSummary},
        record::{LostByCpu, TimerlatContext},
        summary::{TimerlatCoverage, TimerlatSummary},
    },
    NoiseView, PERCENTILES, TimerlatView, labels,
};
use crate::aggregate::distribution::Distribution;

/// The kinds of causes, in the order of their columns.
pub(super) const KINDS: [&str; 11] = [
    "irq_delay",
    "idle_exit",
    "timer_irq",
    "irq",
    "softirq",
    "nmi",
    "blocking_thread",
    "thread",
    "scheduling",
    "user_space",
    "unexplained",
];

type Cells = Vec<String>;

/// The columns of a view of timerlat.
pub fn columns(view: TimerlatView) -> Cells {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Cells>();
    match view {
        TimerlatView::Hist => names(&["cpu", "context", "from_ns", "to_ns", "count", "lost"]),
        TimerlatView::Top => {
            let mut all = names(&["cpu", "context", "count", "sum_ns", "min_ns", "avg_ns", "max_ns", "max_at_ns"]);
            all.extend(PERCENTILES.iter().map(|(_, name)| format!("{}_ns", name.replace('.', "_"))));
            all.extend(names(&["over", "lost"]));
            all
        }
        TimerlatView::Trace => {
            let figures = ["cpu", "seq", "context", "latency_ns", "due_at_ns", "irq_ns", "thread_ns", "user_ns"];
            let mut all = names(&figures);
            all.extend(KINDS.iter().map(|kind| format!("{kind}_share_ns")));
            all.push("lossy".to_owned());
            all
        }
        TimerlatView::Why => {
            names(&["cause", "name", "vector", "tid", "sum_ns", "max_ns", "activations", "times", "lost"])
        }
    }
}

/// The columns of a view of osnoise.
pub fn noise_columns(view: NoiseView) -> Cells {
    let names: &[&str] = match view {
        NoiseView::Hist => &["cpu", "from_ns", "to_ns", "count", "lost"],
        NoiseView::Top => &[
            "cpu",
            "periods",
            "runtime_ns",
            "noise_ns",
            "max_noise_ns",
            "max_single_ns",
            "hw",
            "nmi",
            "irq",
            "softirq",
            "thread",
            "back_to_back",
            "lost",
        ],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Renders a view of a timerlat run. For `trace`, this is only the header.
pub fn run(view: TimerlatView, summary: &TimerlatSummary) -> io::Result<String> {
    let rows: Vec<Cells> = match view {
        TimerlatView::Hist => cells_of_contexts(summary, |cpu, context| {
            let latencies = &summary.cpus[&cpu];
            let buckets = buckets(latencies.of(context), latencies.linear(context), summary.options.bins);
            buckets.into_iter().map(|bucket| [vec![name(context)], bucket].concat()).collect()
        }),
        TimerlatView::Top => cells_of_contexts(summary, |cpu, context| {
            let of = summary.cpus[&cpu].of(context);
            let max_at = of.max().map_or_else(String::new, |max| max.at_ns.to_string());
            let mut cells = vec![name(context), of.count().to_string(), of.sum_ns().to_string()];
            cells.extend([of.min_ns(), of.avg_ns(), of.max_ns()].map(|ns| ns.to_string()));
            cells.push(max_at);
            cells.extend(PERCENTILES.iter().map(|(percent, _)| of.percentile_ns(*percent).to_string()));
            cells.push(summary.cpus[&cpu].over.to_string());
            vec![cells]
        }),
        TimerlatView::Why => summary
            .shares_by_size()
            .into_iter()
            .map(|(cause, sum)| {
                let mut cells = cells_of_cause(cause);
                cells.extend([sum.ns.to_string(), sum.max_ns.to_string()]);
                cells.extend([sum.activations, sum.times, lost(&summary.coverage)].map(|count| count.to_string()));
                cells
            })
            .collect(),
        TimerlatView::Trace => Vec::new(),
    };
    written(std::iter::once(columns(view)).chain(rows))
}

/// Renders only the header of a view.
pub fn titles(view: TimerlatView) -> io::Result<String> {
    written([columns(view)])
}

/// Renders the rows of the given activations.
pub fn activations(activations: &[ExplainedActivation]) -> io::Result<String> {
    written(activations.iter().map(|one| {
        let activation = &one.activation;
        let mut cells = vec![activation.cpu.to_string(), activation.seq.to_string(), name(one.context)];
        cells.extend([one.latency_ns, one.due_at_ns].map(|ns| ns.to_string()));
        let latency = |context| activation.measured(context).map_or_else(String::new, |m| m.latency_ns.to_string());
        cells.extend(TimerlatContext::ALL.map(latency));
        cells.extend(KINDS.iter().map(|kind| one.sum_ns(|cause| labels::kind(cause) == *kind).to_string()));
        cells.push(u8::from(activation.lossy).to_string());
        cells
    }))
}

/// Renders a view of an osnoise run.
pub fn noise(view: NoiseView, summary: &NoiseSummary) -> io::Result<String> {
    let rows = summary.cpus.iter().flat_map(|(cpu, noise)| {
        let rows = match view {
            NoiseView::Hist => buckets(&noise.samples, &noise.linear, summary.bins),
            NoiseView::Top => vec![figures(noise)],
        };
        let lost = of_cpu(&summary.coverage, *cpu);
        rows.into_iter().map(move |row| [vec![cpu.to_string()], row, vec![lost.to_string()]].concat())
    });
    written(std::iter::once(noise_columns(view)).chain(rows))
}

fn figures(noise: &CpuNoise) -> Cells {
    let counts = noise.counts();
    let mut cells = [noise.periods, noise.runtime_ns].map(|number| number.to_string()).to_vec();
    cells.push(noise.noise_ns().to_string());
    let [hw, nmi, irq, softirq, thread] = [counts.hw, counts.nmi, counts.irq, counts.softirq, counts.thread];
    let rest = [noise.max_noise_ns, noise.max_single_ns(), hw, nmi, irq, softirq, thread, noise.back_to_back];
    cells.extend(rest.map(|number| number.to_string()));
    cells
}

/// The rows of each CPU and context. Prepends the CPU, and appends the number of records that it lost.
fn cells_of_contexts(summary: &TimerlatSummary, rows: impl Fn(u32, TimerlatContext) -> Vec<Cells>) -> Vec<Cells> {
    let of = |cpu: u32| {
        let lost = of_cpu(&summary.coverage, cpu);
        let rows = summary.contexts().into_iter().flat_map(|context| rows(cpu, context)).collect::<Vec<_>>();
        rows.into_iter().map(move |row| [vec![cpu.to_string()], row, vec![lost.to_string()]].concat())
    };
    summary.cpus.keys().flat_map(|cpu| of(*cpu)).collect()
}

/// The bounds and the count of each bucket that is not empty. The last row has no upper bound if values
/// exceed the histogram.
fn buckets(of: &Distribution, linear: &LinearHistogram, bins: Option<Bins>) -> Vec<Cells> {
    let row = |from_ns: u64, to_ns: Option<u64>, count: u64| {
        vec![from_ns.to_string(), to_ns.map_or_else(String::new, |to_ns| to_ns.to_string()), count.to_string()]
    };
    let Some(Bins { width_ns, entries }) = bins else {
        return of.buckets().into_iter().map(|bucket| row(bucket.from_ns, Some(bucket.to_ns), bucket.count)).collect();
    };
    let counted = linear.counts.iter().map(|(bin, count)| row(bin * width_ns, Some((bin + 1) * width_ns), *count));
    counted.chain((linear.over > 0).then(|| row(entries * width_ns, None, linear.over))).collect()
}

fn cells_of_cause(cause: &LatencyCause) -> Cells {
    let (name, vector, tid) = match cause {
        LatencyCause::TimerIrq(name, vector) | LatencyCause::Irq(name, vector) => {
            (name.clone(), vector.to_string(), String::new())
        }
        LatencyCause::Softirq(vector) => {
            (softirq_name(*vector).unwrap_or_default().to_owned(), vector.to_string(), String::new())
        }
        LatencyCause::Blocking(task) | LatencyCause::Thread(task) => {
            (task.comm.to_string(), String::new(), task.tid.to_string())
        }
        _ => Default::default(),
    };
    vec![labels::kind(cause).to_owned(), name, vector, tid]
}

fn name(context: TimerlatContext) -> String {
    labels::context(context).to_owned()
}

/// The number of records lost on a CPU. A loss of unknown size counts as one.
fn of_cpu(coverage: &TimerlatCoverage, cpu: u32) -> u64 {
    let of = |lost: &LostByCpu| lost.get(&cpu).copied().unwrap_or(0);
    of(&coverage.lost).saturating_add(of(&coverage.lost_unknown))
}

/// The number of records lost on all CPUs.
fn lost(coverage: &TimerlatCoverage) -> u64 {
    let sum = |lost: &LostByCpu| lost.values().copied().fold(0, u64::saturating_add);
    sum(&coverage.lost).saturating_add(sum(&coverage.lost_unknown)).saturating_add(coverage.missed.unwrap_or(0))
}

fn written(rows: impl IntoIterator<Item = Cells>) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}
