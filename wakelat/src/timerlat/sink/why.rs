//! `timerlat why` for people: the worst activations on their time lines, and where the time of all went.

use super::{
    super::{explain::Explained, finding::findings, summary::Summary},
    coverage, finding, timeline, words,
};
use crate::sink::{
    shares,
    style::{Ink, Style},
    text::{Line, clean, fit, flow, paragraph},
    units,
};

/// Causes of the sum that get a line; the others are one line together.
const CAUSES: usize = 20;

/// The worst activations, the sum, the coverage.
pub fn text(summary: &Summary, style: &Style) -> String {
    let mut out = String::new();
    let found = findings(summary);
    for one in &found {
        paragraph(
            Line::of(Ink::Title, style.pick("▸ ", "> ")),
            Ink::Strong,
            &finding::evidence(one, style),
            style,
            &mut out,
        );
        paragraph(Line::of(Ink::Dim, "  remedy: "), Ink::Plain, &finding::remedy(one), style, &mut out);
    }
    if !found.is_empty() {
        out.push('\n');
    }
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
        Line::of(Ink::Title, format!("{} {}", words::latency(one.context), units::full(one.latency_ns))),
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
    let mut rows: Vec<shares::Row> = shares
        .iter()
        .take(CAUSES)
        .map(|(cause, sum)| shares::Row {
            name: words::cause(cause, style),
            sum_ns: sum.ns,
            longest_ns: Some(sum.max_ns),
            count: sum.activations,
            is_part: false,
        })
        .collect();
    if shares.len() > CAUSES {
        rows.push(shares::Row {
            name: format!("{} more causes", shares.len() - CAUSES),
            sum_ns: shares[CAUSES..].iter().map(|(_, sum)| sum.ns).sum(),
            longest_ns: None,
            count: 0,
            is_part: false,
        });
    }
    shares::draw(&rows, summary.explained_ns, "in", style, out);
}
