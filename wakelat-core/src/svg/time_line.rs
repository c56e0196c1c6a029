//! What happened during one wait: a row for each of its parts.

use std::io;

use super::picture::{Anchor, MARGIN, Picture, WIDTH, color, cut};
use crate::{
    aggregate::key::Names,
    files::{own_number, own_tid},
    render::{self, Style, text_line::clean, units},
    report::{GroupClass, LatencyFrom},
    timeline::Breakdown,
    why::render::labels,
};

/// Maximum number of parts that are drawn, the longest; the others are one row in words.
const ROWS: usize = 20;

/// Pieces whose gap is this part of the wait, or less, are drawn as one.
const VISIBLE: u64 = 1_000;

/// The begin and the end of the bars: px.
const BARS: [f64; 2] = [290.0, WIDTH - 90.0];

const HEIGHT: f64 = 20.0;

/// The timeline of a wait. Tasks of the processes `own_pids` are wakelat itself.
///
/// # Errors
/// None: it writes to memory.
pub fn time_line(breakdown: &Breakdown, from: LatencyFrom, own_pids: &[u32], names: &dyn Names) -> io::Result<String> {
    let style = Style { unicode: true, ..Style::default() };
    let wait = &breakdown.ended_wait.wait;
    let task = format!("{}/{}", clean(&wait.comm.to_string(), &style), own_tid(wait.tid));
    let figure = render::labels::figure(GroupClass::One(wait.class), from);
    let latency = units::full(breakdown.latency_ns);
    let title = format!("{figure} of {task} on CPU {}: {latency}", own_number(wait.cpu));
    let mut picture = Picture::new(&title)?;
    let mut sizes: Vec<u64> = breakdown.shares.iter().map(|share| share.ns).collect();
    sizes.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least_ns = sizes.get(ROWS).map_or(0, |ns| ns + 1);
    let x = |ns: u64| BARS[0] + (BARS[1] - BARS[0]) * ns as f64 / breakdown.latency_ns.max(1) as f64;
    picture.y += 26.0;
    let top = picture.y;
    let (mut rest_ns, mut others, mut described) = (0, 0, Vec::new());
    let mut rows = Vec::new();
    for (index, share) in breakdown.shares.iter().enumerate() {
        if share.ns < least_ns {
            (rest_ns, others) = (rest_ns + share.ns, others + 1);
            continue;
        }
        let cgroups = labels::cgroup_of(&share.culprit.actor, names);
        let mark = labels::own_mark(&share.culprit.actor, own_pids);
        let name = labels::culprit(&share.culprit, &cgroups, &style) + mark;
        described.push(format!("{name} {}", units::duration(share.ns, true)));
        rows.push((index, share, name));
    }
    let bottom = top + HEIGHT * rows.len() as f64 + 4.0;
    for part in 0..=4 {
        let ns = breakdown.latency_ns / 4 * part;
        picture.line([x(ns), top, x(ns), bottom], "")?;
        picture.text((x(ns), bottom + 16.0), Anchor::Middle, "dim", &units::duration(ns, true))?;
    }
    for (row, (index, share, name)) in rows.into_iter().enumerate() {
        let y = top + HEIGHT * row as f64;
        picture.text((MARGIN, y + 15.0), Anchor::Start, "", &cut(&name, 36))?;
        let (component, ns) = (share.culprit.component, share.ns.to_string());
        let meaning = format!("{name}, {}: {}", labels::component(component), units::full(share.ns));
        for (at, (from_ns, to_ns)) in breakdown.pieces(index, breakdown.latency_ns / VISIBLE).into_iter().enumerate() {
            // The first piece has the time of all.
            let attributes = [("data-component", component.name()), ("data-ns", &*ns)];
            let attributes = if at == 0 { &attributes[..] } else { &[] };
            let width = (x(to_ns) - x(from_ns)).max(1.0);
            picture.bar([x(from_ns), y + 3.0, width, HEIGHT - 6.0], &color(row), &meaning, attributes)?;
        }
        let time = units::duration(share.ns, true);
        picture.text((WIDTH - MARGIN, y + 15.0), Anchor::End, "", &time)?;
    }
    picture.y = bottom + 16.0;
    if others > 0 {
        let text = format!(
            "{} of {} not drawn",
            units::counted(others as u64, "shorter part"),
            units::duration(rest_ns, true)
        );
        picture.paragraph("dim", &text)?;
        described.push(text);
    }
    picture.finish(&title, &described.join("; "))
}

/// The picture if there is no wait.
///
/// # Errors
/// None: it writes to memory.
pub fn no_time_line() -> io::Result<String> {
    let title = "No wait was measured";
    Picture::new(title)?.finish(title, "There is no timeline.")
}
