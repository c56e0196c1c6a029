//! `osnoise hist` and `osnoise top` for people.

use super::{
    super::noise::{CpuNoise, NoiseSummary},
    coverage,
    hist::{Column, chart, table},
    top::us,
};
use crate::sink::{
    style::{Ink, Style},
    text::{Line, paragraph, right},
    units,
};

/// The distribution of single noises: a chart of all CPUs, the histogram of each.
pub fn hist(summary: &NoiseSummary, style: &Style) -> String {
    let mut out = String::new();
    if summary.all.samples.count() > 0 {
        chart("single noise", "noise", &summary.all.samples, style, &mut out);
        let column = |(cpu, noise): (&u32, &'_ CpuNoise)| (format!("CPU-{cpu:03}"), noise.samples.clone());
        let columns: Vec<_> = summary.cpus.iter().map(column).collect();
        let columns: Vec<Column> =
            columns.iter().map(|(title, of)| Column { title: title.clone(), of, over: None }).collect();
        table(&columns, false, style, &mut out);
    } else {
        let text = "single noises are not in this trace; `echo 1 > events/osnoise/sample_threshold/enable` in tracefs \
                    has them traced";
        paragraph(Line::of(Ink::Warning, "note: "), Ink::Plain, text, style, &mut out);
    }
    coverage(&summary.coverage, style, &mut out);
    out
}

/// A column of the table.
struct Figure {
    title: &'static str,
    columns: usize,
    cell: fn(&CpuNoise, &Style) -> String,
}

/// In rtla's words and order. Times are in µs, as in rtla.
const FIGURES: [Figure; 11] = [
    Figure { title: "Period", columns: 7, cell: |noise, _| count(noise.periods) },
    Figure { title: "Runtime", columns: 12, cell: |noise, _| periods(noise, noise.runtime_ns / 1_000) },
    Figure { title: "Noise", columns: 11, cell: |noise, _| units::thousands(noise.noise_ns() / 1_000) },
    Figure { title: "% CPU", columns: 10, cell: available },
    Figure { title: "Max Noise", columns: 11, cell: |noise, _| periods(noise, noise.max_noise_ns / 1_000) },
    Figure { title: "Max Single", columns: 12, cell: |noise, _| us(noise.max_single_ns()) },
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
    let mut figures = &FIGURES[..];
    while !figures.is_empty() {
        let mut room = style.columns() - CPU;
        let fitting = figures.iter().take_while(|figure| match room.checked_sub(figure.columns) {
            Some(rest) => {
                room = rest;
                true
            }
            None => false,
        });
        let (these, rest) = figures.split_at(fitting.count().max(1));
        figures = rest;
        let mut title = Line::of(Ink::Title, format!("{:>CPU$}", "CPU"));
        these.iter().for_each(|figure| title.push(Ink::Title, right(figure.title, figure.columns)));
        title.end(style, &mut out);
        let all = (summary.cpus.len() > 1).then_some(("all".to_owned(), &summary.all));
        let cpus = summary.cpus.iter().map(|(cpu, noise)| (cpu.to_string(), noise));
        for (name, noise) in cpus.chain(all) {
            let mut line = Line::of(Ink::Plain, format!("{name:>CPU$}"));
            these.iter().for_each(|figure| line.push(Ink::Plain, right(&(figure.cell)(noise, style), figure.columns)));
            line.end(style, &mut out);
        }
        out.push('\n');
    }
    let mut text = format!("times are in {}; % CPU is what was left to the workload", style.pick("µs", "us"));
    if summary.all.periods == 0 {
        text.push_str(
            ", known when a period ends; noise is the sum of the single noises, counts are of the noise records",
        );
    }
    paragraph(Line::new(), Ink::Dim, &text, style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}
