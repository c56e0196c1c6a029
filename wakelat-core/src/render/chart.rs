//! Renders `hist` for people: a chart for each group.

use std::io::{self, Write};

use super::{
    PERCENTILES, ReportRenderer,
    chart_rows::{ChartRow, rows},
    coverage, labels,
    style::{Style, TextStyle},
    text_line::{TextLine, flow, right, width},
    timestamps, top_table, units, window,
};
use crate::{
    aggregate::distribution::{Bucket, Distribution},
    files::own_number,
    report::{Group, Report},
};

/// Maximum number of groups with a chart of their own; the others get a line each.
const CHARTS: usize = 10;

/// Maximum length of a bar, in columns. A longer bar would not show more.
const LONGEST_BAR: usize = 80;

/// Minimum length of the longest bar, in columns. A chart drops other details before its bars get shorter
/// than this.
const SHORT_BAR: usize = 16;

/// Renders reports as charts.
pub struct Chart {
    /// How the text looks.
    pub style: Style,
}

impl ReportRenderer for Chart {
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        write(report, &self.style, out)
    }
}

/// Writes a chart for each of the largest groups, a line for each of the others, and the coverage.
pub fn write(report: &Report, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    window(report, style, &mut text);
    // The groups with the most waits get the charts, in the order of the report.
    let mut by_count: Vec<usize> = (0..report.groups.len()).collect();
    by_count.sort_by_key(|index| std::cmp::Reverse(report.groups[*index].distribution.count()));
    let rest = by_count.split_off(by_count.len().min(CHARTS));
    for (_, group) in report.groups.iter().enumerate().filter(|(index, _)| by_count.contains(index)) {
        draw(group, report, style, &mut text);
        text.push('\n');
    }
    if !rest.is_empty() {
        let groups: Vec<&Group> = rest.iter().map(|index| &report.groups[*index]).collect();
        let title = format!("{}, one line each:", units::counted(rest.len() as u64, "more group"));
        TextLine::of(TextStyle::Title, title).finish(style, &mut text);
        top_table::lines(&groups, report, top_table::Sort::Waits, style, &mut text);
        text.push('\n');
    }
    coverage::render(report, style, &mut text);
    out.write_all(text.as_bytes())
}

/// Renders the chart of one group: title, bars, summary.
pub fn draw(group: &Group, report: &Report, style: &Style, out: &mut String) {
    title(group, report, style, out);
    bars(&group.distribution, style, out);
    summary(group, report, style, out);
}

/// Renders the bars of one distribution, with its percentiles marked.
pub fn bars(distribution: &Distribution, style: &Style, out: &mut String) {
    let rows = rows(&distribution.buckets());
    let layout = Layout::of(distribution, &rows, style);
    for row in &rows {
        layout.line(row, style).finish(style, out);
    }
}

fn title(group: &Group, report: &Report, style: &Style, out: &mut String) {
    let count = units::counted(group.distribution.count(), "wait");
    let dot = style.pick(" · ", " | ");
    let mut line = TextLine::of(TextStyle::Title, labels::figure(group.class, report.from));
    if let Some(key) = labels::key(&group.key, style) {
        line.push(TextStyle::Dim, dot);
        let room = style.columns().saturating_sub(line.width() + width(dot) + width(&count)).max(8);
        line.push(TextStyle::Title, super::text_line::fit(&key, room, style));
    }
    flow(TextLine::new(), vec![line, TextLine::of(TextStyle::Plain, count)], dot, style, out);
}

