//! A line for each group with its time, its share and its largest components, followed by its longest wait.

use super::labels;
use crate::{
    files::own_tid,
    render::{
        Style,
        labels::{in_file, key},
        style::TextStyle,
        text_line::{TextLine, clean, left, paragraph, right, width},
        units,
    },
    report::Report,
    timeline::breakdown::Share,
    why::{Summary, groups::GroupBreakdown, sums::BreakdownSum},
};

/// Maximum number of groups with a line.
const MAX_GROUPS: usize = 20;

/// Maximum number of components in the line of a group.
const MAX_COMPONENTS: usize = 4;

/// Maximum number of culprits shown for the longest wait of a group; the largest are shown.
const MAX_SHARES: usize = 3;

/// Minimum width for the components beside the figures, in columns. If there is less, they are shown on a
/// line below.
const MIN_COMPONENTS_WIDTH: usize = 30;

/// Maximum width of the key of a group, in columns.
const KEY_WIDTH: usize = 28;

/// Appends the table to `out`.
pub fn draw(summary: &Summary, report: &Report, style: &Style, out: &mut String) {
    if summary.groups.is_empty() {
        return;
    }
    let whole_ns = summary.all().ns;
    let shown = &summary.groups[..summary.groups.len().min(MAX_GROUPS)];
    let several = shown.iter().any(|group| group.class != shown[0].class);
    let name_of = |group: &GroupBreakdown| {
        let name = key(&group.key, style).unwrap_or_default();
        if several { format!("{name}, {}", group.class.name()) } else { name }
    };
    let names: Vec<String> = shown.iter().map(name_of).collect();
    let name = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let figures = 10 + 8 + 9;
    let name = name.clamp(8, KEY_WIDTH).min(style.columns().saturating_sub(2 + figures).max(11));
    let beside = style.columns().saturating_sub(2 + name + figures + 2) >= MIN_COMPONENTS_WIDTH;
    let keys: Vec<&str> = shown[0].key.iter().map(|part| part.name).collect();
    TextLine::of(TextStyle::Title, left(&format!("by {}", keys.join(", ")), name + 2, style))
        .and(
            TextStyle::Dim,
            format!("{:>10}{:>8}{:>9}{}", "time", "share", "waits", if beside { "  components" } else { "" }),
        )
        .finish(style, out);
    for (group, text) in shown.iter().zip(&names) {
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", left(text, name, style)))
            .and(TextStyle::Plain, right(&units::duration(group.sums.ns, style.unicode), 10))
            .and(TextStyle::Strong, right(&units::share_of(group.sums.ns, whole_ns), 8))
            .and(TextStyle::Dim, right(&units::short(group.sums.waits), 9));
        if beside {
            line.push(TextStyle::Plain, format!("  {}", components(&group.sums)));
        }
        line.finish(style, out);
        if !beside {
            TextLine::of(TextStyle::Dim, format!("    {}", components(&group.sums))).finish(style, out);
        }
        longest(group, summary, report, style, out);
    }
    if summary.groups.len() > shown.len() {
        let more = units::counted((summary.groups.len() - shown.len()) as u64, "more group");
        TextLine::of(TextStyle::Dim, format!("  {more}")).finish(style, out);
    }
    out.push('\n');
}

/// Formats the largest components: `throttled (quota) 62.0 %, same class 30.0 %`.
fn components(sums: &BreakdownSum) -> String {
    let largest = sums.components().into_iter().take(MAX_COMPONENTS);
    let texts: Vec<String> = largest
        .map(|(component, sum)| format!("{} {}", labels::component(component), units::share_of(sum.ns, sums.ns)))
        .collect();
    texts.join(", ")
}

/// Appends the longest wait of a group, with the time at which it ended and its largest shares: `longest
/// 2.7 ms, ended at 123456.004000, nginx/1234: stress-ng-cpu/4711 99.7 %, IRQ local_timer 0.3 %`.
fn longest(group: &GroupBreakdown, summary: &Summary, report: &Report, style: &Style, out: &mut String) {
    let Some(one) = group.worst.first() else { return };
    let (breakdown, wait) = (&one.breakdown, &one.breakdown.ended_wait.wait);
    let mut shares: Vec<_> = breakdown.shares.iter().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    let share_text = |share: &&Share| {
        let name = labels::culprit(&share.culprit, &summary.cgroups, style);
        let mark = labels::own_mark(&share.culprit.actor, &summary.own_pids);
        format!("{name}{mark} {}", units::share(share.ns, breakdown.latency_ns))
    };
    let mut texts: Vec<String> = shares.iter().take(MAX_SHARES).map(share_text).collect();
    if shares.len() > MAX_SHARES {
        texts.push(format!("{} more", units::thousands((shares.len() - MAX_SHARES) as u64)));
    }
    let text = format!(
        "{}, ended at {}, {}/{}{}: {}",
        units::duration(breakdown.latency_ns, style.unicode),
        style.instant(wait.at_ns, report.unix_offset_ns),
        clean(&wait.comm.to_string(), style),
        own_tid(wait.tid),
        in_file(wait.tid, style),
        texts.join(", ")
    );
    paragraph(TextLine::of(TextStyle::Dim, "    longest "), TextStyle::Dim, &text, style, out);
}
