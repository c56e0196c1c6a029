//! `timerlat why` for people: the worst activations on their time lines, and where the time of all went.

use super::{
    super::{explain::Explained, summary::Summary},
    coverage, timeline, words,
};
use crate::sink::{
    chart::bar,
    style::{Ink, Style},
    text::{Line, clean, fit, flow, left, paragraph, right, width},
    units,
};

/// Causes of the sum that get a line; the others are one line together.
const CAUSES: usize = 20;

/// Columns of a name, where there is room.
const NAME: usize = 34;

/// A bar shorter than this says nothing.
const SHORT_BAR: usize = 10;

/// The worst activations, the sum, the coverage.
pub fn text(summary: &Summary, style: &Style) -> String {
    let mut out = String::new();
    for one in &summary.worst {
        activation(one, style, &mut out);
        out.push('\n');
    }
    if summary.explained > 0 {
        sum(summary, style, &mut out);
        out.push('\n');
    } else if let Some(threshold_ns) =
        summary.rules.threshold_ns.filter(|_| summary.all.of(super::super::record::Context::Irq).count() > 0)
    {
        let text = format!("no activation reached {}", units::exact(threshold_ns, style.unicode));
        paragraph(Line::new(), Ink::Title, &text, style, &mut out);
    }
    if summary.coverage.noise == 0 {
        let text = "without noise records only the delay of the interrupt is known; \
                    `echo 1 > events/osnoise/enable` in tracefs has them traced";
        paragraph(Line::of(Ink::Warning, "note: "), Ink::Plain, text, style, &mut out);
    }
    coverage(&summary.coverage, style, &mut out);
    out
}

/// One activation: title, time line, who ran, stack.
pub fn activation(one: &Explained, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let pieces = vec![
        Line::of(Ink::Title, format!("{} {}", words::latency(one.context), words::ns(one.latency_ns))),
        Line::of(Ink::Plain, format!("CPU {}", one.activation.cpu)),
        Line::of(Ink::Plain, format!("activation #{}", one.activation.seq)),
        Line::of(Ink::Dim, format!("due at {}", words::instant(one.due_at_ns))),
    ];
    flow(Line::new(), pieces, dot, style, out);
    timeline::draw(one, style, out);
    if one.activation.lossy {
        let text = "records of this CPU were lost meanwhile: a cause may be missing";
        paragraph(Line::of(Ink::Warning, "  warning: "), Ink::Plain, text, style, out);
    }
    if let Some(why) = &one.activation.stopped {
        paragraph(Line::of(Ink::Dim, "  stopped: "), Ink::Plain, &clean(why, style), style, out);
    }
    stack(one, style, out);
}

/// The stack below the timer's interrupt, with the function that was interrupted on top.
fn stack(one: &Explained, style: &Style, out: &mut String) {
    let frames = &one.activation.stack;
    if frames.is_empty() {
        return;
    }
    let interrupted = interrupted(frames.iter().map(|frame| frame.to_string()));
    Line::of(Ink::Dim, "  the timer's interrupt found:").end(style, out);
    for (index, frame) in frames.iter().enumerate().skip(interrupted) {
        let ink = if index == interrupted { Ink::Strong } else { Ink::Plain };
        Line::of(Ink::Dim, "    ")
            .and(ink, fit(&clean(&frame.to_string(), style), style.columns() - 4, style))
            .end(style, out);
    }
    if interrupted > 0 {
        let hidden = units::counted(interrupted as u64, "function");
        Line::of(Ink::Dim, format!("    ({hidden} of the interrupt above)")).end(style, out);
    }
}

/// Where in a stack the interrupt's own functions end: behind the last entry point of the kernel for interrupts, by the
/// names these have on x86 (`asm_sysvec_…`, `asm_common_interrupt`, `apic_timer_interrupt`), arm64 (`el1h_64_irq`,
/// `el0t_64_irq`) and others (`ret_from_intr`, `handle_riscv_irq`).
fn interrupted(names: impl Iterator<Item = String>) -> usize {
    let is_entry = |name: &str| {
        let name = name.split('+').next().unwrap_or(name);
        name.starts_with("asm_sysvec_")
            || name.starts_with("asm_common_interrupt")
            || (name.starts_with("el1") || name.starts_with("el0")) && name.ends_with("_irq")
            || ["apic_timer_interrupt", "ret_from_intr", "handle_riscv_irq", "do_irq"].contains(&name)
    };
    let names: Vec<String> = names.collect();
    names.iter().rposition(|name| is_entry(name)).map(|last| last + 1).filter(|next| *next < names.len()).unwrap_or(0)
}

/// Where the time of all explained activations went.
fn sum(summary: &Summary, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let mut count = units::counted(summary.explained, "activation");
    if let Some(threshold) = summary.rules.threshold_ns {
        count.push_str(&format!(" of {} or more", units::exact(threshold, style.unicode)));
    }
    let pieces = vec![
        Line::of(Ink::Title, "where the time went"),
        Line::of(Ink::Plain, count),
        Line::of(Ink::Plain, format!("{} of latency", words::time(summary.explained_ns, style))),
    ];
    flow(Line::new(), pieces, dot, style, out);
    let shares = summary.shares_by_size();
    let names: Vec<String> = shares.iter().map(|(cause, _)| words::cause(cause, style)).collect();
    let longest = names.iter().take(CAUSES).map(|name| width(name)).max().unwrap_or(0).min(NAME);
    // A cut name says less than two figures more.
    let narrow = style.columns() < longest + 2 + 10 + 8 + 10 + 9;
    let figures = if narrow { 10 + 8 } else { 10 + 8 + 10 + 9 };
    let name = longest.min(style.columns() - figures - 2);
    let room = style.columns().saturating_sub(name + figures + 4);
    let mut title = Line::of(Ink::Dim, format!("  {}{:>10}{:>8}", " ".repeat(name), "sum", "share"));
    if !narrow {
        title.push(Ink::Dim, format!("{:>10}{:>9}", "longest", "in"));
    }
    title.end(style, out);
    let largest = shares.first().map_or(0, |(_, sum)| sum.ns);
    for ((_, sum), cause) in shares.iter().zip(&names).take(CAUSES) {
        let mut line = Line::of(Ink::Plain, format!("  {}", left(cause, name, style)))
            .and(Ink::Plain, right(&words::time(sum.ns, style), 10))
            .and(Ink::Strong, right(&words::share(sum.ns, summary.explained_ns), 8));
        if !narrow {
            line.push(Ink::Plain, right(&words::time(sum.max_ns, style), 10));
            line.push(Ink::Dim, right(&units::short(sum.activations), 9));
        }
        if room >= SHORT_BAR {
            let shift = largest.checked_ilog2().map_or(0, |bits| bits.saturating_sub(62));
            let small = |ns: u128| u64::try_from(ns >> shift).unwrap_or(u64::MAX);
            line.push(Ink::Bar, format!("  {}", bar(small(sum.ns), small(largest), room, style)));
        }
        line.end(style, out);
    }
    if shares.len() > CAUSES {
        let rest: u128 = shares[CAUSES..].iter().map(|(_, sum)| sum.ns).sum();
        let label = left(&format!("{} more causes", shares.len() - CAUSES), name, style);
        Line::of(
            Ink::Dim,
            format!(
                "  {label}{}{}",
                right(&words::time(rest, style), 10),
                right(&words::share(rest, summary.explained_ns), 8)
            ),
        )
        .end(style, out);
    }
}