/// What a chart shows in the available width.
struct Layout {
    /// Whether labels have both bounds instead of only the lower one.
    both_bounds: bool,
    /// Whether counts are abbreviated, such as `12.4k`.
    short_counts: bool,
    label: usize,
    count: usize,
    /// Width of the longest bar, in columns.
    bar: usize,
    /// Number of waits in the longest bar.
    largest: u64,
    /// The marked values: the value in ns and its name.
    marks: Vec<(u64, &'static str)>,
}

impl Layout {
    fn of(distribution: &Distribution, rows: &[ChartRow], style: &Style) -> Self {
        let waits = || rows.iter().filter_map(|row| if let ChartRow::Bucket(row) = row { Some(row) } else { None });
        let mut marks: Vec<_> =
            PERCENTILES.iter().map(|(percent, name)| (distribution.percentile_ns(*percent), *name)).collect();
        marks.push((distribution.max_ns(), "max"));
        let mut layout = Self {
            both_bounds: true,
            short_counts: false,
            label: 0,
            count: 0,
            bar: 0,
            largest: waits().map(|row| row.count).max().unwrap_or(0),
            marks,
        };
        // From the most detailed layout to the least. Readers look for the marks first, so they are dropped
        // last.
        for (both_bounds, short_counts, marked) in
            [(true, false, true), (false, false, true), (false, true, true), (false, true, false)]
        {
            layout.both_bounds = both_bounds;
            layout.short_counts = short_counts;
            if !marked {
                layout.marks.clear();
            }
            layout.label = waits().map(|row| width(&layout.label(row, style))).max().unwrap_or(0);
            layout.count = waits().map(|row| layout.count(row.count).len()).max().unwrap_or(0);
            let marks = waits().map(|row| layout.mark(row, style).width()).max().unwrap_or(0);
            let room = style.columns().saturating_sub(layout.label + layout.count + marks + 5);
            layout.bar = room.clamp(1, LONGEST_BAR);
            if room >= SHORT_BAR {
                break;
            }
        }
        layout
    }

    fn line(&self, row: &ChartRow, style: &Style) -> TextLine {
        match row {
            ChartRow::Gap(rows) => {
                let dots = right(style.pick("⋮", ":"), self.label);
                TextLine::of(TextStyle::Dim, format!(" {dots}  {}  {rows} empty rows", " ".repeat(self.count)))
            }
            ChartRow::Bucket(row) => {
                let mut line = TextLine::of(TextStyle::Dim, format!(" {}", right(&self.label(row, style), self.label)))
                    .and(TextStyle::Plain, format!("  {}  ", right(&self.count(row.count), self.count)))
                    .and(TextStyle::Bar, bar(row.count, self.largest, self.bar, style));
                line.append(self.mark(row, style));
                line
            }
        }
    }

    fn label(&self, row: &Bucket, style: &Style) -> String {
        let from = units::bound(row.from_ns, style.unicode);
        if self.both_bounds {
            let to = units::bound(row.to_ns, style.unicode);
            format!("{from} {} {}", style.pick('–', '-'), right(&to, "1.02 ms".len()))
        } else {
            format!("{} {from}", style.pick("≥", ">="))
        }
    }

    fn count(&self, count: u64) -> String {
        if self.short_counts { units::short(count) } else { units::thousands(count) }
    }

