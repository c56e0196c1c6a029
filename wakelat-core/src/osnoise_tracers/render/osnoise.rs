//! Renders `osnoise hist` and `osnoise top` for people.

use super::{
    super::osnoise_summary::{CpuNoise, NoiseSummary},
    coverage,
    hist::{HistColumn, chart, linear, table},
};
use crate::render::{
    style::{Style, TextStyle},
    text_line::{TextLine, paragraph, right, width},
    units,
};

/// Renders the distribution of single noises: a chart of all CPUs, and the histogram of each.
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
        let text = if summary.is_live {
            "no single noise was long enough to count; measure longer (`-d`), or count shorter noises (`-T`)"
        } else {
            "this trace has no single noises; run `echo 1 > events/osnoise/sample_threshold/enable` in tracefs to \
             trace them"
        };
        paragraph(TextLine::of(TextStyle::Warning, "note: "), TextStyle::Plain, text, style, &mut out);
    }
    recording(summary, style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}

/// Appends a warning if most of the noise is the cost of recording.
fn recording(summary: &NoiseSummary, style: &Style, out: &mut String) {
    let all = &summary.all;
    if !all.is_mostly_recording() {
        return;
    }
    let threshold = units::exact(all.threshold_above_recording_ns(), false).replace(' ', "");
    let text = format!(
        "{} of {} begin where the previous one ended: recording a noise takes longer than the shortest one that counts, so \
         most of these are the cost of recording; use `-T {threshold}` to leave them out",
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

/// The columns, in rtla's words and order. Times are in µs, as in rtla.
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

/// Width of the column `CPU`, in columns of the terminal.
const CPU: usize = 4;

fn count(number: u64) -> String {
    if number == 0 { "-".to_owned() } else { units::thousands(number) }
}

/// Formats a number that is known only from whole periods.
fn periods(noise: &CpuNoise, number: u64) -> String {
    if noise.periods == 0 { "-".to_owned() } else { units::thousands(number) }
}

fn available(noise: &CpuNoise, _: &Style) -> String {
    noise.available().map_or_else(|| "-".to_owned(), |share| format!("{}.{:05}", share / 100_000, share % 100_000))
}

/// Renders a line for each CPU. Columns that do not fit beside the others are shown below them.
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
        let (shown, rest) = columns.split_at(fitting.count().max(1));
        columns = rest;
        let mut title = TextLine::of(TextStyle::Title, format!("{:>CPU$}", "CPU"));
        shown.iter().for_each(|column| title.push(TextStyle::Title, right(column.title, column.width)));
        title.finish(style, &mut out);
        for (index, (name, _)) in rows.iter().enumerate() {
            let mut line = TextLine::of(TextStyle::Plain, format!("{name:>CPU$}"));
            shown.iter().for_each(|column| line.push(TextStyle::Plain, right(&column.cells[index], column.width)));
            line.finish(style, &mut out);
        }
        out.push('\n');
    }
    let mut text = format!("times are in {}; % CPU is the share left to the workload", style.pick("µs", "us"));
    if summary.all.periods == 0 {
        text.push_str(
            "; no period has ended, so Noise is the sum of the single noises, and the counts are of recorded events",
        );
    }
    paragraph(TextLine::new(), TextStyle::Dim, &text, style, &mut out);
    recording(summary, style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}
