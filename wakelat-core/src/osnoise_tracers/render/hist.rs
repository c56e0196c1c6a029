//! Renders `timerlat hist` for people: a chart of each context, and the histogram of each CPU with rtla's
//! names.

use std::collections::BTreeSet;

use super::{
    super::{
        linear::{Bins, LinearHistogram},
        record::TimerlatContext,
        summary::{Latencies, TimerlatSummary},
    },
    LatencyDisplay, PERCENTILES, coverage, labels,
};
use crate::{
    aggregate::distribution::Distribution,
    render::{
        chart,
        style::{Style, TextStyle},
        text_line::{TextLine, flow, left, right},
        units,
    },
};

/// Width of the first column of the table, in columns of the terminal.
const INDEX: usize = 10;

/// Minimum width of all other columns, including the space before them, in columns of the terminal.
const COLUMN: usize = 10;

/// Renders the charts, the table and the coverage.
pub fn text(summary: &TimerlatSummary, form: LatencyDisplay, style: &Style) -> String {
    let mut out = String::new();
    let contexts: Vec<TimerlatContext> =
        summary.contexts().into_iter().filter(|context| form.shows(*context)).collect();
    let columns: Vec<HistColumn> = summary
        .cpus
        .iter()
        .flat_map(|(cpu, latencies)| {
            contexts.iter().map(move |context| HistColumn {
                title: format!("{}-{cpu:03}", context.name()),
                of: latencies.of(*context),
                linear: latencies.linear(*context),
                over: (Some(*context) == last(latencies)).then_some(latencies.over),
            })
        })
        .collect();
    if let Some(bins) = summary.options.bins {
        linear(&columns, bins, form.nano, style, &mut out);
    } else {
        for context in &contexts {
            let of = summary.all.of(*context);
            if of.count() > 0 {
                chart(labels::latency(*context), "activation", of, style, &mut out);
            }
        }
        table(&columns, summary.options.threshold_ns.is_some(), form.nano, style, &mut out);
    }
    coverage(&summary.coverage, style, &mut out);
    out
}

/// The last context measured, whose latency is that of the whole activation.
fn last(latencies: &Latencies) -> Option<TimerlatContext> {
    TimerlatContext::ALL.into_iter().rev().find(|context| latencies.of(*context).count() > 0)
}

/// Appends a chart with its title and its figures.
pub(super) fn chart(title: &str, things: &str, of: &Distribution, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let count = TextLine::of(TextStyle::Plain, units::counted(of.count(), things));
    flow(TextLine::new(), vec![TextLine::of(TextStyle::Title, title), count], dot, style, out);
    chart::bars(of, style, out);
    let figure = |(name, ns): (&str, u64)| {
        let ink = if name == "p99" { TextStyle::Strong } else { TextStyle::Plain };
        TextLine::of(TextStyle::Dim, format!("{name} ")).and(ink, labels::time(ns, style))
    };
    let mut figures = vec![("min", of.min_ns()), ("avg", of.avg_ns())];
    figures.extend(PERCENTILES.iter().map(|(percent, name)| (*name, of.percentile_ns(*percent))));
    figures.push(("max", of.max_ns()));
    flow(TextLine::of(TextStyle::Plain, "  "), figures.into_iter().map(figure).collect(), "  ", style, out);
    if let Some(max) = of.max() {
        TextLine::of(TextStyle::Dim, "  max at ")
            .and(TextStyle::Plain, format!("{} on CPU {}", labels::instant(max.at_ns), max.cpu))
            .finish(style, out);
    }
    out.push('\n');
}

/// A column of the table.
pub(super) struct HistColumn<'a> {
    pub title: String,
    pub of: &'a Distribution,
    pub linear: &'a LinearHistogram,
    pub over: Option<u64>,
}

/// Columns of the table that fit beside each other, and their width in columns of the terminal.
struct Block<'a> {
    columns: &'a [HistColumn<'a>],
    width: usize,
}

