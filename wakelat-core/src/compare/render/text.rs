//! A comparison as text: the verdict and its reason first.

use super::{
    super::comparison::{ArmComparison, GroupComparison},
    interval::{self, RatioAxis},
    labels, overlay,
};
use crate::render::{
    Style,
    style::TextStyle,
    text_line::{self, TextLine, clean, left, right},
    units,
};

/// The number of causes that are shown of a group, and the smallest share of the largest change.
const CAUSES: usize = 5;
const SMALLEST_CAUSE: f64 = 0.02;

/// The columns of a row before its drawing.
const BEFORE_DRAWING: usize = 57;

/// The comparison as text.
pub fn text(comparison: &ArmComparison, style: &Style) -> String {
    let mut out = String::new();
    let verdict = labels::verdict(comparison);
    text_line::paragraph(TextLine::new(), TextStyle::Strong, &verdict, style, &mut out);
    for reason in labels::reasons(comparison, style.unicode) {
        let mark = TextLine::of(TextStyle::Plain, style.pick("▸ ", "> "));
        text_line::paragraph(mark, TextStyle::Plain, &clean(&reason, style), style, &mut out);
    }
    if let Some(needed) = labels::runs_needed(comparison) {
        text_line::paragraph(TextLine::new(), TextStyle::Plain, &needed, style, &mut out);
    }
    let arm = |arm: usize| {
        let seconds = comparison.duration_ns[arm] / 1e9;
        format!("{} ({seconds:.1} s)", units::counted(comparison.runs[arm].len() as u64, "run"))
    };
    let arms = format!("base: {}, new: {}; {}", arm(0), arm(1), labels::method(comparison));
    text_line::paragraph(TextLine::new(), TextStyle::Dim, &arms, style, &mut out);
    for note in &comparison.notes {
        let head = TextLine::of(TextStyle::Warning, "note: ");
        text_line::paragraph(head, TextStyle::Warning, &clean(note, style), style, &mut out);
    }
    for group in &comparison.groups {
        out.push('\n');
        draw_group(group, style, &mut out);
    }
    if comparison.left_out > 0 {
        out.push('\n');
        let others = format!(
            "{} not compared: beyond `--max-groups`, not in each run, or with too few waits",
            units::counted(comparison.left_out as u64, "group")
        );
        text_line::paragraph(TextLine::new(), TextStyle::Dim, &others, style, &mut out);
    }
    out
}

fn draw_group(group: &GroupComparison, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " - ");
    let [base, new] = group.waits.map(units::thousands);
    let name = clean(&group.name.to_string(), style);
    let pieces = [
        TextLine::of(TextStyle::Title, name),
        TextLine::of(TextStyle::Plain, format!("{base} and {new} waits")),
        TextLine::of(TextStyle::Strong, group.verdict.name()),
    ];
    text_line::flow(TextLine::new(), pieces.into(), dot, style, out);
    let axis = RatioAxis::of(&group.metrics, style.columns().saturating_sub(BEFORE_DRAWING));
    let percent = (1.0 - group.level) * 100.0;
    let interval = format!("{} % interval", format!("{percent:.2}").trim_end_matches('0').trim_end_matches('.'));
    row(["", "base", "new", "ratio", &interval], &axis.title(), TextStyle::Dim, style, out);
    for metric in &group.metrics {
        let [base, new] = metric.values.map(|value| labels::value(metric.metric, value, style.unicode));
        let Some(ratio) = metric.ratio else {
            row([&metric.metric.name(), "-", "-", "-", "not resolvable"], "", TextStyle::Plain, style, out);
            continue;
        };
        let interval = labels::interval(metric.interval);
        let cells = [&metric.metric.name(), &base, &new, &labels::number(ratio), &interval];
        row(cells.map(|cell| &**cell), &axis.draw(metric, style), TextStyle::Plain, style, out);
    }
    for limit in &group.limits {
        let sentence = labels::limit_sentence(group, limit, style.unicode);
        let sentence = sentence.strip_prefix(&format!("{}: ", group.name)).unwrap_or(&sentence);
        let text = format!("{sentence}, {}", limit.verdict.name());
        text_line::paragraph(TextLine::of(TextStyle::Plain, "  "), TextStyle::Plain, &text, style, out);
    }
    let arrow = style.pick("→", "->");
    let [before, after] = group.max_ns.map(|ns| units::duration(ns, style.unicode));
    let mut counts = vec![format!("longest {before} {arrow} {after} (not tested)")];
    let [before, after] = group.wait_count_rate.map(labels::count_rate);
    let counted = if group.name.class == "preempted" { "preemptions" } else { "waits" };
    counts.push(format!("{counted} {before} {arrow} {after}"));
    if let Some(rates) = group.migration_rate {
        let [before, after] = rates.map(labels::count_rate);
        counts.push(format!("migrations {before} {arrow} {after}"));
    }
    text_line::paragraph(TextLine::of(TextStyle::Plain, "  "), TextStyle::Dim, &counts.join("; "), style, out);
    draw_causes(group, style, out);
    draw_overlay(group, style, out);
}

fn row(cells: [&str; 5], drawing: &str, ink: TextStyle, style: &Style, out: &mut String) {
    let [name, base, new, ratio, interval] = cells;
    let line = format!("  {} {} {} {}", left(name, 6, style), right(base, 10), right(new, 10), right(ratio, 5));
    if style.columns() < BEFORE_DRAWING {
        // No number is cut: the interval has a line of its own.
        TextLine::of(ink, line).finish(style, out);
        return TextLine::of(ink, format!("    {interval}")).finish(style, out);
    }
    let line = TextLine::of(ink, format!("{line}  {} ", left(interval, 17, style)));
    let has_room = style.columns() >= BEFORE_DRAWING + interval::WIDTHS[1];
    line.and(TextStyle::Bar, if has_room { drawing } else { "" }).finish(style, out);
}

fn draw_causes(group: &GroupComparison, style: &Style, out: &mut String) {
    let Some(largest) = group.causes.first().map(|cause| cause.change().abs()).filter(|change| *change > 0.0) else {
        return;
    };
    let total: f64 = group.causes.iter().map(super::super::comparison::CauseChange::change).sum();
    let head = format!("causes: {} in total", labels::rate_change(total, style.unicode));
    text_line::paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &head, style, out);
    for cause in group.causes.iter().take(CAUSES).filter(|cause| cause.change().abs() >= largest * SMALLEST_CAUSE) {
        let [before, after] = cause.rates.map(|rate| labels::rate(rate, style.unicode));
        let change = right(&labels::rate_change(cause.change(), style.unicode), 14);
        let head = TextLine::of(TextStyle::Strong, format!("{change}  "));
        let pieces = [
            TextLine::of(TextStyle::Plain, clean(&cause.name, style)),
            TextLine::of(TextStyle::Dim, format!("({before} {} {after})", style.pick("→", "->"))),
        ];
        text_line::flow(head, pieces.into(), "  ", style, out);
    }
}

fn draw_overlay(group: &GroupComparison, style: &Style, out: &mut String) {
    let [both, only_base] = [style.pick("█", "#"), style.pick("░", "-")];
    let head = format!("distribution: {both} both, {only_base} more in base, + more in new (share of waits)");
    text_line::paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &head, style, out);
    for (from, bar) in overlay::rows(&group.latencies, style) {
        TextLine::of(TextStyle::Dim, format!("  {}  ", right(&from, 8))).and(TextStyle::Bar, bar).finish(style, out);
    }
}
