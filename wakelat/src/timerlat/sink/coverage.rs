//! What stands under every view for people: what was seen, what was not, and whether to worry.

use super::super::{
    assemble::ActivationCounts,
    summary::{TimerlatCoverage, UnreadLines},
};
use crate::sink::{
    style::{Style, TextStyle},
    text::{TextLine, clean, flow, paragraph},
    units::{counted, duration, thousands},
};

/// Adds the coverage of a run to `out`.
pub fn render(coverage: &TimerlatCoverage, style: &Style, out: &mut String) {
    let seen = coverage.activations;
    let span = duration(coverage.duration_ns, style.unicode);
    let mut pieces = Vec::new();
    if seen != ActivationCounts::default() {
        pieces.push(format!("{} complete", counted(seen.complete, "activation")));
    }
    for (count, what) in [
        (seen.without_irq, "without their interrupt"),
        (seen.without_thread, "without their thread"),
        (seen.missing, "not seen"),
    ] {
        if count > 0 {
            pieces.push(format!("{} {what}", thousands(count)));
        }
    }
    if let Some(skipped @ 1..) = coverage.skipped {
        pieces.push(format!("{} had no activation", counted(skipped, "period")));
    }
    if coverage.noise > 0 {
        pieces.push(counted(coverage.noise, "interference"));
    }
    pieces.push(format!("in {span}"));
    let pieces = pieces.into_iter().map(|piece| TextLine::of(TextStyle::Plain, piece)).collect();
    flow(TextLine::of(TextStyle::Dim, "coverage: "), pieces, ", ", style, out);
    if seen.restarts > 0 {
        let text =
            format!("the clock or the numbers began anew {}: several traces in one", counted(seen.restarts, "time"));
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
    losses(coverage, style, out);
    unread(&coverage.broken, "cut or garbled", style, out);
    unread(&coverage.foreign, "not of a trace", style, out);
}

fn losses(coverage: &TimerlatCoverage, style: &Style, out: &mut String) {
    let mut warn =
        |text: String| paragraph(TextLine::of(TextStyle::Warning, "warning: "), TextStyle::Plain, &text, style, out);
    for (cpu, events) in &coverage.lost {
        warn(format!(
            "{} lost on CPU {cpu}: the reader was too slow, or the ring buffer too small",
            counted(*events, "event")
        ));
    }
    for (cpu, times) in &coverage.lost_unknown {
        warn(format!("events lost on CPU {cpu}, {}, nobody knows how many", counted(*times, "time")));
    }
    if coverage.overwritten > 0 {
        let events = counted(coverage.overwritten, "event");
        warn(format!("{events} overwritten before the trace was read; a larger `buffer_size_kb` keeps more"));
    }
    if let Some(missed @ 1..) = coverage.missed {
        let events = counted(missed, "event");
        warn(format!(
            "{events} missed, on CPUs the kernel does not tell: it skipped a program that was active already; \
             `--source buffer` misses none"
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
