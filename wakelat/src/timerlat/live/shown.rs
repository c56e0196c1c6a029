//! What people and programs see of a live run: the same views as of a saved trace.

use std::io::{self, Write};

use super::run::{Account, Listener};
use crate::{
    sink::{Format, Style},
    timerlat::{
        explain::Explained,
        noise::NoiseSummary,
        record::Record,
        run::{self, NoiseShown, Shown},
        sink::{self, NoiseView, RunText, View},
        summary::{Rules, Summing},
    },
};

/// Live records have whole nanoseconds.
const RESOLUTION_NS: u64 = 1;
/// Home, and clear what is below: no flicker, and the scrollback stays.
const REDRAW: &str = "\x1b[H\x1b[J";

/// A run of timerlat.
pub struct Activations {
    summing: Summing,
    rules: Rules,
    shown: Shown,
    format: Format,
    style: Style,
    lines: sink::trace::Lines,
    /// For a program that is shown each activation.
    document: RunText,
}

impl Activations {
    /// Nothing has been recorded yet. The timer's period is `period_ns`; threads of `user` space measure or do not.
    pub fn new(shown: Shown, period_ns: Option<u64>, user: bool, format: Format, style: Style) -> Self {
        let rules = shown.rules(RESOLUTION_NS, period_ns);
        let lines = sink::trace::Lines::new(style.clone(), user);
        Self { summing: Summing::new(rules), rules, shown, format, style, lines, document: RunText::new(&rules) }
    }

    fn show(&mut self, over: Vec<Explained>, out: &mut dyn Write) -> io::Result<()> {
        match (self.shown.view, self.format) {
            (View::Trace, Format::Json) => out.write_all(self.document.activations(&over)?.as_bytes())?,
            (View::Trace, Format::Csv) => out.write_all(sink::csv::activations(&over)?.as_bytes())?,
            (View::Trace, _) => {
                let lines: String = over.iter().map(|one| self.lines.line(one)).collect();
                out.write_all(lines.as_bytes())?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Listener for Activations {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (self.shown.view, self.format) {
            (View::Trace, Format::Csv) => out.write_all(sink::csv::titles(View::Trace)?.as_bytes()),
            (View::Trace, Format::Human) => out.write_all(self.lines.head().as_bytes()),
            _ => Ok(()),
        }
    }

    fn record(&mut self, record: Record, out: &mut dyn Write) -> io::Result<()> {
        let over = self.summing.push(record);
        self.show(over, out)
    }

    fn lost(&mut self, cpu: u32, events: u64) {
        self.summing.lost(cpu, Some(events));
    }

    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{REDRAW}{}", sink::top::text(self.summing.so_far(), self.shown.form, &self.style))
    }

    fn end(&mut self, account: &Account, out: &mut dyn Write) -> io::Result<()> {
        let mut summing = std::mem::replace(&mut self.summing, Summing::new(self.rules));
        account.to(summing.coverage());
        let (summary, over) = summing.end();
        self.show(over, out)?;
        let text = match (self.format, self.shown.view) {
            (Format::Json, View::Trace) => self.document.end(&summary)?,
            (Format::Json, _) => sink::json(&summary, &summary.worst)?,
            (Format::Csv, View::Trace) => String::new(),
            (Format::Csv, view) => sink::csv::run(view, &summary)?,
            (Format::Human, _) => run::text(self.shown, &summary, &self.style),
        };
        let redraw = if account.redrawn { REDRAW } else { "" };
        write!(out, "{redraw}{text}")
    }
}

/// A run of osnoise.
pub struct Noises {
    summary: NoiseSummary,
    view: NoiseView,
    format: Format,
    style: Style,
}

impl Noises {
    /// Nothing has been said yet.
    pub fn new(shown: NoiseShown, format: Format, style: Style) -> Self {
        Self { summary: NoiseSummary::new(shown.bins), view: shown.view, format, style }
    }
}

impl Listener for Noises {
    fn record(&mut self, record: Record, _out: &mut dyn Write) -> io::Result<()> {
        self.summary.push(&record);
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) {
        self.summary.lost(cpu, Some(events));
    }

    fn interval(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{REDRAW}{}", sink::osnoise::top(&self.summary, &self.style))
    }

    fn end(&mut self, account: &Account, out: &mut dyn Write) -> io::Result<()> {
        account.to(&mut self.summary.coverage);
        let text = match (self.format, self.view) {
            (Format::Json, _) => sink::noise_json(&self.summary)?,
            (Format::Csv, view) => sink::csv::noise(view, &self.summary)?,
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
            sink::Form,
            text::{Said, Trace},
        },
    };

    #[test]
    fn a_program_has_each_activation_as_soon_as_it_is_over() {
        let shown = Shown { view: View::Trace, threshold_ns: None, worst: 0, form: Form::default(), bins: None };
        let mut activations = Activations::new(shown, None, false, Format::Json, Style::default());
        let (mut out, mut pieces) = (Vec::new(), 0);
        let mut trace = Trace::new(fixtures::DOCUMENTATION[0].as_bytes());
        while let Some(said) = trace.next().unwrap() {
            let Ok(Said::Record(record)) = said else { continue };
            let before = out.len();
            activations.record(record, &mut out).unwrap();
            pieces += usize::from(out.len() > before);
        }
        activations.end(&Account::default(), &mut out).unwrap();
        let document = parsed(std::str::from_utf8(&out).unwrap());
        let written = document["activations"].as_array().unwrap().len();
        assert_eq!((written, &document["explained"]["activations"]), (4, &4.into()));
        assert!(pieces > 1, "{pieces}");
    }

    #[test]
    fn a_run_without_activations_is_a_document_too() {
        let shown = Shown { view: View::Trace, threshold_ns: Some(1), worst: 0, form: Form::default(), bins: None };
        let mut out = Vec::new();
        Activations::new(shown, None, false, Format::Json, Style::default())
            .end(&Account::default(), &mut out)
            .unwrap();
        let document = parsed(std::str::from_utf8(&out).unwrap());
        assert_eq!((&document["threshold_ns"], &document["activations"]), (&1.into(), &serde_json::json!([])));
    }
}
