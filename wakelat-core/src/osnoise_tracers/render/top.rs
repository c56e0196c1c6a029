//! Renders `timerlat top` for people: a line for each CPU, in the columns of rtla.

use super::{
    super::{
        record::TimerlatContext,
        summary::{Latencies, TimerlatSummary},
    },
    LatencyDisplay, coverage, labels,
};
use crate::render::{
    style::{Style, TextStyle},
    text_line::{TextLine, paragraph, right, width},
    units,
};

/// Width of `CPU` and the count together, in columns of the terminal.
const HEAD: usize = 4 + 10;

/// Width of a figure, including the space before it, in columns of the terminal.
const FIGURE: usize = 8;

/// The figures of a context. The first is dropped if there is no room for all of them.
const FIGURES: [&str; 4] = ["cur", "min", "avg", "max"];

/// Renders the table and the coverage. Contexts that do not fit beside each other are shown below each
/// other.
pub fn text(summary: &TimerlatSummary, form: LatencyDisplay, style: &Style) -> String {
    let mut out = String::new();
    let fitting = (style.columns() - HEAD) / (FIGURES.len() * FIGURE);
    let figures = if fitting == 0 { &FIGURES[1..] } else { &FIGURES[..] };
    let over = summary.options.threshold_ns.is_some();
    let unit = if form.nano { "ns" } else { style.pick("µs", "us") };
    for contexts in summary.contexts().chunks(fitting.max(1)) {
        let mut groups = TextLine::of(TextStyle::Plain, " ".repeat(HEAD));
        let mut titles = TextLine::of(TextStyle::Title, format!("{:>3}{}", "CPU", right("count", HEAD - 3)));
        for context in contexts {
            let title = format!("{} ({})", labels::latency(*context), unit);
            let room = figures.len() * FIGURE;
            let before = (room.saturating_sub(width(&title))).div_ceil(2).max(1);
            let after = room.saturating_sub(before + width(&title));
            groups.push(TextStyle::Dim, format!("{}{title}{}", " ".repeat(before), " ".repeat(after)));
            figures.iter().for_each(|name| titles.push(TextStyle::Title, right(name, FIGURE)));
        }
        groups.finish(style, &mut out);
        titles.finish(style, &mut out);
        for (cpu, latencies) in &summary.cpus {
            row(&cpu.to_string(), latencies, contexts, figures, form, style, &mut out);
        }
        if summary.cpus.len() > 1 {
            row("all", &summary.all, contexts, figures, form, style, &mut out);
        }
        out.push('\n');
    }
    if over {
        let threshold = summary.options.threshold_ns.unwrap_or_default();
        let count = units::counted(summary.all.over, "activation");
        let text = format!("{count} of {} or more", units::exact(threshold, style.unicode));
        paragraph(TextLine::of(TextStyle::Dim, "threshold: "), TextStyle::Plain, &text, style, &mut out);
    }
    coverage(&summary.coverage, style, &mut out);
    out
}

fn row(
    name: &str,
    latencies: &Latencies,
    contexts: &[TimerlatContext],
    figures: &[&str],
    form: LatencyDisplay,
    style: &Style,
    out: &mut String,
) {
    let time = |ns: u64| if form.nano { units::thousands(ns) } else { us(ns) };
    let count = TimerlatContext::ALL.map(|context| latencies.of(context).count()).into_iter().max().unwrap_or(0);
    let mut line = TextLine::of(TextStyle::Plain, format!("{name:>3}{}", right(&units::thousands(count), HEAD - 3)));
    for context in contexts {
        let of = latencies.of(*context);
        let some = |ns| if of.count() > 0 { time(ns) } else { "-".to_owned() };
        // The most recent latency of all CPUs would be that of an arbitrary CPU, so it is not shown.
        if figures.len() == FIGURES.len() {
            let current = latencies.current_ns(*context).filter(|_| name != "all");
            line.push(TextStyle::Plain, right(&current.map_or_else(|| "-".to_owned(), time), FIGURE));
        }
        line.push(TextStyle::Plain, right(&some(of.min_ns()), FIGURE));
        line.push(TextStyle::Plain, right(&some(of.avg_ns()), FIGURE));
        line.push(TextStyle::Strong, right(&some(of.max_ns()), FIGURE));
    }
    line.finish(style, out);
}

/// Formats µs with one decimal below 10,000, and without decimals from there on.
fn us(ns: u64) -> String {
    let tenths = (u128::from(ns) + 50) / 100;
    match units::thousands(tenths / 10) {
        whole if tenths < 100_000 => format!("{whole}.{}", tenths % 10),
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_fit_their_column_and_have_commas() {
        let texts = [0, 49, 50, 5_631_700, 9_999_949, 9_999_950, 999_999_400].map(us);
        assert_eq!(texts, ["0.0", "0.0", "0.1", "5,631.7", "9,999.9", "10,000", "999,999"]);
        assert!(texts.iter().all(|text| text.len() < FIGURE), "{texts:?}");
    }
}
