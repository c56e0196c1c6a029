//! `timerlat hist` for people: a chart of each context, and the histogram of each CPU in rtla's words.

use super::{
    super::{
        record::Context,
        summary::{Latencies, Summary},
    },
    PERCENTILES, coverage, words,
};
use crate::{
    aggregate::distribution::Distribution,
    sink::{
        chart,
        style::{Ink, Style},
        text::{Line, flow, left, right},
        units,
    },
};

/// Columns of the first column of the table.
const INDEX: usize = 10;

/// Columns of every other one at least, the space before it included.
const COLUMN: usize = 10;

/// The charts, the table, the coverage.
pub fn text(summary: &Summary, style: &Style) -> String {
    let mut out = String::new();
    for context in summary.contexts() {
        let of = summary.all.of(context);
        if of.count() > 0 {
            chart(words::latency(context), "activation", of, style, &mut out);
        }
    }
    let columns: Vec<Column> = summary
        .cpus
        .iter()
        .flat_map(|(cpu, latencies)| {
            let of = |context: Context| Column {
                title: format!("{}-{cpu:03}", context.name()),
                of: latencies.of(context),
                over: (Some(context) == last(latencies)).then_some(latencies.over),
            };
            summary.contexts().into_iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    table(&columns, summary.rules.threshold_ns.is_some(), style, &mut out);
    coverage(&summary.coverage, style, &mut out);
    out
}

/// The context whose latency is the whole activation's.
fn last(latencies: &Latencies) -> Option<Context> {
    Context::ALL.into_iter().rev().find(|context| latencies.of(*context).count() > 0)
}

/// A chart with its title and its figures.
pub(super) fn chart(title: &str, things: &str, of: &Distribution, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let count = Line::of(Ink::Plain, units::counted(of.count(), things));
    flow(Line::new(), vec![Line::of(Ink::Title, title), count], dot, style, out);
    chart::bars(of, style, out);
    let figure = |(name, ns): (&str, u64)| {
        let ink = if name == "p99" { Ink::Strong } else { Ink::Plain };
        Line::of(Ink::Dim, format!("{name} ")).and(ink, words::time(ns, style))
    };
    let mut figures = vec![("min", of.min_ns()), ("avg", of.mean_ns())];
    figures.extend(PERCENTILES.iter().map(|(percent, name)| (*name, of.percentile_ns(*percent))));
    figures.push(("max", of.max_ns()));
    flow(Line::of(Ink::Plain, "  "), figures.into_iter().map(figure).collect(), "  ", style, out);
    if let Some(max) = of.max() {
        Line::of(Ink::Dim, "  max at ")
            .and(Ink::Plain, format!("{} on CPU {}", words::instant(max.at_ns), max.cpu))
            .end(style, out);
    }
    out.push('\n');
}

/// A column of the table.
pub(super) struct Column<'a> {
    pub title: String,
    pub of: &'a Distribution,
    pub over: Option<u64>,
}

/// The table in rtla's form, as many columns below each other as it takes.
pub(super) fn table(columns: &[Column], over: bool, style: &Style, out: &mut String) {
    let most = columns.iter().map(|column| column.of.count()).max().unwrap_or(0);
    let width = COLUMN.max(units::thousands(most).len() + 1);
    let fitting = ((style.columns() - INDEX) / width).max(1);
    for columns in columns.chunks(fitting) {
        let line = |name: &str, ink: Ink, cell: &dyn Fn(&Column) -> String, out: &mut String| {
            let mut line = Line::of(ink, left(name, INDEX, style));
            let inked = if ink == Ink::Title { ink } else { Ink::Plain };
            columns.iter().for_each(|column| line.push(inked, right(&cell(column), width)));
            line.end(style, out);
        };
        line("Index", Ink::Title, &|column| column.title.clone(), out);
        let counts: Vec<[u64; 65]> = columns.iter().map(|column| powers(column.of)).collect();
        for power in (0..65).filter(|power| counts.iter().any(|counts| counts[*power] > 0)) {
            let from = if power == 0 { 0 } else { 1 << (power - 1) };
            let label = format!("{} {}", style.pick("≥", ">="), units::bound(from, style.unicode));
            let cells: Vec<String> = counts.iter().map(|counts| units::thousands(counts[power])).collect();
            let mut row = Line::of(Ink::Dim, left(&label, INDEX, style));
            cells.iter().for_each(|cell| row.push(Ink::Plain, right(cell, width)));
            row.end(style, out);
        }
        line("count:", Ink::Dim, &|column| units::thousands(column.of.count()), out);
        if over {
            line("over:", Ink::Dim, &|column| column.over.map_or_else(|| "-".to_owned(), units::thousands), out);
        }
        let bound = |ns| units::bound(ns, style.unicode);
        line("min:", Ink::Dim, &|column| bound(column.of.min_ns()), out);
        line("avg:", Ink::Dim, &|column| bound(column.of.mean_ns()), out);
        for (percent, name) in PERCENTILES {
            line(&format!("{name}:"), Ink::Dim, &|column| bound(column.of.percentile_ns(percent)), out);
        }
        line("max:", Ink::Dim, &|column| bound(column.of.max_ns()), out);
        out.push('\n');
    }
}

/// How many values there are from each power of two to the next; the first is zero alone.
fn powers(of: &Distribution) -> [u64; 65] {
    let mut counts = [0; 65];
    for bucket in of.buckets() {
        counts[bucket.from_ns.checked_ilog2().map_or(0, |power| power as usize + 1)] += bucket.count;
    }
    counts
}