impl Block<'_> {
    /// Appends a line of the block.
    fn line(&self, name: &str, ink: TextStyle, cell: impl Fn(&HistColumn) -> String, style: &Style, out: &mut String) {
        let mut line = TextLine::of(ink, left(name, INDEX, style));
        let inked = if ink == TextStyle::Title { ink } else { TextStyle::Plain };
        self.columns.iter().for_each(|column| line.push(inked, right(&cell(column), self.width)));
        line.finish(style, out);
    }

    /// Appends the lines below the counts.
    fn sums(&self, nano: bool, style: &Style, out: &mut String) {
        let time = |ns| time(ns, nano, style);
        self.line("min:", TextStyle::Dim, |column| time(column.of.min_ns()), style, out);
        self.line("avg:", TextStyle::Dim, |column| time(column.of.avg_ns()), style, out);
        for (percent, name) in PERCENTILES {
            self.line(&format!("{name}:"), TextStyle::Dim, |column| time(column.of.percentile_ns(percent)), style, out);
        }
        self.line("max:", TextStyle::Dim, |column| time(column.of.max_ns()), style, out);
        out.push('\n');
    }
}

/// Splits the columns into blocks that fit the terminal.
fn blocks<'a>(columns: &'a [HistColumn<'a>], style: &Style) -> impl Iterator<Item = Block<'a>> {
    let most = columns.iter().map(|column| column.of.count()).max().unwrap_or(0);
    let width = COLUMN.max(units::thousands(most).len() + 1);
    let fitting = ((style.columns() - INDEX) / width).max(1);
    columns.chunks(fitting).map(move |columns| Block { columns, width })
}

fn time(ns: u64, nano: bool, style: &Style) -> String {
    if nano { units::thousands(ns) } else { units::bound(ns, style.unicode) }
}

/// Appends the table in rtla's format, with a row for each power of two, and as many blocks below each
/// other as needed.
pub(super) fn table(columns: &[HistColumn], over: bool, nano: bool, style: &Style, out: &mut String) {
    for block in blocks(columns, style) {
        block.line(
            if nano { "Index ns" } else { "Index" },
            TextStyle::Title,
            |column| column.title.clone(),
            style,
            out,
        );
        let powers = |column: &HistColumn| powers(column.of);
        let seen: Vec<usize> = (0..65).filter(|power| block.columns.iter().any(|of| powers(of)[*power] > 0)).collect();
        for power in seen {
            let from = if power == 0 { 0 } else { 1 << (power - 1) };
            let label = format!("{} {}", style.pick("≥", ">="), time(from, nano, style));
            block.line(&label, TextStyle::Dim, |column| units::thousands(powers(column)[power]), style, out);
        }
        block.line("count:", TextStyle::Dim, |column| units::thousands(column.of.count()), style, out);
        if over {
            let cell = |column: &HistColumn| column.over.map_or_else(|| "-".to_owned(), units::thousands);
            block.line("over:", TextStyle::Dim, cell, style, out);
        }
        block.sums(nano, style, out);
    }
}

/// Appends the table with rtla's rows: buckets of equal width, by their lower bound, without empty ones.
pub(super) fn linear(columns: &[HistColumn], bins: Bins, nano: bool, style: &Style, out: &mut String) {
    let unit_ns = if nano { 1 } else { 1_000 };
    let unit = if nano { "ns" } else { style.pick("µs", "us") };
    for block in blocks(columns, style) {
        block.line(&format!("Index {unit}"), TextStyle::Title, |column| column.title.clone(), style, out);
        let seen: BTreeSet<u64> =
            block.columns.iter().flat_map(|column| column.linear.counts.keys().copied()).collect();
        for bin in seen {
            let cell = |column: &HistColumn| units::thousands(column.linear.counts.get(&bin).copied().unwrap_or(0));
            block.line(&(bin * (bins.width_ns / unit_ns)).to_string(), TextStyle::Dim, cell, style, out);
        }
        block.line("over:", TextStyle::Dim, |column| units::thousands(column.linear.over), style, out);
        block.line("count:", TextStyle::Dim, |column| units::thousands(column.of.count()), style, out);
        block.sums(nano, style, out);
    }
}

/// The number of values from each power of two to the next. The first element counts only zeros.
fn powers(of: &Distribution) -> [u64; 65] {
    let mut counts = [0; 65];
    for bucket in of.buckets() {
        counts[bucket.from_ns.checked_ilog2().map_or(0, |power| power as usize + 1)] += bucket.count;
    }
    counts
}
