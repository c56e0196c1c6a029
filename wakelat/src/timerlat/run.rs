//! A saved trace as a source: opened, read to its end, shown.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::{
    explain::ExplainedActivation,
    linear::Bins,
    noise::NoiseSummary,
    record::{TimerlatContext, TimerlatRecord},
    sink::{self, LatencyDisplay, NoiseView, TimerlatView},
    summary::{TimerlatCoverage, TimerlatSummary, TimerlatSummaryBuilder, TimerlatSummaryOptions},
    text::{RESOLUTION_NS, TraceErrorKind, TraceItem, TraceReader},
};
use crate::{
    config::OutputConfig,
    session::{
        input::{name, open},
        output::{Output, WriteResult},
    },
    sink::{OutputFormat, Style},
};

/// What is to be made of a saved trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTrace {
    /// The file; `-` is standard input.
    pub from: PathBuf,
    /// How and where the result is shown.
    pub output: OutputConfig,
}

/// What of a timerlat trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerlatOptions {
    /// The view.
    pub view: TimerlatView,
    /// The latency from which an activation is explained: ns.
    pub threshold_ns: Option<u64>,
    /// How many of the worst are drawn.
    pub worst: usize,
    /// How people see latencies.
    pub form: LatencyDisplay,
    /// Buckets of one width, where they are asked for.
    pub bins: Option<Bins>,
}

impl TimerlatOptions {
    /// What decides how activations are added up, from records of this precision.
    pub fn summary_options(&self, resolution_ns: u64, period_ns: Option<u64>) -> TimerlatSummaryOptions {
        TimerlatSummaryOptions {
            threshold_ns: self.threshold_ns,
            worst: self.worst,
            resolution_ns,
            period_ns,
            bins: self.bins,
        }
    }
}

/// What of an osnoise trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsnoiseOptions {
    /// The view.
    pub view: NoiseView,
    /// Buckets of one width, where they are asked for.
    pub bins: Option<Bins>,
}

