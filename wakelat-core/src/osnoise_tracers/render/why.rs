//! Renders `timerlat why` for people: findings, the longest activations on their timelines, and the sum of
//! all causes.

use super::{
    super::{explain::ExplainedActivation, finding::findings, summary::TimerlatSummary},
    coverage, finding, labels, timeline,
};
use crate::render::{
    share_table,
    style::{Style, TextStyle},
    text_line::{TextLine, clean, fit, flow, paragraph},
    units,
};

/// Maximum number of causes with a line of their own; the others share one.
const MAX_CAUSES: usize = 20;

/// Renders the findings, the longest activations, the sum of all causes, and the coverage.
pub fn text(summary: &TimerlatSummary, style: &Style) -> String {
    let mut out = String::new();
    let found = findings(summary);
    for one in &found {
        paragraph(
            TextLine::of(TextStyle::Title, style.pick("▸ ", "> ")),
            TextStyle::Strong,
            &finding::evidence(one, style),
            style,
            &mut out,
        );
        paragraph(TextLine::of(TextStyle::Dim, "  remedy: "), TextStyle::Plain, &finding::remedy(one), style, &mut out);
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
        summary.options.threshold_ns.filter(|_| summary.all.of(super::super::record::TimerlatContext::Irq).count() > 0)
    {
        let text = format!("no activation reached the threshold of {}", units::exact(threshold_ns, style.unicode));
        paragraph(TextLine::new(), TextStyle::Title, &text, style, &mut out);
    }
    if summary.coverage.noise == 0 {
        let text = if summary.options.is_live {
            "no noise was recorded, so only the IRQ delay is known; measure longer (`-d`), or with a higher stop limit \
             (`-i`, `-T`)"
        } else {
            "without noise records only the IRQ delay is known; run `echo 1 > events/osnoise/enable` in tracefs to \
             trace them"
        };
        paragraph(TextLine::of(TextStyle::Warning, "note: "), TextStyle::Plain, text, style, &mut out);
    }
    coverage(&summary.coverage, style, &mut out);
    out
}

/// Appends one activation: title, timeline, warnings, stack.
pub fn activation(one: &ExplainedActivation, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let pieces = vec![
        TextLine::of(TextStyle::Title, format!("{} {}", labels::latency(one.context), units::full(one.latency_ns))),
        TextLine::of(TextStyle::Plain, format!("CPU {}", one.activation.cpu)),
        TextLine::of(TextStyle::Plain, format!("activation #{}", one.activation.seq)),
        TextLine::of(TextStyle::Dim, format!("due at {}", labels::instant(one.due_at_ns))),
    ];
    flow(TextLine::new(), pieces, dot, style, out);
    timeline::draw(one, style, out);
    if one.activation.lossy {
        let text = "records of this CPU were lost during this activation: a cause may be missing";
        paragraph(TextLine::of(TextStyle::Warning, "  warning: "), TextStyle::Plain, text, style, out);
    }
    if one.activation.noise_left_out > 0 {
        let records = units::counted(one.activation.noise_left_out, "noise record");
        let text = format!("{records} of this activation left out: their time is unexplained");
        paragraph(TextLine::of(TextStyle::Warning, "  warning: "), TextStyle::Plain, &text, style, out);
    }
    if let Some(why) = &one.activation.stopped {
        paragraph(TextLine::of(TextStyle::Dim, "  stopped: "), TextStyle::Plain, &clean(why, style), style, out);
    }
    stack(one, style, out);
}

/// Appends the stack below the timer's interrupt, with the interrupted function on top.
fn stack(one: &ExplainedActivation, style: &Style, out: &mut String) {
    let frames = &one.activation.stack;
    if frames.is_empty() {
        return;
    }
    let interrupted = interrupted(frames.iter().map(|frame| frame.to_string()));
    TextLine::of(TextStyle::Dim, "  stack that the timer IRQ interrupted:").finish(style, out);
    for (index, frame) in frames.iter().enumerate().skip(interrupted) {
        let ink = if index == interrupted { TextStyle::Strong } else { TextStyle::Plain };
        TextLine::of(TextStyle::Dim, "    ")
            .and(ink, fit(&clean(&frame.to_string(), style), style.columns() - 4, style))
            .finish(style, out);
    }
    if interrupted > 0 {
        let hidden = units::counted(interrupted as u64, "function");
        TextLine::of(TextStyle::Dim, format!("    ({hidden} of the IRQ itself not shown)")).finish(style, out);
    }
}

/// The index after the interrupt's own functions, which end with the last of the kernel's entry points for
/// interrupts. These are named as on x86 (`asm_sysvec_…`, `asm_common_interrupt`, `apic_timer_interrupt`),
/// arm64 (`el1h_64_irq`, `el0t_64_irq`) and others (`ret_from_intr`, `handle_riscv_irq`).
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

/// Appends where the time of all explained activations went.
fn sum(summary: &TimerlatSummary, style: &Style, out: &mut String) {
    let dot = style.pick(" · ", " | ");
    let mut count = units::counted(summary.explained, "activation");
    if let Some(threshold) = summary.options.threshold_ns {
        count.push_str(&format!(" of {} or more", units::exact(threshold, style.unicode)));
    }
    let pieces = vec![
        TextLine::of(TextStyle::Title, "causes of latency"),
        TextLine::of(TextStyle::Plain, count),
        TextLine::of(TextStyle::Plain, format!("{} in total", labels::time(summary.explained_ns, style))),
    ];
    flow(TextLine::new(), pieces, dot, style, out);
    let shares = summary.shares_by_size();
    let mut rows: Vec<share_table::ShareRow> = shares
        .iter()
        .take(MAX_CAUSES)
        .map(|(cause, sum)| share_table::ShareRow {
            name: labels::cause(cause, style),
            sum_ns: sum.ns,
            longest_ns: Some(sum.max_ns),
            count: sum.activations,
            is_nested: false,
        })
        .collect();
    if shares.len() > MAX_CAUSES {
        rows.push(share_table::ShareRow {
            name: format!("{} more causes", shares.len() - MAX_CAUSES),
            sum_ns: shares[MAX_CAUSES..].iter().map(|(_, sum)| sum.ns).sum(),
            longest_ns: None,
            count: 0,
            is_nested: false,
        });
    }
    share_table::draw(&rows, summary.explained_ns, "count", style, out);
}
