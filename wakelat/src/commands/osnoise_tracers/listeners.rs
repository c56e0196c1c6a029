//! Renders a live run in the same views as a saved trace.

use std::io::{self, Write};

use super::{
    run_listener::{Listener, TracerRunInfo},
    write_coverage,
};
use wakelat_core::osnoise_tracers::{
    explain::ExplainedActivation,
    osnoise_summary::NoiseSummary,
    record::TimerlatRecord,
    render::{self, NoiseView, OsnoiseOptions, TimerlatDocumentWriter, TimerlatOptions, TimerlatView},
    summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
};
use wakelat_core::render::{OutputFormat, Style};

/// The precision of live records: ns.
const RESOLUTION_NS: u64 = 1;
/// Moves the cursor home and clears everything below it. This does not flicker, and keeps the scrollback.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Renders a live timerlat run.
pub struct TimerlatListener {
    builder: TimerlatSummaryBuilder,
    summary_options: TimerlatSummaryOptions,
    options: TimerlatOptions,
    format: OutputFormat,
    style: Style,
    lines: render::trace::ActivationLines,
    /// For `trace` in JSON, which writes each activation when it completes.
    document: TimerlatDocumentWriter,
    /// The style of the coverage on standard error, if the output cannot contain it.
    pub stderr_style: Option<Style>,
}

impl TimerlatListener {
    /// Creates a listener without records. `period_ns` is the period of the timer; `user` is whether
    /// user-space threads measure.
    pub fn new(
        options: TimerlatOptions,
        period_ns: Option<u64>,
        user: bool,
        format: OutputFormat,
        style: Style,
    ) -> Self {
        let summary_options =
            TimerlatSummaryOptions { is_live: true, ..options.summary_options(RESOLUTION_NS, period_ns) };
        let lines = render::trace::ActivationLines::new(style.clone(), user);
        Self {
            builder: TimerlatSummaryBuilder::new(summary_options),
            summary_options,
            options,
            format,
            style,
            lines,
            document: TimerlatDocumentWriter::new(&summary_options),
            stderr_style: None,
        }
    }

    fn show(&mut self, over: Vec<ExplainedActivation>, out: &mut dyn Write) -> io::Result<()> {
        match (self.options.view, self.format) {
            (TimerlatView::Trace, OutputFormat::Json) => out.write_all(self.document.activations(&over)?.as_bytes())?,
            (TimerlatView::Trace, OutputFormat::Csv) => out.write_all(render::csv::activations(&over)?.as_bytes())?,
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
                out.write_all(render::csv::titles(TimerlatView::Trace)?.as_bytes())
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
        write!(out, "{REDRAW}{}", render::top::text(self.builder.so_far(), self.options.form, &self.style))
    }

    fn end(&mut self, info: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()> {
        let mut builder = std::mem::replace(&mut self.builder, TimerlatSummaryBuilder::new(self.summary_options));
        info.add_to(builder.coverage());
        let (summary, over) = builder.end();
        self.show(over, out)?;
        let text = match (self.format, self.options.view) {
            (OutputFormat::Json, TimerlatView::Trace) => self.document.end(&summary)?,
            (OutputFormat::Json, _) => render::json(&summary, &summary.worst)?,
            (OutputFormat::Csv, TimerlatView::Trace) => String::new(),
            (OutputFormat::Csv, view) => render::csv::run(view, &summary)?,
            (OutputFormat::Human, _) => render::text(self.options, &summary, &self.style),
        };
        let redraw = if info.redrawn { REDRAW } else { "" };
        write!(out, "{redraw}{text}")?;
        write_coverage(&summary.coverage, self.stderr_style.as_ref());
        Ok(())
    }
}

/// Renders a live osnoise run.
pub struct OsnoiseListener {
    summary: NoiseSummary,
    view: NoiseView,
    format: OutputFormat,
    style: Style,
    /// The style of the coverage on standard error, if the output cannot contain it.
    pub stderr_style: Option<Style>,
}

impl OsnoiseListener {
    /// Creates a listener without records.
    pub fn new(shown: OsnoiseOptions, format: OutputFormat, style: Style) -> Self {
        let mut summary = NoiseSummary::new(shown.bins);
        summary.is_live = true;
        Self { summary, view: shown.view, format, style, stderr_style: None }
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
        write!(out, "{REDRAW}{}", render::osnoise::top(&self.summary, &self.style))
    }

    fn end(&mut self, info: &TracerRunInfo, out: &mut dyn Write) -> io::Result<()> {
        info.add_to(&mut self.summary.coverage);
        let text = match (self.format, self.view) {
            (OutputFormat::Json, _) => render::noise_json(&self.summary)?,
            (OutputFormat::Csv, view) => render::csv::noise(view, &self.summary)?,
            (_, NoiseView::Hist) => render::osnoise::hist(&self.summary, &self.style),
            (_, NoiseView::Top) => render::osnoise::top(&self.summary, &self.style),
        };
        let redraw = if info.redrawn { REDRAW } else { "" };
        write!(out, "{redraw}{text}")?;
        write_coverage(&self.summary.coverage, self.stderr_style.as_ref());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::osnoise_tracers::{
        fixtures,
        render::LatencyDisplay,
        text::{TraceItem, TraceReader},
    };

    #[test]
    fn json_has_each_activation_as_soon_as_it_completes() {
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
        while let Some(item) = trace.next().unwrap() {
            let Ok(TraceItem::Record(record)) = item else { continue };
            let before = out.len();
            activations.record(record, &mut out).unwrap();
            pieces += usize::from(out.len() > before);
        }
        activations.end(&TracerRunInfo::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(json_schemas::assert_valid(&text), 1);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let written = document["activations"].as_array().unwrap().len();
        assert_eq!((written, &document["explained"]["activations"]), (4, &4.into()));
        assert!(pieces > 1, "{pieces}");
    }

    #[test]
    fn a_live_histogram_without_noise_advises_no_change_in_tracefs() {
        let shown = OsnoiseOptions { view: NoiseView::Hist, bins: None };
        let mut out = Vec::new();
        OsnoiseListener::new(shown, OutputFormat::Human, Style::default())
            .end(&TracerRunInfo::default(), &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("`-T`") && !text.contains("tracefs"), "{text}");
    }

    #[test]
    fn a_live_why_without_noise_advises_no_change_in_tracefs() {
        let shown = TimerlatOptions {
            view: TimerlatView::Why,
            threshold_ns: None,
            worst: 3,
            form: LatencyDisplay::default(),
            bins: None,
        };
        let mut out = Vec::new();
        TimerlatListener::new(shown, None, false, OutputFormat::Human, Style::default())
            .end(&TracerRunInfo::default(), &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("`-d`") && !text.contains("tracefs"), "{text}");
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
        let text = String::from_utf8(out).unwrap();
        assert_eq!(json_schemas::assert_valid(&text), 1);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["threshold_ns"], &document["activations"]), (&1.into(), &serde_json::json!([])));
    }
}
