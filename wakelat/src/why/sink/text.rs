//! `why` for people: where the time went, who was in the way, the worst waits, what stands out.

use super::{finding, groups, ranking, stacks, storm, wakers, words, worst};
use crate::{
    report::Report,
    sink::{
        Style, coverage, shares,
        style::TextStyle,
        text::{TextLine, clean, flow, paragraph},
        units,
        words::figure,
    },
    timeline::part::{Actor, Component, Culprit},
    why::{
        Summary,
        groups::GroupBreakdown,
        sums::{BreakdownSum, CulpritSum},
    },
};

/// Of a part, so many of those who had it are named.
const NAMED: usize = 4;

/// And only those that had this much of all: percent.
const NAMED_FROM: u128 = 1;

/// A summary and the report of the same window.
pub fn text(summary: &Summary, report: &Report, style: &Style) -> String {
    let mut out = String::new();
    for class in &summary.classes {
        table(class, summary, style, &mut out);
        out.push('\n');
    }
    groups::draw(summary, report, style, &mut out);
    ranking::interferers(summary, style, &mut out);
    ranking::preemptions(summary, style, &mut out);
    wakers::draw(summary, style, &mut out);
    for one in &summary.worst {
        worst::draw(&one.breakdown, summary, report, style, &mut out);
        if let (Some(shown), Some(sights)) = (&summary.stacks, &one.symbolized) {
            stacks::draw(&one.breakdown, sights, &shown.roles, style, &mut out);
        }
        out.push('\n');
    }
    let found = summary
        .findings
        .iter()
        .map(|found| (finding::evidence(found, &summary.cgroups, style), finding::remedy(found)));
    let storms = summary.fork_bursts.iter().map(|storm| (storm::evidence(storm, style), storm::REMEDY));
    for (evidence, remedy) in found.chain(storms) {
        paragraph(
            TextLine::of(TextStyle::Title, style.pick("▸ ", "> ")),
            TextStyle::Strong,
            &evidence,
            style,
            &mut out,
        );
        paragraph(TextLine::of(TextStyle::Dim, "  remedy: "), TextStyle::Plain, remedy, style, &mut out);
    }
    if !summary.findings.is_empty() || !summary.fork_bursts.is_empty() {
        out.push('\n');
    }
    coverage(summary, style, &mut out);
    if let Some(shown) = &summary.stacks {
        stacks::counts(shown, style, &mut out);
    }
    coverage::render(report, style, &mut out);
    out
}

/// Where the time of one class went.
fn table(group: &GroupBreakdown, summary: &Summary, style: &Style, out: &mut String) {
    let sums = &group.sums;
    let time = |ns: u128| units::duration(ns, style.unicode);
    let mut pieces = vec![
        TextLine::of(TextStyle::Title, figure(group.class, summary.from)),
        TextLine::of(TextStyle::Plain, units::counted(sums.waits, "wait")),
        TextLine::of(TextStyle::Plain, format!("{} together", time(sums.ns))),
        TextLine::of(TextStyle::Plain, format!("longest {}", time(sums.max_ns.into()))),
    ];
    if sums.migrated > 0 {
        pieces.push(TextLine::of(TextStyle::Plain, format!("{} moved meanwhile", units::thousands(sums.migrated))));
    }
    flow(TextLine::new(), pieces, style.pick(" · ", " | "), style, out);
    shares::draw(&rows(sums, &summary.cgroups, style), sums.ns, "waits", style, out);
    if let Some(rest) = words::evicted(sums.evicted(), style) {
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &rest, style, out);
    }
    for (part, sum) in [Component::Placement, Component::Ipi].into_iter().zip(&sums.before) {
        if sum.ns > 0 {
            let waits = units::counted(sum.waits, "wait");
            let text = format!("before it, {}: {} in {waits}", words::component(part), time(sum.ns));
            paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &text, style, out);
        }
    }
}

