//! What people and programs see of a live run: the same views as of a saved trace.

use std::io::{self, Write};

use super::run::{Listener, TracerRunInfo};
use crate::{
    sink::{OutputFormat, Style},
    timerlat::{
        explain::ExplainedActivation,
        noise::NoiseSummary,
        record::TimerlatRecord,
        run::{self, OsnoiseOptions, TimerlatOptions},
        sink::{self, NoiseView, TimerlatDocumentWriter, TimerlatView},
        summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
    },
};

/// Live records have whole nanoseconds.
const RESOLUTION_NS: u64 = 1;
/// Home, and clear what is below: no flicker, and the scrollback stays.
const REDRAW: &str = "\x1b[H\x1b[J";

/// A run of timerlat.
pub struct TimerlatListener {
    builder: TimerlatSummaryBuilder,
    summary_options: TimerlatSummaryOptions,
    options: TimerlatOptions,
    format: OutputFormat,
    style: Style,
    lines: sink::trace::ActivationLines,
    /// For a program that is shown each activation.
    document: TimerlatDocumentWriter,
}

impl TimerlatListener {
    /// Nothing has been recorded yet. The timer's period is `period_ns`; threads of `user` space measure or do not.
    pub fn new(
        options: TimerlatOptions,
        period_ns: Option<u64>,
        user: bool,
        format: OutputFormat,
        style: Style,
    ) -> Self {
        let summary_options = options.summary_options(RESOLUTION_NS, period_ns);
        let lines = sink::trace::ActivationLines::new(style.clone(), user);
        Self {
            builder: TimerlatSummaryBuilder::new(summary_options),
            summary_options,
            options,
            format,
            style,
            lines,
            document: TimerlatDocumentWriter::new(&summary_options),
        }
    }

    fn show(&mut self, over: Vec<ExplainedActivation>, out: &mut dyn Write) -> io::Result<()> {
        match (self.options.view, self.format) {
            (TimerlatView::Trace, OutputFormat::Json) => out.write_all(self.document.activations(&over)?.as_bytes())?,
            (TimerlatView::Trace, OutputFormat::Csv) => out.write_all(sink::csv::activations(&over)?.as_bytes())?,
            (TimerlatView::Trace, _) => {
                let lines: String = over.iter().map(|one| self.lines.line(one)).collect();
                out.write_all(lines.as_bytes())?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Listener for TimerlatListener {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (self.options.view, self.format) {
            (TimerlatView::Trace, OutputFormat::Csv) => {
                out.write_all(sink::csv::titles(TimerlatView::Trace)?.as_bytes())
            }
            (TimerlatView::Trace, OutputFormat::Human) => out.write_all(self.lines.head().as_bytes()),
            _ => Ok(()),
        }
    }

    fn record(&mut self, record: TimerlatRecord, out: &mut dyn Write) -> io::Result<()> {
        let over = self.builder.push(record);
        self.show(over, out)
    }

    fn lost(&mut self, cpu: u32, events: u64) {
        self.builder.lost(cpu, Some(events));
    }

    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{REDRAW}{}", sink::top::text(self.builder.so_far(), self.options.form, &self.style))
    }

    fn end(&mut self, account: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()> {
        let mut summing = std::mem::replace(&mut self.builder, TimerlatSummaryBuilder::new(self.summary_options));
        account.add_to(summing.coverage());
        let (summary, over) = summing.end();
        self.show(over, out)?;
        let text = match (self.format, self.options.view) {
            (OutputFormat::Json, TimerlatView::Trace) => self.document.end(&summary)?,
            (OutputFormat::Json, _) => sink::json(&summary, &summary.worst)?,
            (OutputFormat::Csv, TimerlatView::Trace) => String::new(),
            (OutputFormat::Csv, view) => sink::csv::run(view, &summary)?,
            (OutputFormat::Human, _) => run::text(self.options, &summary, &self.style),
        };
        let redraw = if account.redrawn { REDRAW } else { "" };
        write!(out, "{redraw}{text}")
    }
}

/// A run of osnoise.
pub struct OsnoiseListener {
    summary: NoiseSummary,
    view: NoiseView,
    format: OutputFormat,
    style: Style,
}

impl OsnoiseListener {
    /// Nothing has been said yet.
    pub fn new(shown: OsnoiseOptions, format: OutputFormat, style: Style) -> Self {
        Self { summary: NoiseSummary::new(shown.bins), view: shown.view, format, style }
    }
}

impl Listener for OsnoiseListener {
    fn record(&mut self, record: TimerlatRecord, _out: &mut dyn Write) -> io::Result<()> {
        self.summary.push(&record);
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) {
        self.summary.lost(cpu, Some(events));
    }

    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{REDRAW}{}", sink::osnoise::top(&self.summary, &self.style))
    }

    fn end(&mut self, account: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()> {
        account.add_to(&mut self.summary.coverage);
        let text = match (self.format, self.view) {
            (OutputFormat::Json, _) => sink::noise_json(&self.summary)?,
            (OutputFormat::Csv, view) => sink::csv::noise(view, &self.summary)?,
            (_, NoiseView::Hist) => sink::osnoise::hist(&self.summary, &self.style),
            (_, NoiseView::Top) => sink::osnoise::top(&self.summary, &self.style),
        };
        let redraw = if account.redrawn { REDRAW } else { "" };
        write!(out, "{redraw}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sink::documentation::parsed,
        timerlat::{
            fixtures,
            sink::LatencyDisplay,
            text::{TraceItem, TraceReader},
        },
    };

    #[test]
    fn a_program_has_each_activation_as_soon_as_it_is_over() {
        let shown = TimerlatOptions {
            view: TimerlatView::Trace,
            threshold_ns: None,
            worst: 0,
            form: LatencyDisplay::default(),
            bins: None,
        };
        let mut activations = TimerlatListener::new(shown, None, false, OutputFormat::Json, Style::default());
        let (mut out, mut pieces) = (Vec::new(), 0);
        let mut trace = TraceReader::new(fixtures::DOCUMENTATION[0].as_bytes());
        while let Some(said) = trace.next().unwrap() {
            let Ok(TraceItem::Record(record)) = said else { continue };
            let before = out.len();
            activations.record(record, &mut out).unwrap();
            pieces += usize::from(out.len() > before);
        }
        activations.end(&TracerRunInfo::default(), &mut out).unwrap();
        let document = parsed(std::str::from_utf8(&out).unwrap());
        let written = document["activations"].as_array().unwrap().len();
        assert_eq!((written, &document["explained"]["activations"]), (4, &4.into()));
        assert!(pieces > 1, "{pieces}");
    }

    #[test]
    fn a_run_without_activations_is_a_document_too() {
        let shown = TimerlatOptions {
            view: TimerlatView::Trace,
            threshold_ns: Some(1),
            worst: 0,
            form: LatencyDisplay::default(),
            bins: None,
        };
        let mut out = Vec::new();
        TimerlatListener::new(shown, None, false, OutputFormat::Json, Style::default())
            .end(&TracerRunInfo::default(), &mut out)
            .unwrap();
        let document = parsed(std::str::from_utf8(&out).unwrap());
        assert_eq!((&document["threshold_ns"], &document["activations"]), (&1.into(), &serde_json::json!([])));
    }
}