/// Explains a saved timerlat trace.
///
/// # Errors
/// Where the file cannot be read, holds no timerlat trace, or the result cannot be written.
pub fn timerlat(saved: &SavedTrace, shown: TimerlatOptions, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let format = saved.output.format;
    let (json, lines) =
        (format == OutputFormat::Json, shown.view == TimerlatView::Trace && format == OutputFormat::Human);
    let rules = shown.summary_options(RESOLUTION_NS, None);
    let mut summing = TimerlatSummaryBuilder::new(rules);
    let mut document = sink::TimerlatDocumentWriter::new(&rules);
    let mut table: Option<sink::trace::ActivationLines> = None;
    let mut has_titles = false;
    let mut csv = |over: &[ExplainedActivation]| {
        let titles = if std::mem::replace(&mut has_titles, true) {
            String::new()
        } else {
            sink::csv::titles(TimerlatView::Trace)?
        };
        Ok::<_, std::io::Error>(titles + &sink::csv::activations(over)?)
    };
    // The first line of a `trace` may be long in coming: it is written when it is known.
    let mut show = |over: Vec<ExplainedActivation>, out: &mut Output| -> Result<WriteResult> {
        if lines && !over.is_empty() {
            let mut text = String::new();
            let lines = table.get_or_insert_with(|| {
                // The first activation says whether threads of user space measure.
                let lines = sink::trace::ActivationLines::new(
                    style.clone(),
                    over.iter().any(|one| one.context == TimerlatContext::User),
                );
                text = lines.head();
                lines
            });
            over.iter().for_each(|one| text.push_str(&lines.line(one)));
            return out.write(|out| out.write_all(text.as_bytes()));
        }
        if shown.view == TimerlatView::Trace && !over.is_empty() {
            let text = if json { document.activations(&over)? } else { csv(&over)? };
            return out.write(|out| out.write_all(text.as_bytes()));
        }
        Ok(WriteResult::All)
    };
    let mut trace = TraceReader::new(input);
    while let Some(said) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match said {
            Ok(TraceItem::Record(record)) => {
                if show(summing.push(record), &mut out)? == WriteResult::NoReader {
                    return Ok(());
                }
            }
            Ok(TraceItem::Lost { cpu, events }) => summing.lost(cpu, events),
            other => count_unread(other, summing.coverage()),
        }
    }
    let (summary, over) = summing.end();
    if show(over, &mut out)? == WriteResult::NoReader {
        return Ok(());
    }
    if summary.cpus.is_empty() {
        bail!("{}", no_records_message(&name, "timerlat", &summary.coverage));
    }
    let text = match (format, shown.view) {
        (OutputFormat::Json, TimerlatView::Trace) => document.end(&summary)?,
        (OutputFormat::Json, _) => sink::json(&summary, &summary.worst)?,
        // The titles are there already.
        (OutputFormat::Csv, TimerlatView::Trace) if has_titles => String::new(),
        (OutputFormat::Csv, view) => sink::csv::run(view, &summary)?,
        (OutputFormat::Human, _) => text(shown, &summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    Ok(())
}

/// What a view shows at the end.
pub(super) fn text(shown: TimerlatOptions, summary: &TimerlatSummary, style: &Style) -> String {
    match shown.view {
        TimerlatView::Hist => sink::hist::text(summary, shown.form, style),
        TimerlatView::Top => sink::top::text(summary, shown.form, style),
        TimerlatView::Why => sink::why::text(summary, style),
        TimerlatView::Trace => {
            let mut out = String::new();
            sink::coverage(&summary.coverage, style, &mut out);
            out
        }
    }
}

/// Adds up a saved osnoise trace.
///
/// # Errors
/// Where the file cannot be read, holds no osnoise trace, or the result cannot be written.
pub fn osnoise(saved: &SavedTrace, shown: OsnoiseOptions, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let mut summary = NoiseSummary::new(shown.bins);
    // A file may hold a timerlat trace before: its noise is not the workload's.
    let mut before: Vec<TimerlatRecord> = Vec::new();
    let mut trace = TraceReader::new(input);
    while let Some(said) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match said {
            Ok(TraceItem::Record(record)) => match record.event {
                super::record::TimerlatEvent::Timerlat { .. } => {
                    before.clear();
                }
                _ if summary.is_empty() => {
                    before.push(record);
                    let first = before.last().is_some_and(is_of_osnoise);
                    if first {
                        before.drain(..).for_each(|record| summary.push(&record));
                    }
                }
                _ => summary.push(&record),
            },
            Ok(TraceItem::Lost { cpu, events }) => summary.lost(cpu, events),
            other => count_unread(other, &mut summary.coverage),
        }
    }
    if summary.is_empty() {
        bail!("{}", no_records_message(&name, "osnoise", &summary.coverage));
    }
    let text = match (saved.output.format, shown.view) {
        (OutputFormat::Json, _) => sink::noise_json(&summary)?,
        (OutputFormat::Csv, view) => sink::csv::noise(view, &summary)?,
        (_, NoiseView::Hist) => sink::osnoise::hist(&summary, style),
        (_, NoiseView::Top) => sink::osnoise::top(&summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    Ok(())
}

fn is_of_osnoise(record: &TimerlatRecord) -> bool {
    use super::record::TimerlatEvent;
    matches!(record.event, TimerlatEvent::Osnoise(_) | TimerlatEvent::SampleThreshold { .. })
}

/// What is no record goes into the coverage.
fn count_unread(said: Result<TraceItem, super::text::TraceParseError>, coverage: &mut TimerlatCoverage) {
    match said {
        Ok(TraceItem::Overwritten(events)) => coverage.overwritten = coverage.overwritten.saturating_add(events),
        Ok(TraceItem::Other) => coverage.other += 1,
        Ok(TraceItem::Record(_) | TraceItem::Lost { .. }) => {}
        Err(error) if error.kind == TraceErrorKind::Foreign => coverage.foreign.add(error),
        Err(error) => coverage.broken.add(error),
    }
}

/// Why a file gave nothing.
fn no_records_message(name: &str, tracer: &str, coverage: &TimerlatCoverage) -> String {
    let first = [&coverage.broken, &coverage.foreign].into_iter().find_map(|unread| unread.first.clone());
    let why = first.map(|first| format!("; {first}")).unwrap_or_default();
    format!("{name} holds no record of the {tracer} tracer; expected what `cat trace` prints under `{tracer}`{why}")
}