    /// Formats ` ◂ p50 p90`: the marks that fall into `row`.
    fn mark(&self, row: &Bucket, style: &Style) -> TextLine {
        let inside = |value: u64| row.from_ns <= value && (value < row.to_ns || row.to_ns == u64::MAX);
        let mut line = TextLine::new();
        for (_, name) in self.marks.iter().filter(|(value, _)| inside(*value)) {
            if line.width() == 0 {
                line.push(TextStyle::Dim, style.pick(" ◂", " <-"));
            }
            line.push(if *name == "p99" { TextStyle::Strong } else { TextStyle::Plain }, format!(" {name}"));
        }
        line
    }
}

/// Draws a bar on a linear scale, on which `largest` waits take `columns` columns. A single wait is always
/// visible.
pub fn bar(count: u64, largest: u64, columns: usize, style: &Style) -> String {
    let glyphs = style.pick(&['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'][..], &[':', '#'][..]);
    let per_column = glyphs.len() as u128;
    let ticks = (u128::from(count) * columns as u128 * per_column).div_ceil(u128::from(largest.max(1)));
    let (whole, rest) = ((ticks / per_column) as usize, (ticks % per_column) as usize);
    let mut bar: String = std::iter::repeat_n(glyphs[glyphs.len() - 1], whole).collect();
    bar.extend(rest.checked_sub(1).map(|rest| glyphs[rest]));
    bar
}

/// Renders the figures below a chart.
fn summary(group: &Group, report: &Report, style: &Style, out: &mut String) {
    let distribution = &group.distribution;
    let text = |name: &str, value: String| {
        let ink = if name == "p99" { TextStyle::Strong } else { TextStyle::Plain };
        TextLine::of(TextStyle::Dim, format!("{name} ")).and(ink, value)
    };
    let figure = |name: &str, ns: u64| text(name, units::duration(ns, style.unicode));
    let ends = vec![figure("min", distribution.min_ns()), figure("avg", distribution.avg_ns())];
    let percentiles: Vec<TextLine> = PERCENTILES
        .iter()
        .map(|(percent, name)| text(name, labels::percentile(distribution, *percent, style)))
        .collect();
    let head = || TextLine::of(TextStyle::Plain, "  ");
    let all = [ends.clone(), percentiles.clone()].concat();
    if all.iter().map(|figure| figure.width() + 2).sum::<usize>() <= style.columns() {
        flow(head(), all, "  ", style, out);
    } else {
        flow(head(), ends, "  ", style, out);
        flow(head(), percentiles, "  ", style, out);
    }
    let Some(max) = distribution.max() else {
        let of_unknown = (distribution.count() > 0).then(|| figure("max", distribution.max_ns()));
        return flow(head(), of_unknown.into_iter().collect(), " ", style, out);
    };
    let at = timestamps::unix_ns(max.at_ns, report.unix_offset_ns);
    let at = timestamps::time_beside(at, report.start_unix_ns, &style.zone);
    let who = labels::thread(Some(max.comm), max.tid, style.columns() - "  by ".len(), style);
    let mut pieces = vec![
        figure("max", max.latency_ns),
        TextLine::of(TextStyle::Plain, format!("at {at}")),
        TextLine::of(TextStyle::Plain, format!("by {who}")),
    ];
    let on = format!("on CPU {}{}", own_number(max.cpu), labels::in_file(max.tid, style));
    match group.worst.first() {
        Some(worst) if worst.prev_tid == 0 => pieces.push(TextLine::of(TextStyle::Plain, format!("{on} (idle)"))),
        Some(worst) => {
            pieces.push(TextLine::of(TextStyle::Plain, on));
            let running =
                labels::thread(Some(worst.prev_comm), worst.prev_tid, style.columns() - "  (running: )".len(), style);
            pieces.push(TextLine::of(TextStyle::Plain, format!("(running: {running})")));
        }
        None => pieces.push(TextLine::of(TextStyle::Plain, on)),
    }
    flow(head(), pieces, " ", style, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_longer_bar_never_means_fewer_waits(a: u64, b: u64, columns in 1..100usize, unicode: bool) {
            let style = Style { unicode, ..Style::default() };
            let (less, more) = (a.min(b), a.max(b));
            let ticks = |bar: &str| {
                let glyphs: Vec<char> = style.pick("▏▎▍▌▋▊▉█", ":#").chars().collect();
                bar.chars().map(|c| glyphs.iter().position(|glyph| *glyph == c).unwrap() + 1).sum::<usize>()
            };
            let (short, long) = (bar(less, more, columns, &style), bar(more, more, columns, &style));
            prop_assert!(ticks(&short) <= ticks(&long));
            prop_assert_eq!(short.is_empty(), less == 0);
            prop_assert!(width(&long) <= columns);
        }
    }

    #[test]
    fn bars_have_a_resolution_of_an_eighth_of_a_column() {
        let style = Style { unicode: true, ..Style::default() };
        let bars: Vec<_> = (0..=8).map(|count| bar(count, 8, 1, &style)).collect();
        assert_eq!(bars, ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"]);
        assert_eq!(bar(1, 4, 2, &Style::default()), ":");
        assert_eq!(bar(1, u64::MAX, 80, &style), "▏");
    }
}
