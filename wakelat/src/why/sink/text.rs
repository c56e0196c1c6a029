//! `why` for people: where the time went, who was in the way, the worst waits, what stands out.

use super::{finding, groups, ranking, stacks, storm, wakers, words, worst};
use crate::{
    report::Report,
    sink::{
        Style, coverage, shares,
        style::Ink,
        text::{Line, clean, flow, paragraph},
        units,
        words::figure,
    },
    timeline::part::{Actor, Component, Culprit},
    why::{
        Summary,
        groups::Group,
        sums::{CulpritSum, Sums},
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
    ranking::antagonists(summary, style, &mut out);
    ranking::chains(summary, style, &mut out);
    wakers::draw(summary, style, &mut out);
    for one in &summary.worst {
        worst::draw(&one.account, summary, report, style, &mut out);
        if let (Some(shown), Some(sights)) = (&summary.stacks, &one.sights) {
            stacks::draw(&one.account, sights, &shown.roles, style, &mut out);
        }
        out.push('\n');
    }
    let found = summary
        .findings
        .iter()
        .map(|found| (finding::evidence(found, &summary.cgroups, style), finding::remedy(found)));
    let storms = summary.storms.iter().map(|storm| (storm::evidence(storm, style), storm::REMEDY));
    for (evidence, remedy) in found.chain(storms) {
        paragraph(Line::of(Ink::Title, style.pick("▸ ", "> ")), Ink::Strong, &evidence, style, &mut out);
        paragraph(Line::of(Ink::Dim, "  remedy: "), Ink::Plain, remedy, style, &mut out);
    }
    if !summary.findings.is_empty() || !summary.storms.is_empty() {
        out.push('\n');
    }
    told(summary, style, &mut out);
    if let Some(shown) = &summary.stacks {
        stacks::counts(shown, style, &mut out);
    }
    coverage::render(report, style, &mut out);
    out
}

/// Where the time of one class went.
fn table(group: &Group, summary: &Summary, style: &Style, out: &mut String) {
    let sums = &group.sums;
    let time = |ns: u128| units::duration(ns, style.unicode);
    let mut pieces = vec![
        Line::of(Ink::Title, figure(group.class, summary.from)),
        Line::of(Ink::Plain, units::counted(sums.waits, "wait")),
        Line::of(Ink::Plain, format!("{} together", time(sums.ns))),
        Line::of(Ink::Plain, format!("longest {}", time(sums.max_ns.into()))),
    ];
    if sums.moved > 0 {
        pieces.push(Line::of(Ink::Plain, format!("{} moved meanwhile", units::thousands(sums.moved))));
    }
    flow(Line::new(), pieces, style.pick(" · ", " | "), style, out);
    shares::draw(&rows(sums, &summary.cgroups, style), sums.ns, "waits", style, out);
    if let Some(rest) = words::rest(sums.rest(), style) {
        paragraph(Line::of(Ink::Dim, "  "), Ink::Dim, &rest, style, out);
    }
    for (part, sum) in [Component::Placement, Component::Ipi].into_iter().zip(&sums.before) {
        if sum.ns > 0 {
            let waits = units::counted(sum.waits, "wait");
            let text = format!("before it, {}: {} in {waits}", words::part(part), time(sum.ns));
            paragraph(Line::of(Ink::Dim, "  "), Ink::Dim, &text, style, out);
        }
    }
}

/// A row for each part, and below it those who had most of it.
fn rows(sums: &Sums, cgroups: &words::Cgroups, style: &Style) -> Vec<shares::Row> {
    let culprits = sums.culprits();
    let mut rows = Vec::new();
    for (part, sum) in sums.parts() {
        rows.push(shares::Row {
            name: words::part(part).to_owned(),
            sum_ns: sum.ns,
            longest_ns: Some(sum.max_ns),
            count: sum.waits,
            is_part: false,
        });
        let of_it = culprits.iter().filter(|one| one.culprit.component == part && is_named(&one.culprit));
        let large = of_it.filter(|one| one.sum.ns * 100 >= sums.ns * NAMED_FROM);
        let row = |one: &CulpritSum| shares::Row {
            name: words::who(&one.culprit.actor, cgroups, style),
            sum_ns: one.sum.ns,
            longest_ns: Some(one.sum.max_ns),
            count: one.sum.waits,
            is_part: true,
        };
        rows.extend(large.take(NAMED).map(row));
    }
    rows
}

fn is_named(culprit: &Culprit) -> bool {
    !matches!(culprit.actor, Actor::NoActor | Actor::Idle(None))
}

/// What was known for it, and what was not.
fn told(summary: &Summary, style: &Style, out: &mut String) {
    let mut pieces = vec![Line::of(Ink::Plain, units::counted(summary.told.events, "event"))];
    let lost = format!("{} lost", units::thousands(summary.told.lost));
    pieces.push(Line::of(if summary.told.lost > 0 { Ink::Warning } else { Ink::Plain }, lost));
    let all = summary.all();
    let unexplained = all.part(Component::Unexplained);
    pieces.push(Line::of(Ink::Plain, format!("{} unexplained", units::share_of(unexplained.ns, all.ns))));
    flow(Line::of(Ink::Dim, "timeline: "), pieces, "; ", style, out);
    if summary.throttling_unknown > 0 {
        let waits = units::counted(summary.throttling_unknown, "wait");
        let text =
            format!("of {waits} this kernel does not tell how long quota throttling took: it is in the other parts");
        paragraph(Line::of(Ink::Dim, "note: "), Ink::Plain, &text, style, out);
    }
    for (what, rest) in [
        ("causes, which findings are made of", summary.findings_rest),
        ("functions of kworkers", summary.works_rest),
        ("names that made tasks", summary.storms_rest),
    ] {
        if let Some(rest) = words::rest(rest, style) {
            paragraph(Line::of(Ink::Dim, "note: "), Ink::Plain, &format!("{what}: {rest}"), style, out);
        }
    }
    let time = |ns| units::duration(ns, style.unicode);
    let mut note = |text: String| paragraph(Line::of(Ink::Dim, "note: "), Ink::Plain, &text, style, out);
    if summary.groups_error_ns > 0 {
        let error = time(summary.groups_error_ns);
        note(format!("groups may have waited up to {error} more than shown: there were too many to keep"));
    }
    if summary.wakings.error_ns > 0 {
        let error = time(summary.wakings.error_ns);
        note(format!("who wakes whom: waits of a pair may be up to {error} longer: there were too many pairs to keep"));
    }
    if summary.works_dropped > 0 {
        let dropped = units::counted(summary.works_dropped, "event");
        note(format!("{dropped} of kworkers dropped: there were too many to keep; functions may be missing"));
    }
    if summary.storms_dropped > 0 {
        let dropped = units::counted(summary.storms_dropped, "task");
        note(format!("{dropped} too old for their parents to be kept: their time is in no storm"));
    }
    forks(summary, style, out);
    if !summary.untold.is_empty() {
        let text = format!("not told apart: {}", summary.untold.join(", "));
        paragraph(Line::of(Ink::Dim, "note: "), Ink::Plain, &text, style, out);
    }
}

/// The tasks that were made: `forks: 901 tasks, 900 programs started; `bash` 900, `cron` 1`.
fn forks(summary: &Summary, style: &Style, out: &mut String) {
    const MAKERS: usize = 3;
    let forks = &summary.forks;
    if forks.tasks == 0 && forks.programs == 0 {
        return;
    }
    let first = [units::counted(forks.tasks, "task"), format!("{} started", units::counted(forks.programs, "program"))];
    let makers = forks.makers.iter().take(MAKERS);
    let makers =
        makers.map(|(comm, tasks, _)| format!("by `{}` {}", clean(&comm.to_string(), style), units::thousands(*tasks)));
    let pieces = first.into_iter().chain(makers).map(|text| Line::of(Ink::Plain, text)).collect();
    flow(Line::of(Ink::Dim, "forks: "), pieces, "; ", style, out);
}
