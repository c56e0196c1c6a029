//! `osnoise hist` and `osnoise top` for people.

use super::{
    super::noise::{CpuNoise, NoiseSummary},
    coverage,
    hist::{HistColumn, chart, linear, table},
};
use crate::sink::{
    style::{Style, TextStyle},
    text::{TextLine, paragraph, right, width},
    units,
};

/// The distribution of single noises: a chart of all CPUs, the histogram of each.
pub fn hist(summary: &NoiseSummary, style: &Style) -> String {
    let mut out = String::new();
    if summary.all.samples.count() > 0 {
        let columns: Vec<HistColumn> = summary
            .cpus
            .iter()
            .map(|(cpu, noise)| HistColumn {
                title: format!("CPU-{cpu:03}"),
                of: &noise.samples,
                linear: &noise.linear,
                over: None,
            })
            .collect();
        if let Some(bins) = summary.bins {
            linear(&columns, bins, false, style, &mut out);
        } else {
            chart("single noise", "noise", &summary.all.samples, style, &mut out);
            table(&columns, false, false, style, &mut out);
        }
    } else {
        let text = "single noises are not in this trace; `echo 1 > events/osnoise/sample_threshold/enable` in tracefs \
                    has them traced";
        paragraph(TextLine::of(TextStyle::Warning, "note: "), TextStyle::Plain, text, style, &mut out);
    }
    recording(summary, style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}

/// Warns where the figures are mostly those of the recording.
fn recording(summary: &NoiseSummary, style: &Style, out: &mut String) {
    let all = &summary.all;
    if !all.is_mostly_recording() {
        return;
    }
    let threshold = units::exact(all.threshold_above_recording_ns(), false).replace(' ', "");
    let text = format!(
        "{} of {} begin where the one before ended: to record a noise takes longer than the shortest that counts as one, so \
         most of these are what recording took; `-T {threshold}` leaves them out",
        units::thousands(all.back_to_back),
        units::counted(all.samples.count(), "single noise"),
    );
    paragraph(TextLine::of(TextStyle::Warning, "warning: "), TextStyle::Plain, &text, style, out);
}

/// A column of the table.
struct Figure {
    title: &'static str,
    columns: usize,
    cell: fn(&CpuNoise, &Style) -> String,
}

/// A column with its cells, as wide as they need.
struct Filled {
    title: &'static str,
    width: usize,
    cells: Vec<String>,
}

impl Figure {
    fn fill(self, rows: &[(String, &CpuNoise)], style: &Style) -> Filled {
        let cells: Vec<String> = rows.iter().map(|(_, noise)| (self.cell)(noise, style)).collect();
        let widest = cells.iter().map(|cell| width(cell) + 1).max().unwrap_or(0);
        Filled { title: self.title, width: widest.max(self.columns), cells }
    }
}

/// In rtla's words and order. Times are in µs, as in rtla.
const FIGURES: [Figure; 11] = [
    Figure { title: "Period", columns: 7, cell: |noise, _| count(noise.periods) },
    Figure { title: "Runtime", columns: 12, cell: |noise, _| periods(noise, noise.runtime_ns / 1_000) },
    Figure { title: "Noise", columns: 11, cell: |noise, _| units::thousands(noise.noise_ns() / 1_000) },
    Figure { title: "% CPU", columns: 10, cell: available },
    Figure { title: "Max Noise", columns: 11, cell: |noise, _| periods(noise, noise.max_noise_ns / 1_000) },
    Figure { title: "Max Single", columns: 12, cell: |noise, _| units::thousands(noise.max_single_ns() / 1_000) },
    Figure { title: "HW", columns: 8, cell: |noise, _| units::thousands(noise.counts().hw) },
    Figure { title: "NMI", columns: 6, cell: |noise, _| units::thousands(noise.counts().nmi) },
    Figure { title: "IRQ", columns: 8, cell: |noise, _| units::thousands(noise.counts().irq) },
    Figure { title: "SIRQ", columns: 7, cell: |noise, _| units::thousands(noise.counts().softirq) },
    Figure { title: "Thread", columns: 8, cell: |noise, _| units::thousands(noise.counts().thread) },
];

/// Columns of the CPU.
const CPU: usize = 4;

fn count(number: u64) -> String {
    if number == 0 { "-".to_owned() } else { units::thousands(number) }
}

/// What only whole periods tell.
fn periods(noise: &CpuNoise, number: u64) -> String {
    if noise.periods == 0 { "-".to_owned() } else { units::thousands(number) }
}

fn available(noise: &CpuNoise, _: &Style) -> String {
    noise.available().map_or_else(|| "-".to_owned(), |part| format!("{}.{:05}", part / 100_000, part % 100_000))
}

/// A line for each CPU. Columns that do not fit beside the others stand below them.
pub fn top(summary: &NoiseSummary, style: &Style) -> String {
    let mut out = String::new();
    let all = (summary.cpus.len() > 1).then_some(("all".to_owned(), &summary.all));
    let rows: Vec<(String, &CpuNoise)> =
        summary.cpus.iter().map(|(cpu, noise)| (cpu.to_string(), noise)).chain(all).collect();
    let mut columns: &[Filled] = &FIGURES.map(|figure| figure.fill(&rows, style));
    while !columns.is_empty() {
        let mut room = style.columns() - CPU;
        let fitting = columns.iter().take_while(|column| match room.checked_sub(column.width) {
            Some(rest) => {
                room = rest;
                true
            }
            None => false,
        });
        let (these, rest) = columns.split_at(fitting.count().max(1));
        columns = rest;
        let mut title = TextLine::of(TextStyle::Title, format!("{:>CPU$}", "CPU"));
        these.iter().for_each(|column| title.push(TextStyle::Title, right(column.title, column.width)));
        title.finish(style, &mut out);
        for (index, (name, _)) in rows.iter().enumerate() {
            let mut line = TextLine::of(TextStyle::Plain, format!("{name:>CPU$}"));
            these.iter().for_each(|column| line.push(TextStyle::Plain, right(&column.cells[index], column.width)));
            line.finish(style, &mut out);
        }
        out.push('\n');
    }
    let mut text = format!("times are in {}; % CPU is what was left to the workload", style.pick("µs", "us"));
    if summary.all.periods == 0 {
        text.push_str(
            ", known when a period ends; without one, noise is the sum of the single noises, and counts are of what was \
             recorded",
        );
    }
    paragraph(TextLine::new(), TextStyle::Dim, &text, style, &mut out);
    recording(summary, style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}
