//! Renders the first look at a machine: what delays its tasks, how long they wait, which waits were longest, and which
//! command shows more. On one screen.

use wakelat_common::Class;

use super::{
    labels,
    text::{caveats, findings},
};
use crate::{
    render::{
        Style, chart, coverage,
        labels::thread,
        style::TextStyle,
        text_line::{TextLine, paragraph, right},
        units, window,
    },
    report::Report,
    timeline::Breakdown,
    why::Summary,
};

/// Maximum number of causes that are shown of one of the longest waits.
const MAX_CAUSES: usize = 2;

/// If there is less room beside the commands, what each shows is below it: columns.
const MIN_BESIDE: usize = 40;

/// Minimum share of a wait that a cause needs to be shown: percent.
const MIN_CAUSE_PERCENT: u64 = 10;

/// Renders findings, the distribution of all waits, the longest waits with their largest causes, the coverage, and the
/// commands to continue with, which begin with `program`.
pub fn overview(summary: &Summary, report: &Report, program: &str, style: &Style) -> String {
    let mut out = String::new();
    window(report, style, &mut out);
    findings(summary, style, &mut out);
    for group in &report.groups {
        chart::draw(group, report, style, &mut out);
        out.push('\n');
    }
    longest(summary, style, &mut out);
    caveats(summary, style, &mut out);
    coverage::render(report, style, &mut out);
    out.push('\n');
    next_commands(summary, program, style, &mut out);
    out
}

/// Appends a line for each of the longest waits.
fn longest(summary: &Summary, style: &Style, out: &mut String) {
    if summary.worst.is_empty() {
        return;
    }
    TextLine::of(TextStyle::Title, "longest waits").finish(style, out);
    let latencies: Vec<_> =
        summary.worst.iter().map(|one| units::duration(one.breakdown.latency_ns, style.unicode)).collect();
    let width = latencies.iter().map(|latency| latency.chars().count()).max().unwrap_or(0);
    for (one, latency) in summary.worst.iter().zip(&latencies) {
        let wait = &one.breakdown.ended_wait.wait;
        let name = thread(Some(wait.comm), wait.tid, usize::MAX, style);
        let began = match wait.class {
            Class::Wakeup => "woken",
            Class::New => "created",
            Class::Preempted => "preempted",
        };
        let text = format!("{name} ({began}, CPU {}): {}", wait.cpu, causes(&one.breakdown, summary, style));
        let head = TextLine::of(TextStyle::Strong, format!("  {}  ", right(latency, width)));
        paragraph(head, TextStyle::Plain, &text, style, out);
    }
    out.push('\n');
}

/// The largest causes of a wait, with their shares.
fn causes(breakdown: &Breakdown, summary: &Summary, style: &Style) -> String {
    let mut shares: Vec<_> = breakdown.shares.iter().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    let is_large = |ns: u64| ns.saturating_mul(100) >= breakdown.latency_ns.saturating_mul(MIN_CAUSE_PERCENT);
    let named = shares.iter().enumerate().take_while(|(rank, share)| *rank == 0 || is_large(share.ns)).take(MAX_CAUSES);
    let causes: Vec<_> = named
        .map(|(_, share)| {
            let part = units::share_of(share.ns.into(), breakdown.latency_ns.into());
            let mark = labels::own_mark(&share.culprit.actor, &summary.own_pids);
            format!("{}{mark} {part}", labels::culprit(&share.culprit, &summary.cgroups, style))
        })
        .collect();
    let rest = shares.len() - causes.len();
    let more = if rest > 0 { format!(", {rest} more") } else { String::new() };
    causes.join(", ") + &more
}

/// Appends the commands that show more.
fn next_commands(summary: &Summary, program: &str, style: &Style, out: &mut String) {
    let longest_ns = summary.worst.last().map_or(0, |one| one.breakdown.latency_ns);
    // The longest waits are of any class, and `trace` shows only wakeups by default.
    let threshold = format!("trace --class runqueue --threshold {}", threshold(longest_ns));
    let commands = [
        (
            format!("{program} why --details"),
            "all components of the waits, and the tasks that take the CPU from others",
        ),
        (format!("{program} top"), "the tasks that wait longest"),
        (format!("{program} {threshold}"), "each of the longest waits, with its waker"),
        ("wakelat --help".to_owned(), "all commands"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    TextLine::of(TextStyle::Title, "next").finish(style, out);
    for (command, shows) in commands {
        let command = TextLine::of(TextStyle::Strong, format!("  {command:width$}  "));
        if style.columns() < command.width() + MIN_BESIDE {
            command.finish(style, out);
            paragraph(TextLine::of(TextStyle::Plain, "      "), TextStyle::Plain, shows, style, out);
        } else {
            paragraph(command, TextStyle::Plain, shows, style, out);
        }
    }
}

/// The largest power of ten that is not longer than a wait, as a flag takes it.
fn threshold(longest_ns: u64) -> String {
    let power = longest_ns.checked_ilog10().map_or(1, |digits| 10u64.pow(digits));
    match power {
        0..1_000 => format!("{power}ns"),
        1_000..1_000_000 => format!("{}us", power / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", power / 1_000_000),
        _ => format!("{}s", power / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_selects_the_longest_waits() {
        for (longest_ns, expected) in [
            (0, "1ns"),
            (999, "100ns"),
            (1_000, "1us"),
            (44_200_187, "10ms"),
            (2_500_000_000, "1s"),
            (u64::MAX, "10000000000s"),
        ] {
            assert_eq!(threshold(longest_ns), expected);
        }
    }
}
