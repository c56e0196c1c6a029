//! Renders `why` for people: the findings, the breakdown of each class, the longest waits, and the
//! coverage.

use super::{finding, fork_burst, groups, labels, ranking, stacks, wait_timeline, wakeup_pairs};
use crate::{
    render::{
        Style, coverage,
        labels::figure,
        share_table,
        style::TextStyle,
        text_line::{TextLine, clean, flow, paragraph},
        units,
    },
    report::Report,
    timeline::component::{Actor, Component, Culprit},
    why::{
        Summary,
        groups::GroupBreakdown,
        sums::{BreakdownSum, CulpritSum},
    },
};

/// Maximum number of culprits shown for a component; the largest are shown.
const FEW_CULPRITS: usize = 2;

/// Maximum number of culprits shown for a component with `--details`.
const MAX_CULPRITS: usize = 4;

/// Minimum share of the waiting time of its class that a culprit needs to be shown: percent.
const MIN_CULPRIT_PERCENT: u128 = 1;

/// Renders a summary and the report of the same window: findings, breakdown, longest waits, coverage. With
/// `details`, the breakdown shows more culprits, and the interferers, preemption pairs and wakeup pairs are
/// included.
pub fn text(summary: &Summary, report: &Report, details: bool, style: &Style) -> String {
    let mut out = String::new();
    findings(summary, style, &mut out);
    for class in &summary.classes {
        table(class, summary, if details { MAX_CULPRITS } else { FEW_CULPRITS }, style, &mut out);
        out.push('\n');
    }
    groups::draw(summary, report, style, &mut out);
    for one in &summary.worst {
        wait_timeline::draw(&one.breakdown, summary, report, style, &mut out);
        if let (Some(shown), Some(symbolized)) = (&summary.stacks, &one.symbolized) {
            stacks::draw(&one.breakdown, symbolized, &shown.roles, style, &mut out);
        }
        out.push('\n');
    }
    if details {
        ranking::interferers(summary, style, &mut out);
        ranking::preemptions(summary, style, &mut out);
        wakeup_pairs::draw(summary, style, &mut out);
    }
    caveats(summary, style, &mut out);
    if let Some(shown) = &summary.stacks {
        stacks::counts(shown, style, &mut out);
    }
    coverage::render(report, style, &mut out);
    if !details && !summary.interferers.is_empty() {
        let more = "`--details` adds interferers, preemptions and wakeup pairs; `--worst N` shows more timelines";
        paragraph(TextLine::of(TextStyle::Dim, "more: "), TextStyle::Dim, more, style, &mut out);
    }
    out
}

/// Appends the findings and the fork bursts, each with its evidence and a remedy.
pub(super) fn findings(summary: &Summary, style: &Style, out: &mut String) {
    let causes = summary
        .findings
        .iter()
        .map(|found| (finding::evidence(found, &summary.cgroups, style), finding::remedy(found)));
    let fork_bursts = summary.fork_bursts.iter().map(|burst| (fork_burst::evidence(burst, style), fork_burst::REMEDY));
    for (evidence, remedy) in causes.chain(fork_bursts) {
        let mark = TextLine::of(TextStyle::Title, style.pick("▸ ", "> "));
        paragraph(mark, TextStyle::Strong, &evidence, style, out);
        paragraph(TextLine::of(TextStyle::Dim, "  remedy: "), TextStyle::Plain, remedy, style, out);
    }
    if !summary.findings.is_empty() || !summary.fork_bursts.is_empty() {
        out.push('\n');
    }
}

/// Appends the table of the components of one class.
fn table(group: &GroupBreakdown, summary: &Summary, culprits: usize, style: &Style, out: &mut String) {
    let sums = &group.sums;
    let time = |ns: u128| units::duration(ns, style.unicode);
    let mut pieces = vec![
        TextLine::of(TextStyle::Title, figure(group.class, summary.from)),
        TextLine::of(TextStyle::Plain, units::counted(sums.waits, "wait")),
        TextLine::of(TextStyle::Plain, format!("{} in total", time(sums.ns))),
        TextLine::of(TextStyle::Plain, format!("longest {}", time(sums.max_ns.into()))),
    ];
    if sums.migrated > 0 {
        pieces.push(TextLine::of(TextStyle::Plain, format!("{} migrated", units::thousands(sums.migrated))));
    }
    flow(TextLine::new(), pieces, style.pick(" · ", " | "), style, out);
    share_table::draw(&rows(sums, culprits, summary, style), sums.ns, "waits", style, out);
    if let Some(rest) = labels::evicted(sums.evicted(), style) {
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &rest, style, out);
    }
    for (component, sum) in [Component::Placement, Component::Ipi].into_iter().zip(&sums.before) {
        if sum.ns > 0 {
            let waits = units::counted(sum.waits, "wait");
            let text = format!("before the wakeup, {}: {} in {waits}", labels::component(component), time(sum.ns));
            paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &text, style, out);
        }
    }
}

