//! Renders one wait on its timeline.

use wakelat_common::Class;

use super::labels;
use crate::{
    files::{own_number, own_tid},
    render::{
        Style,
        labels::{figure, in_file},
        style::TextStyle,
        text_line::{TextLine, clean, flow, paragraph},
        timeline, units,
    },
    report::{GroupClass, Report},
    timeline::{
        Breakdown,
        breakdown::{Share, Span},
        component::Component,
    },
    wait::Namespace,
    why::Summary,
};

/// Maximum number of shares with a row of their own; the others share one.
const ROWS: usize = 12;

/// Appends a wait to `out`: title and timeline.
pub fn draw(breakdown: &Breakdown, summary: &Summary, report: &Report, style: &Style, out: &mut String) {
    let (from, cgroups) = (summary.from, &summary.cgroups);
    let wait = &breakdown.ended_wait.wait;
    let dot = style.pick(" · ", " | ");
    let plain = |text: String| TextLine::of(TextStyle::Plain, text);
    let name = figure(GroupClass::One(wait.class), from);
    let mut pieces = vec![
        TextLine::of(TextStyle::Title, format!("{name} {}", units::full(breakdown.latency_ns))),
        TextLine::of(
            TextStyle::Title,
            format!("{}/{}{}", clean(&wait.comm.to_string(), style), own_tid(wait.tid), in_file(wait.tid, style)),
        ),
        plain(format!("CPU {}", own_number(wait.cpu))),
    ];
    if let Some(delivery) = breakdown.delivery.filter(|delivery| !delivery.is_counted) {
        pieces.push(plain(format!("after {} of {}", units::full(delivery.ns), labels::component(delivery.component))));
    }
    pieces.push(TextLine::of(TextStyle::Dim, format!("ended at {}", style.instant(wait.at_ns, report.unix_offset_ns))));
    flow(TextLine::new(), pieces, dot, style, out);
    if let Some(path) = wait.cgroup_id.and_then(|id| cgroups.get(&id)).filter(|path| *path != "/") {
        paragraph(TextLine::of(TextStyle::Dim, "  cgroup "), TextStyle::Dim, &clean(path, style), style, out);
        if let Some(container) = labels::container(path, style) {
            TextLine::of(TextStyle::Dim, format!("  {container}")).finish(style, out);
        }
    }
    if let Some(Namespace { pid_ns, tid }) = summary.namespaces.get(&wait.tid) {
        let of = pid_ns.map_or_else(String::new, |inode| format!(" {inode}"));
        TextLine::of(TextStyle::Dim, format!("  thread {tid} of PID namespace{of}")).finish(style, out);
    }
    let marks = marks(wait.class, (breakdown.from_ns, breakdown.latency_ns), &breakdown.shares, &breakdown.spans);
    timeline::draw(&rows(breakdown, summary, style), breakdown.latency_ns, marks, style, out);
}

/// A row for each of the largest shares, in the order of time, and one for all others.
fn rows(breakdown: &Breakdown, summary: &Summary, style: &Style) -> Vec<timeline::TimelineRow> {
    let mut sizes: Vec<u64> = breakdown.shares.iter().map(|share| share.ns).collect();
    sizes.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least = sizes.get(ROWS).map_or(0, |ns| ns + 1);
    let mut rows = Vec::new();
    let mut rest = timeline::TimelineRow { name: String::new(), ns: 0, spans: Vec::new(), rank: 0 };
    let mut others = 0;
    for (index, share) in breakdown.shares.iter().enumerate() {
        let spans = breakdown.spans.iter().filter(|span| span.share == index).map(|span| relative(breakdown, span));
        if share.ns >= least {
            let items = breakdown.work_items.iter().filter(|item| item.share == index);
            let functions: Vec<&str> = items.map(|item| summary.functions[&item.function].as_str()).collect();
            let culprit = labels::culprit(&share.culprit, &summary.cgroups, style)
                + labels::own_mark(&share.culprit.actor, &summary.own_pids);
            let name = labels::with_work_items(culprit, &functions, style);
            rows.push(timeline::TimelineRow { name, ns: share.ns, spans: spans.collect(), rank: 0 });
        } else {
            others += 1;
            rest.ns += share.ns;
            rest.spans.extend(spans);
        }
    }
    if others > 0 {
        rest.name = format!("{} more", units::thousands(others as u64));
        rows.push(rest);
    }
    rows
}

fn relative(breakdown: &Breakdown, span: &Span) -> timeline::TimelineSpan {
    timeline::TimelineSpan { from_ns: span.from_ns - breakdown.from_ns, to_ns: span.to_ns - breakdown.from_ns }
}

/// The marks on the axis of a wait's timeline: what happened when, in ns since the wait began.
pub fn marks(class: Class, (from_ns, latency_ns): (u64, u64), shares: &[Share], spans: &[Span]) -> Vec<(u64, String)> {
    let delivery: Option<&Share> =
        shares.iter().find(|share| matches!(share.culprit.component, Component::Placement | Component::Ipi));
    let begins = match (class, delivery) {
        (Class::Preempted, _) => "preempted",
        (Class::New, _) => "created",
        (Class::Wakeup, Some(_)) => "waking",
        (Class::Wakeup, None) => "woken",
    };
    let mut marks = vec![(0, begins.to_owned())];
    marks.extend(delivery.map(|share| (share.ns, "woken".to_owned())));
    let placed = spans.iter().filter(|span| span.cpu.is_some());
    let mut last = None;
    for span in placed {
        if last.is_some_and(|last| Some(last) != span.cpu)
            && let Some(cpu) = span.cpu
        {
            marks.push((span.from_ns - from_ns, format!("to CPU {}", own_number(cpu))));
        }
        last = span.cpu;
    }
    marks.push((latency_ns, "runs".to_owned()));
    marks
}
