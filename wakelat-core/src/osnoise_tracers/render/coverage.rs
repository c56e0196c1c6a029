//! The coverage under every view for people: what was recorded, what was lost, and what puts the figures in
//! doubt.

use super::super::{
    assemble::{ActivationCounts, MAX_NOISE},
    summary::{TimerlatCoverage, UnreadLines},
};
use crate::render::{
    style::{Style, TextStyle},
    text_line::{TextLine, clean, flow, paragraph},
    units::{counted, duration, thousands},
};

/// Appends the coverage of a run to `out`.
pub fn render(coverage: &TimerlatCoverage, style: &Style, out: &mut String) {
    let seen = coverage.activations;
    let span = duration(coverage.duration_ns, style.unicode);
    let mut pieces = Vec::new();
    if seen != ActivationCounts::default() {
        pieces.push(format!("{} complete", counted(seen.complete, "activation")));
    }
    for (count, record) in [(seen.without_irq, "IRQ"), (seen.without_thread, "thread")] {
        if count > 0 {
            let their = if count == 1 { "its" } else { "their" };
            pieces.push(format!("{} without {their} {record} record", thousands(count)));
        }
    }
    if seen.missing > 0 {
        pieces.push(format!("{} not seen", thousands(seen.missing)));
    }
    if let Some(skipped @ 1..) = coverage.skipped {
        pieces.push(format!("{} without an activation", counted(skipped, "period")));
    }
    if coverage.noise > 0 {
        pieces.push(counted(coverage.noise, "noise record"));
    }
    pieces.push(format!("in {span}"));
    let pieces = pieces.into_iter().map(|piece| TextLine::of(TextStyle::Plain, piece)).collect();
    flow(TextLine::of(TextStyle::Dim, "coverage: "), pieces, ", ", style, out);
    if seen.restarts > 0 {
        let text = format!(
            "the clock or the activation numbers restarted {}: the input contains several traces",
            counted(seen.restarts, "time")
        );
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
    losses(coverage, style, out);
    if coverage.noise_left_out > 0 {
        let text = format!(
            "{} left out, because wakelat keeps only the first {} of an activation and the last ones: their time is \
             unexplained",
            counted(coverage.noise_left_out, "noise record"),
            thousands(MAX_NOISE as u64),
        );
        paragraph(TextLine::of(TextStyle::Warning, "warning: "), TextStyle::Plain, &text, style, out);
    }
    unread(&coverage.broken, "truncated or malformed", style, out);
    unread(&coverage.foreign, "not part of a trace", style, out);
}

fn losses(coverage: &TimerlatCoverage, style: &Style, out: &mut String) {
    let mut warn =
        |text: String| paragraph(TextLine::of(TextStyle::Warning, "warning: "), TextStyle::Plain, &text, style, out);
    for (cpu, events) in &coverage.lost {
        warn(format!(
            "{} lost on CPU {cpu}: the buffer was full; measure fewer CPUs, or record the trace with a larger `buffer_size_kb`",
            counted(*events, "event")
        ));
    }
    for (cpu, times) in &coverage.lost_unknown {
        warn(format!(
            "an unknown number of events lost on CPU {cpu}, {}: the buffer was full; measure fewer CPUs, or record the trace with a larger `buffer_size_kb`",
            counted(*times, "time")
        ));
    }
    if coverage.overwritten > 0 {
        let events = counted(coverage.overwritten, "event");
        warn(format!("{events} overwritten before the trace was read; record it with a larger `buffer_size_kb`"));
    }
    if let Some(missed @ 1..) = coverage.missed {
        let events = counted(missed, "event");
        warn(format!(
            "{events} missed, on unknown CPUs: the kernel skipped a BPF program that was already running; use \
             `--source buffer`, which misses none"
        ));
    }
}

fn unread(unread: &UnreadLines, what: &str, style: &Style, out: &mut String) {
    let Some(first) = &unread.first else { return };
    let lines =
        if unread.lines == 1 { "1 line is".to_owned() } else { format!("{} lines are", thousands(unread.lines)) };
    let text = format!("{lines} {what}; the first: {}", clean(first, style));
    paragraph(TextLine::of(TextStyle::Warning, "warning: "), TextStyle::Plain, &text, style, out);
}
