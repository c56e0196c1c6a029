//! Reads a saved trace to its end and renders it.

use anyhow::{Context as _, Result, bail};

use super::write_coverage;
use crate::{
    commands::terminal_style::stderr_style,
    config::SavedTrace,
    session::{
        open_input::{name, open},
        output::{Output, WriteResult},
    },
};
use wakelat_core::osnoise_tracers::{
    explain::ExplainedActivation,
    osnoise_summary::NoiseSummary,
    record::{TimerlatContext, TimerlatEvent},
    render::{self, NoiseView, OsnoiseOptions, TimerlatOptions, TimerlatView},
    summary::{TimerlatCoverage, TimerlatSummaryBuilder},
    text::{RESOLUTION_NS, TraceErrorKind, TraceItem, TraceParseError, TraceReader},
};
use wakelat_core::render::{OutputFormat, Style};

/// Explains a saved timerlat trace.
///
/// # Errors
///
/// Fails if the file cannot be read or contains no timerlat trace, or if the result cannot be written.
pub fn timerlat(saved: &SavedTrace, shown: TimerlatOptions, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let format = saved.output.format;
    let (json, lines) =
        (format == OutputFormat::Json, shown.view == TimerlatView::Trace && format == OutputFormat::Human);
    let options = shown.summary_options(RESOLUTION_NS, None);
    let mut builder = TimerlatSummaryBuilder::new(options);
    let mut document = render::TimerlatDocumentWriter::new(&options);
    let mut table: Option<render::trace::ActivationLines> = None;
    let mut has_titles = false;
    let mut csv = |over: &[ExplainedActivation]| {
        let titles = if std::mem::replace(&mut has_titles, true) {
            String::new()
        } else {
            render::csv::titles(TimerlatView::Trace)?
        };
        Ok::<_, std::io::Error>(titles + &render::csv::activations(over)?)
    };
    // The header of `trace` is written with the first activation, which may take a long time to come.
    let mut show = |over: Vec<ExplainedActivation>, out: &mut Output| -> Result<WriteResult> {
        if lines && !over.is_empty() {
            let mut text = String::new();
            let lines = table.get_or_insert_with(|| {
                // The first activation shows whether user-space threads measure.
                let lines = render::trace::ActivationLines::new(
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
    while let Some(item) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match item {
            Ok(TraceItem::Record(record)) => {
                if show(builder.push(record), &mut out)? == WriteResult::NoReader {
                    return Ok(());
                }
            }
            Ok(TraceItem::Lost { cpu, events }) => builder.lost(cpu, events),
            other => count_unread(other, builder.coverage()),
        }
    }
    let (summary, over) = builder.end();
    if show(over, &mut out)? == WriteResult::NoReader {
        return Ok(());
    }
    if summary.cpus.is_empty() {
        bail!("{}", no_records_message(&name, "timerlat", &summary.coverage));
    }
    let text = match (format, shown.view) {
        (OutputFormat::Json, TimerlatView::Trace) => document.end(&summary)?,
        (OutputFormat::Json, _) => render::json(&summary, &summary.worst)?,
        // The header has been written already.
        (OutputFormat::Csv, TimerlatView::Trace) if has_titles => String::new(),
        (OutputFormat::Csv, view) => render::csv::run(view, &summary)?,
        (OutputFormat::Human, _) => render::text(shown, &summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    write_coverage(&summary.coverage, stderr_style(&saved.output, style).as_ref());
    Ok(())
}

/// Sums up a saved osnoise trace.
///
/// # Errors
///
/// Fails if the file cannot be read or contains no osnoise trace, or if the result cannot be written.
pub fn osnoise(saved: &SavedTrace, shown: OsnoiseOptions, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let mut summary = NoiseSummary::new(shown.bins);
    let mut trace = TraceReader::new(input);
    while let Some(item) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match item {
            Ok(TraceItem::Record(record)) => match record.event {
                // The file may contain a timerlat trace first, whose noise is not that of the osnoise workload.
                TimerlatEvent::Timerlat { .. } if summary.is_empty() => summary.forget_noise(),
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
        (OutputFormat::Json, _) => render::noise_json(&summary)?,
        (OutputFormat::Csv, view) => render::csv::noise(view, &summary)?,
        (_, NoiseView::Hist) => render::osnoise::hist(&summary, style),
        (_, NoiseView::Top) => render::osnoise::top(&summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    write_coverage(&summary.coverage, stderr_style(&saved.output, style).as_ref());
    Ok(())
}

/// Counts an item that is not a record in the coverage.
fn count_unread(item: Result<TraceItem, TraceParseError>, coverage: &mut TimerlatCoverage) {
    match item {
        Ok(TraceItem::Overwritten(events)) => coverage.overwritten = coverage.overwritten.saturating_add(events),
        Ok(TraceItem::Other) => coverage.other += 1,
        Ok(TraceItem::Record(_) | TraceItem::Lost { .. }) => {}
        Err(error) if error.kind == TraceErrorKind::Foreign => coverage.foreign.add(error),
        Err(error) => coverage.broken.add(error),
    }
}

/// The message for a file without records of the tracer.
fn no_records_message(name: &str, tracer: &str, coverage: &TimerlatCoverage) -> String {
    let first = [&coverage.broken, &coverage.foreign].into_iter().find_map(|unread| unread.first.clone());
    let why = first.map(|first| format!("; {first}")).unwrap_or_default();
    format!(
        "{name} contains no record of the {tracer} tracer; expected the output of `cat trace` with the tracer `{tracer}`{why}"
    )
}
