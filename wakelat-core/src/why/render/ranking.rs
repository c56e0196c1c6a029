//! The rankings of interferers and of preemption pairs.

use super::labels;
use crate::{
    render::{
        Style,
        style::TextStyle,
        text_line::{TextLine, clean, fit, flow, left, paragraph, right, width},
        units,
    },
    timeline::component::Actor,
    wait::Comm,
    why::{Summary, interferers::Interferer},
};

/// Maximum number of lines in each ranking.
const LINES: usize = 10;

/// Maximum width of a name, in columns.
const NAME: usize = 28;

/// Maximum width of a name with the work items of a worker, in columns.
const WORKER: usize = 48;

/// Width of the name of a task, in columns: the kernel keeps at most 15 bytes.
const COMM: usize = 15;

/// Minimum width of a path, in columns; less would not be useful.
const SHORT_PATH: usize = 16;

/// Appends the ranking of interferers to `out`.
pub fn interferers(summary: &Summary, style: &Style, out: &mut String) {
    if summary.interferers.is_empty() {
        return;
    }
    let whole_ns = summary.all().ns;
    let shown = &summary.interferers[..summary.interferers.len().min(LINES)];
    let names: Vec<String> = shown.iter().map(|one| name(one, summary, style)).collect();
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let wanted = longest.clamp("interferers".len(), if summary.work_items.is_empty() { NAME } else { WORKER });
    // One more figure is not worth a truncated name.
    let with_victims = style.columns() >= 2 + wanted + 10 + 8 + 9;
    let figures = if with_victims { 10 + 8 + 9 } else { 10 + 8 };
    let name = wanted.min(style.columns().saturating_sub(figures + 2).max(11));
    let remaining = style.columns().saturating_sub(2 + name + figures);
    let with_waits = with_victims && remaining >= 9;
    let path = remaining.saturating_sub(if with_waits { 11 } else { 2 });
    let mut title = TextLine::of(TextStyle::Title, left("interferers", name + 2, style))
        .and(TextStyle::Dim, format!("{:>10}{:>8}", "time", "share"));
    if with_victims {
        title.push(TextStyle::Dim, format!("{:>9}", "victims"));
    }
    if with_waits {
        title.push(TextStyle::Dim, format!("{:>9}", "waits"));
    }
    if path >= SHORT_PATH && shown.iter().any(|one| cgroup(one, &summary.cgroups).is_some()) {
        title.push(TextStyle::Dim, "  cgroup");
    }
    title.finish(style, out);
    for (one, text) in shown.iter().zip(&names) {
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", left(text, name, style)))
            .and(TextStyle::Plain, right(&units::duration(one.sum.ns, style.unicode), 10))
            .and(TextStyle::Strong, right(&units::share_of(one.sum.ns, whole_ns), 8));
        if with_victims {
            line.push(TextStyle::Plain, right(&victims(one), 9));
        }
        if with_waits {
            line.push(TextStyle::Dim, right(&units::short(one.sum.waits), 9));
        }
        if let Some(id) = cgroup(one, &summary.cgroups).filter(|_| path >= SHORT_PATH) {
            let text = labels::place(id, &summary.cgroups, style);
            line.push(TextStyle::Dim, format!("  {}", fit(&text, path, style)));
        }
        line.finish(style, out);
    }
    if summary.interferers_total > shown.len() {
        let more = summary.interferers_total - shown.len();
        TextLine::of(TextStyle::Dim, format!("  {} more", units::thousands(more as u64))).finish(style, out);
    }
    if let Some(rest) = labels::evicted(summary.interferers_evicted, style) {
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &rest, style, out);
    }
    out.push('\n');
}

/// Formats the number of tasks that waited for an interferer, with `+` if there may be more.
fn victims(one: &Interferer) -> String {
    let victims = units::short(one.victims() as u64);
    if one.has_more_victims() { format!("{victims}+") } else { victims }
}

/// The name of an interferer, with the work items of a worker.
fn name(one: &Interferer, summary: &Summary, style: &Style) -> String {
    let name = labels::actor(&one.actor, &summary.cgroups, style);
    let Actor::Task(task) = one.actor else { return name };
    let mark = labels::own_mark(&one.actor, &summary.own_pids);
    if !mark.is_empty() {
        return format!("{name}{mark}");
    }
    let items = summary.work_items.get(&(task.tid, task.comm)).into_iter().flatten();
    let functions: Vec<&str> = items.map(|item| item.function.as_str()).collect();
    labels::with_work_items(name, &functions, style)
}

/// The cgroup of a task, unless it is the root.
fn cgroup(one: &Interferer, cgroups: &labels::Cgroups) -> Option<u64> {
    match one.actor {
        Actor::Task(task) => task.cgroup_id.filter(|id| cgroups.get(id).is_some_and(|path| path != "/")),
        _ => None,
    }
}

/// Appends the pairs of preempted and preempting tasks to `out`.
pub fn preemptions(summary: &Summary, style: &Style, out: &mut String) {
    if summary.preemption_pairs.is_empty() {
        return;
    }
    let pieces = vec![
        TextLine::of(TextStyle::Title, "preemption pairs"),
        TextLine::of(TextStyle::Plain, units::counted(summary.preemptions, "preemption")),
    ];
    flow(TextLine::new(), pieces, style.pick(" · ", " | "), style, out);
    // The share of a pair is not worth truncated names.
    let with_share = style.columns() >= 2 + 5 + 2 * COMM + 10 + 8;
    let count = if with_share { 10 } else { 7 };
    let has_own = summary.preemption_pairs.iter().take(LINES).any(|pair| pair.is_own.contains(&true));
    let widest = if has_own { COMM + labels::OWN.len() } else { COMM };
    let columns = (style.columns().saturating_sub(2 + 5 + count + if with_share { 8 } else { 0 }) / 2).min(widest);
    for pair in summary.preemption_pairs.iter().take(LINES) {
        let name = |comm: &Comm, is_own: bool| {
            let mark = if is_own { labels::OWN } else { "" };
            fit(&format!("{}{mark}", clean(&comm.to_string(), style)), columns, style)
        };
        let [from_is_own, to_is_own] = pair.is_own;
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", right(&name(&pair.from, from_is_own), columns)))
            .and(TextStyle::Dim, " ==> ")
            .and(TextStyle::Plain, left(&name(&pair.to, to_is_own), columns, style));
        if with_share {
            line.push(TextStyle::Strong, right(&units::thousands(pair.count), count));
            line.push(TextStyle::Dim, right(&units::share(pair.count, summary.preemptions), 8));
        } else {
            line.push(TextStyle::Strong, right(&units::short(pair.count), count));
        }
        line.finish(style, out);
    }
    if summary.preemption_pairs.len() > LINES {
        let shown: u64 = summary.preemption_pairs.iter().take(LINES).map(|pair| pair.count).sum();
        let more = units::thousands(summary.preemptions - shown);
        TextLine::of(TextStyle::Dim, format!("  {more} more in other pairs")).finish(style, out);
    }
    if summary.preemption_pairs_evicted.count > 0 {
        let error = units::thousands(u64::try_from(summary.preemption_pairs_evicted.error).unwrap_or(u64::MAX));
        let text = format!("counts may be up to {error} too low: too many pairs to keep them all");
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &text, style, out);
    }
    out.push('\n');
}
