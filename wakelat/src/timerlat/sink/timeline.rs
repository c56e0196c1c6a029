//! The time line of an activation: a row for each cause, on the axis from when the timer was due to the last
//! measurement, as in the drawing of Documentation/trace/timerlat-tracer.rst.

use super::{
    super::{
        explain::{Cause, Explained, Share, Span},
        record::Context,
    },
    words,
};
use crate::sink::{
    style::{Ink, Style},
    text::{Line, left, right, width},
};

/// Columns of a name, where there is room.
const NAME: usize = 34;

/// Columns of the two figures.
const FIGURES: usize = 14 + 8;

/// A line shorter than this says nothing.
const SHORT: usize = 12;

/// Adds the rows and the axis to `out`. The figures of the rows are in full: they add up to the latency.
pub fn draw(one: &Explained, style: &Style, out: &mut String) {
    let names: Vec<String> = one.shares.iter().map(|share| words::cause(&share.cause, style)).collect();
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(NAME);
    // Where there is not room for both, names say more than lines.
    let name = longest.min(style.columns() - FIGURES - 2);
    let room = style.columns().saturating_sub(2 + name + FIGURES + 2);
    for (share, cause) in one.shares.iter().zip(&names) {
        let mut line = Line::of(Ink::Plain, format!("  {}", left(cause, name, style)))
            .and(Ink::Plain, right(&words::ns(share.ns), 14))
            .and(Ink::Strong, right(&words::share(share.ns.into(), one.latency_ns.into()), 8));
        if room >= SHORT {
            line.push(Ink::Bar, format!("  {}", row(one, share, room, style)));
        }
        line.end(style, out);
    }
    if room >= SHORT {
        axis(one, 2 + name + FIGURES + 2, room, style, out);
    }
}

/// The row of one cause: full where it had the CPU for most of a column, a sign where it had it at all, a line where
/// it was interrupted.
fn row(one: &Explained, share: &Share, columns: usize, style: &Style) -> String {
    let own: Vec<Span> = match share.cause {
        Cause::Unexplained => gaps(one),
        _ => share.spans.clone(),
    };
    // Whatever interrupts a thread or a delay has a row of its own.
    let interrupts = |other: &&Share| rank(&other.cause) > rank(&share.cause);
    let above: Vec<Span> = one.shares.iter().filter(interrupts).flat_map(|other| other.spans.iter().copied()).collect();
    let total = u128::from(one.latency_ns.max(1));
    (0..columns)
        .map(|column| {
            let edge = |column: usize| (total * column as u128 / columns as u128) as u64;
            let cell = Span { from_ns: edge(column), to_ns: edge(column + 1) };
            let (covered, interrupted) = (inside(&own, cell), inside_both(&own, &above, cell));
            let runs = covered.saturating_sub(interrupted);
            let whole = (cell.to_ns - cell.from_ns).max(1);
            if covered == 0 {
                ' '
            } else if runs * 2 >= whole {
                style.pick('█', '#')
            } else if interrupted * 2 >= whole {
                style.pick('─', '-')
            } else {
                style.pick('▒', ':')
            }
        })
        .collect()
}

/// What interrupts what: higher interrupts lower.
fn rank(cause: &Cause) -> u8 {
    match cause {
        Cause::Nmi => 4,
        Cause::TimerIrq(..) | Cause::Irq(..) => 3,
        Cause::Softirq(_) => 2,
        Cause::Unexplained => 5,
        _ => 1,
    }
}

/// How much of `cell` lies in the spans: ns.
fn inside(spans: &[Span], cell: Span) -> u64 {
    let part = |span: &Span| span.to_ns.min(cell.to_ns).saturating_sub(span.from_ns.max(cell.from_ns));
    spans.iter().map(part).fold(0, u64::saturating_add).min(cell.to_ns - cell.from_ns)
}

/// How much of `cell` lies in spans of both: ns.
fn inside_both(own: &[Span], above: &[Span], cell: Span) -> u64 {
    own.iter()
        .filter_map(|span| {
            let (from_ns, to_ns) = (span.from_ns.max(cell.from_ns), span.to_ns.min(cell.to_ns));
            (from_ns < to_ns).then(|| inside(above, Span { from_ns, to_ns }))
        })
        .fold(0, u64::saturating_add)
}

/// Where nothing is known to have been.
fn gaps(one: &Explained) -> Vec<Span> {
    let mut spans: Vec<Span> = one.shares.iter().flat_map(|share| share.spans.iter().copied()).collect();
    spans.sort_by_key(|span| span.from_ns);
    let mut gaps = Vec::new();
    let mut end = 0;
    for span in spans.into_iter().chain([Span { from_ns: one.latency_ns, to_ns: one.latency_ns }]) {
        if span.from_ns > end {
            gaps.push(Span { from_ns: end, to_ns: span.from_ns });
        }
        end = end.max(span.to_ns);
    }
    gaps
}

/// The axis, with a mark at every measurement.
fn axis(one: &Explained, indent: usize, columns: usize, style: &Style, out: &mut String) {
    let at = |ns: u64| {
        (u128::from(ns.min(one.latency_ns)) * (columns - 1) as u128 / u128::from(one.latency_ns.max(1))) as usize
    };
    let mut marks = vec![(0, "due".to_owned())];
    for context in Context::ALL {
        if let Some(measured) = one.activation.measured(context) {
            marks.push((
                at(measured.latency_ns),
                format!("{} {}", context.name(), words::time(measured.latency_ns, style)),
            ));
        }
    }
    let (line, mark) = style.pick(('─', '┴'), ('-', '+'));
    let mut axis: Vec<char> = vec![line; columns];
    marks.iter().for_each(|(at, _)| axis[*at] = mark);
    let indent = " ".repeat(indent);
    Line::of(Ink::Dim, format!("{indent}{}", axis.into_iter().collect::<String>())).end(style, out);
    for row in labels(marks, columns) {
        Line::of(Ink::Dim, format!("{indent}{row}")).end(style, out);
    }
}

/// The names of the marks, in as many rows as keep them apart.
fn labels(marks: Vec<(usize, String)>, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (at, text) in marks {
        let wide = width(&text);
        let from = at.min(columns.saturating_sub(wide));
        let fits = |row: &&mut String| row.is_empty() || width(row) < from;
        match rows.iter_mut().find(fits) {
            Some(row) => row.push_str(&format!("{}{text}", " ".repeat(from - width(row)))),
            None => rows.push(format!("{}{text}", " ".repeat(from))),
        }
    }
    rows
}