/// A row for each component, each followed by its largest culprits.
fn rows(sums: &BreakdownSum, max_culprits: usize, summary: &Summary, style: &Style) -> Vec<share_table::ShareRow> {
    let culprits = sums.culprits();
    let mut rows = Vec::new();
    for (component, sum) in sums.components() {
        rows.push(share_table::ShareRow {
            name: labels::component(component).to_owned(),
            sum_ns: sum.ns,
            longest_ns: Some(sum.max_ns),
            count: sum.waits,
            is_nested: false,
        });
        let of_it = culprits.iter().filter(|one| one.culprit.component == component && is_named(&one.culprit));
        let large = of_it.filter(|one| one.sum.ns * 100 >= sums.ns * MIN_CULPRIT_PERCENT);
        let row = |one: &CulpritSum| share_table::ShareRow {
            name: format!(
                "{}{}",
                labels::actor(&one.culprit.actor, &summary.cgroups, style),
                labels::own_mark(&one.culprit.actor, &summary.own_pids)
            ),
            sum_ns: one.sum.ns,
            longest_ns: Some(one.sum.max_ns),
            count: one.sum.waits,
            is_nested: true,
        };
        rows.extend(large.take(max_culprits).map(row));
    }
    rows
}

fn is_named(culprit: &Culprit) -> bool {
    !matches!(culprit.actor, Actor::NoActor | Actor::Idle(None))
}

/// Appends what the breakdowns are based on, and what is missing from them.
pub(super) fn caveats(summary: &Summary, style: &Style, out: &mut String) {
    let mut pieces = vec![TextLine::of(TextStyle::Plain, units::counted(summary.events.events, "event"))];
    let lost = format!("{} lost", units::thousands(summary.events.lost));
    pieces.push(TextLine::of(if summary.events.lost > 0 { TextStyle::Warning } else { TextStyle::Plain }, lost));
    let all = summary.all();
    let unexplained = all.component(Component::Unexplained);
    pieces.push(TextLine::of(TextStyle::Plain, format!("{} unexplained", units::share_of(unexplained.ns, all.ns))));
    flow(TextLine::of(TextStyle::Dim, "timeline: "), pieces, "; ", style, out);
    let is_collected = !summary.not_collected.iter().any(|what| what.starts_with("throttling"));
    if summary.throttling_unknown > 0 && is_collected {
        let waits = units::counted(summary.throttling_unknown, "wait");
        let text = format!(
            "for {waits} this kernel does not report how long quota throttling took; other components include it"
        );
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
    for (what, rest) in [
        ("causes of findings", summary.causes_evicted),
        ("work functions of kworkers", summary.work_items_evicted),
        ("names of tasks that forked", summary.fork_bursts_evicted),
    ] {
        if let Some(rest) = labels::evicted(rest, style) {
            paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &format!("{what}: {rest}"), style, out);
        }
    }
    let time = |ns| units::duration(ns, style.unicode);
    let mut note =
        |text: String| paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    if summary.groups_error_ns > 0 {
        let error = time(summary.groups_error_ns);
        note(format!("groups may have waited up to {error} more than shown: too many groups to keep them all"));
    }
    if summary.wakeup_pairs.error_ns > 0 {
        let error = time(summary.wakeup_pairs.error_ns);
        note(format!(
            "wakeup pairs: waits of a pair may be up to {error} longer than shown: too many pairs to keep them all"
        ));
    }
    if summary.work_items_dropped > 0 {
        let dropped = units::counted(summary.work_items_dropped, "event");
        note(format!("{dropped} of kworkers dropped: too many to keep them all; work functions may be missing"));
    }
    if summary.fork_bursts_dropped > 0 {
        let dropped = units::counted(summary.fork_bursts_dropped, "task");
        note(format!("{dropped} whose parents are no longer known: no fork burst includes their time"));
    }
    forks(summary, style, out);
    if !summary.not_collected.is_empty() {
        let text = format!("not collected: {}", summary.not_collected.join(", "));
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
}

/// Appends the forks and execs: ``forks: 901 tasks; 900 programs executed; by `bash` 900; by `cron` 1``.
fn forks(summary: &Summary, style: &Style, out: &mut String) {
    const MAX_PARENTS: usize = 3;
    let forks = &summary.forks;
    if forks.tasks == 0 && forks.execs == 0 {
        return;
    }
    let first = [units::counted(forks.tasks, "task"), format!("{} executed", units::counted(forks.execs, "program"))];
    let parents = forks.parents.iter().take(MAX_PARENTS);
    let parents = parents
        .map(|(comm, tasks, _)| format!("by `{}` {}", clean(&comm.to_string(), style), units::thousands(*tasks)));
    let pieces = first.into_iter().chain(parents).map(|text| TextLine::of(TextStyle::Plain, text)).collect();
    flow(TextLine::of(TextStyle::Dim, "forks: "), pieces, "; ", style, out);
}