/// A row for each part, and below it those who had most of it.
fn rows(sums: &BreakdownSum, cgroups: &words::Cgroups, style: &Style) -> Vec<shares::ShareRow> {
    let culprits = sums.culprits();
    let mut rows = Vec::new();
    for (part, sum) in sums.components() {
        rows.push(shares::ShareRow {
            name: words::component(part).to_owned(),
            sum_ns: sum.ns,
            longest_ns: Some(sum.max_ns),
            count: sum.waits,
            is_nested: false,
        });
        let of_it = culprits.iter().filter(|one| one.culprit.component == part && is_named(&one.culprit));
        let large = of_it.filter(|one| one.sum.ns * 100 >= sums.ns * NAMED_FROM);
        let row = |one: &CulpritSum| shares::ShareRow {
            name: words::actor(&one.culprit.actor, cgroups, style),
            sum_ns: one.sum.ns,
            longest_ns: Some(one.sum.max_ns),
            count: one.sum.waits,
            is_nested: true,
        };
        rows.extend(large.take(NAMED).map(row));
    }
    rows
}

fn is_named(culprit: &Culprit) -> bool {
    !matches!(culprit.actor, Actor::NoActor | Actor::Idle(None))
}

/// What was known for it, and what was not.
fn coverage(summary: &Summary, style: &Style, out: &mut String) {
    let mut pieces = vec![TextLine::of(TextStyle::Plain, units::counted(summary.events.events, "event"))];
    let lost = format!("{} lost", units::thousands(summary.events.lost));
    pieces.push(TextLine::of(if summary.events.lost > 0 { TextStyle::Warning } else { TextStyle::Plain }, lost));
    let all = summary.all();
    let unexplained = all.component(Component::Unexplained);
    pieces.push(TextLine::of(TextStyle::Plain, format!("{} unexplained", units::share_of(unexplained.ns, all.ns))));
    flow(TextLine::of(TextStyle::Dim, "timeline: "), pieces, "; ", style, out);
    if summary.throttling_unknown > 0 {
        let waits = units::counted(summary.throttling_unknown, "wait");
        let text =
            format!("of {waits} this kernel does not tell how long quota throttling took: it is in the other parts");
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
    for (what, rest) in [
        ("causes, which findings are made of", summary.causes_evicted),
        ("functions of kworkers", summary.work_items_evicted),
        ("names that made tasks", summary.fork_bursts_evicted),
    ] {
        if let Some(rest) = words::evicted(rest, style) {
            paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &format!("{what}: {rest}"), style, out);
        }
    }
    let time = |ns| units::duration(ns, style.unicode);
    let mut note =
        |text: String| paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    if summary.groups_error_ns > 0 {
        let error = time(summary.groups_error_ns);
        note(format!("groups may have waited up to {error} more than shown: there were too many to keep"));
    }
    if summary.wakeup_pairs.error_ns > 0 {
        let error = time(summary.wakeup_pairs.error_ns);
        note(format!("who wakes whom: waits of a pair may be up to {error} longer: there were too many pairs to keep"));
    }
    if summary.work_items_dropped > 0 {
        let dropped = units::counted(summary.work_items_dropped, "event");
        note(format!("{dropped} of kworkers dropped: there were too many to keep; functions may be missing"));
    }
    if summary.fork_bursts_dropped > 0 {
        let dropped = units::counted(summary.fork_bursts_dropped, "task");
        note(format!("{dropped} too old for their parents to be kept: their time is in no storm"));
    }
    forks(summary, style, out);
    if !summary.not_collected.is_empty() {
        let text = format!("not told apart: {}", summary.not_collected.join(", "));
        paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    }
}

/// The tasks that were made: `forks: 901 tasks, 900 programs started; `bash` 900, `cron` 1`.
fn forks(summary: &Summary, style: &Style, out: &mut String) {
    const MAX_PARENTS: usize = 3;
    let forks = &summary.forks;
    if forks.tasks == 0 && forks.execs == 0 {
        return;
    }
    let first = [units::counted(forks.tasks, "task"), format!("{} started", units::counted(forks.execs, "program"))];
    let makers = forks.parents.iter().take(MAX_PARENTS);
    let makers =
        makers.map(|(comm, tasks, _)| format!("by `{}` {}", clean(&comm.to_string(), style), units::thousands(*tasks)));
    let pieces = first.into_iter().chain(makers).map(|text| TextLine::of(TextStyle::Plain, text)).collect();
    flow(TextLine::of(TextStyle::Dim, "forks: "), pieces, "; ", style, out);
}
