//! A saved trace as a source: opened, read to its end, shown.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::{
    explain::Explained,
    linear::Bins,
    noise::NoiseSummary,
    record::{Context, Record},
    sink::{self, Form, NoiseView, View},
    summary::{Coverage, Rules, Summary, Summing},
    text::{ErrorKind, RESOLUTION_NS, Said, Trace},
};
use crate::{
    config::OutputConfig,
    session::{
        input::{name, open},
        output::{Output, WriteResult},
    },
    sink::{Format, Style},
};

/// What is to be made of a saved trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The file; `-` is standard input.
    pub from: PathBuf,
    /// How and where the result is shown.
    pub output: OutputConfig,
}

/// What of a timerlat trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The view.
    pub view: View,
    /// The latency from which an activation is explained: ns.
    pub threshold_ns: Option<u64>,
    /// How many of the worst are drawn.
    pub worst: usize,
    /// How people see latencies.
    pub form: Form,
    /// Buckets of one width, where they are asked for.
    pub bins: Option<Bins>,
}

impl Shown {
    /// What decides how activations are added up, from records of this precision.
    pub fn rules(&self, resolution_ns: u64, period_ns: Option<u64>) -> Rules {
        Rules { threshold_ns: self.threshold_ns, worst: self.worst, resolution_ns, period_ns, bins: self.bins }
    }
}

/// What of an osnoise trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseShown {
    /// The view.
    pub view: NoiseView,
    /// Buckets of one width, where they are asked for.
    pub bins: Option<Bins>,
}

/// Explains a saved timerlat trace.
///
/// # Errors
/// Where the file cannot be read, holds no timerlat trace, or the result cannot be written.
pub fn timerlat(saved: &Saved, shown: Shown, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let format = saved.output.format;
    let (json, lines) = (format == Format::Json, shown.view == View::Trace && format == Format::Human);
    let rules = shown.rules(RESOLUTION_NS, None);
    let mut summing = Summing::new(rules);
    let mut document = sink::RunText::new(&rules);
    let mut table: Option<sink::trace::Lines> = None;
    let mut has_titles = false;
    let mut csv = |over: &[Explained]| {
        let titles =
            if std::mem::replace(&mut has_titles, true) { String::new() } else { sink::csv::titles(View::Trace)? };
        Ok::<_, std::io::Error>(titles + &sink::csv::activations(over)?)
    };
    // The first line of a `trace` may be long in coming: it is written when it is known.
    let mut show = |over: Vec<Explained>, out: &mut Output| -> Result<WriteResult> {
        if lines && !over.is_empty() {
            let mut text = String::new();
            let lines = table.get_or_insert_with(|| {
                // The first activation says whether threads of user space measure.
                let lines = sink::trace::Lines::new(style.clone(), over.iter().any(|one| one.context == Context::User));
                text = lines.head();
                lines
            });
            over.iter().for_each(|one| text.push_str(&lines.line(one)));
            return out.write(|out| out.write_all(text.as_bytes()));
        }
        if shown.view == View::Trace && !over.is_empty() {
            let text = if json { document.activations(&over)? } else { csv(&over)? };
            return out.write(|out| out.write_all(text.as_bytes()));
        }
        Ok(WriteResult::All)
    };
    let mut trace = Trace::new(input);
    while let Some(said) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match said {
            Ok(Said::Record(record)) => {
                if show(summing.push(record), &mut out)? == WriteResult::NoReader {
                    return Ok(());
                }
            }
            Ok(Said::Lost { cpu, events }) => summing.lost(cpu, events),
            other => note(other, summing.coverage()),
        }
    }
    let (summary, over) = summing.end();
    if show(over, &mut out)? == WriteResult::NoReader {
        return Ok(());
    }
    if summary.cpus.is_empty() {
        bail!("{}", nothing(&name, "timerlat", &summary.coverage));
    }
    let text = match (format, shown.view) {
        (Format::Json, View::Trace) => document.end(&summary)?,
        (Format::Json, _) => sink::json(&summary, &summary.worst)?,
        // The titles are there already.
        (Format::Csv, View::Trace) if has_titles => String::new(),
        (Format::Csv, view) => sink::csv::run(view, &summary)?,
        (Format::Human, _) => text(shown, &summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    Ok(())
}

/// What a view shows at the end.
pub(super) fn text(shown: Shown, summary: &Summary, style: &Style) -> String {
    match shown.view {
        View::Hist => sink::hist::text(summary, shown.form, style),
        View::Top => sink::top::text(summary, shown.form, style),
        View::Why => sink::why::text(summary, style),
        View::Trace => {
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
pub fn osnoise(saved: &Saved, shown: NoiseShown, style: &Style) -> Result<()> {
    let name = name(&saved.from);
    let input = open(&saved.from).with_context(|| format!("cannot read {name}"))?;
    let mut out = Output::open(saved.output.path.as_deref())?;
    let mut summary = NoiseSummary::new(shown.bins);
    // A file may hold a timerlat trace before: its noise is not the workload's.
    let mut before: Vec<Record> = Vec::new();
    let mut trace = Trace::new(input);
    while let Some(said) = trace.next().with_context(|| format!("cannot read {name}"))? {
        match said {
            Ok(Said::Record(record)) => match record.event {
                super::record::Event::Timerlat { .. } => {
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
            Ok(Said::Lost { cpu, events }) => summary.lost(cpu, events),
            other => note(other, &mut summary.coverage),
        }
    }
    if summary.is_empty() {
        bail!("{}", nothing(&name, "osnoise", &summary.coverage));
    }
    let text = match (saved.output.format, shown.view) {
        (Format::Json, _) => sink::noise_json(&summary)?,
        (Format::Csv, view) => sink::csv::noise(view, &summary)?,
        (_, NoiseView::Hist) => sink::osnoise::hist(&summary, style),
        (_, NoiseView::Top) => sink::osnoise::top(&summary, style),
    };
    out.write(|out| out.write_all(text.as_bytes()))?;
    Ok(())
}

fn is_of_osnoise(record: &Record) -> bool {
    use super::record::Event;
    matches!(record.event, Event::Osnoise(_) | Event::SampleThreshold { .. })
}

/// What is no record goes into the coverage.
fn note(said: Result<Said, super::text::ParseError>, coverage: &mut Coverage) {
    match said {
        Ok(Said::Overwritten(events)) => coverage.overwritten = coverage.overwritten.saturating_add(events),
        Ok(Said::Other) => coverage.other += 1,
        Ok(Said::Record(_) | Said::Lost { .. }) => {}
        Err(error) if error.kind == ErrorKind::Foreign => coverage.foreign.add(error),
        Err(error) => coverage.broken.add(error),
    }
}

/// Why a file gave nothing.
fn nothing(name: &str, tracer: &str, coverage: &Coverage) -> String {
    let first = [&coverage.broken, &coverage.foreign].into_iter().find_map(|unread| unread.first.clone());
    let why = first.map(|first| format!("; {first}")).unwrap_or_default();
    format!("{name} holds no record of the {tracer} tracer; expected what `cat trace` prints under `{tracer}`{why}")
}
