//! One wait: its timeline, and the shares, which add up to its latency.

use ratatui::style::Style;

use super::context::{Context, fit_path, pieces};
use crate::{
    files::own_number,
    render::{
        Style as TextStyle,
        labels::{figure, thread},
        timeline::{self, TimelineRow, TimelineSpan},
        timestamps, units,
    },
    report::GroupClass,
    top_screen::{
        canvas::Canvas,
        data::kept_wait::KeptWait,
        state::{
            hit::{Hit, Panel},
            page::WaitPage,
        },
        view::group_id::GroupId,
    },
    why::render::{labels, wait_timeline},
};

/// Most columns of a culprit's name.
const NAME: usize = 34;

/// Draws the wait.
pub fn draw(canvas: &mut Canvas<'_>, context: &Context<'_>, page: &mut WaitPage) {
    let wait = &page.wait;
    let name = GroupId::Task(wait.task.tid, wait.task.comm).name(context.names, context.style);
    let class = figure(GroupClass::One(wait.class), context.settings.from);
    let head = [format!("{class} {}", units::full(wait.latency_ns)), name, format!("CPU {}", own_number(wait.cpu))];
    pieces(canvas, (0, 0), &head, canvas.look.title());
    let waker = wait.waker.map(|(tid, comm)| format!("woken by {}", thread(comm, tid, usize::MAX, context.style)));
    let cgroup = wait.task.cgroup_id.map(|id| GroupId::Cgroup(id).name(context.names, context.style));
    let migrations = (wait.migrations > 0).then(|| units::counted(wait.migrations, "migration"));
    let ended = timestamps::time_of_day(wait.ended_unix_ns, &context.style.zone);
    let ended = format!("ended at {ended} UTC, {} after the start", context.since_start(wait.ended_ns()));
    let facts: Vec<String> = [Some(ended), waker, migrations, cgroup].into_iter().flatten().collect();
    pieces(canvas, (0, 1), &facts, Style::new());

    let mut text = String::new();
    let rows = rows(wait, context);
    let marks = wait_timeline::marks(wait.class, (wait.from_ns, wait.latency_ns), &wait.shares, &wait.spans);
    let style = TextStyle { width: canvas.width(), ..context.style.clone() };
    timeline::draw(&rows, wait.latency_ns, marks, &style, &mut text);
    let lines: Vec<&str> = text.lines().collect();
    let (of_shares, axis) = lines.split_at(rows.len().min(lines.len()));
    // The axis, the sum, and a row of space around both.
    let axis = &axis[..axis.len().min(4)];
    let room = canvas.height().saturating_sub(3 + axis.len() + 2);
    let visible = page.shares.visible(rows.len(), room);
    for (y, at) in (3..).zip(visible.clone()) {
        let is_selected = at == page.shares.at;
        canvas.text((0, y), of_shares[at], Style::new());
        if is_selected {
            canvas.text((0, y), ">", Style::new());
            canvas.paint_row(y, canvas.look.selected());
        }
        let wide = canvas.width();
        canvas.on_click((0, y), wide, Hit::Row(Panel::Groups, at));
    }
    let mut y = 3 + visible.len();
    for line in axis {
        canvas.text((0, y), line, canvas.look.dim());
        y += 1;
    }
    let hidden = rows.len() - visible.len();
    let hidden = if hidden > 0 {
        format!(" ({} not visible: scroll)", units::counted(hidden as u64, "share"))
    } else {
        String::new()
    };
    let sum: u64 = rows.iter().map(|row| row.ns).fold(0, u64::saturating_add);
    let sum = format!(
        "  {} of {}: {}{hidden}",
        units::counted(rows.len() as u64, "share"),
        units::full(wait.latency_ns),
        units::share(sum, wait.latency_ns)
    );
    canvas.text((0, y), &sum, canvas.look.dim());
}

/// A row for each share, and one for those that are not kept.
fn rows(wait: &KeptWait, context: &Context<'_>) -> Vec<TimelineRow> {
    let row = |(index, share): (usize, &crate::timeline::breakdown::Share)| {
        let relative = |ns: u64| ns.saturating_sub(wait.from_ns);
        let spans = wait.spans.iter().filter(|span| span.share == index);
        let spans = spans.map(|span| TimelineSpan { from_ns: relative(span.from_ns), to_ns: relative(span.to_ns) });
        let cgroups = context.cgroups_of(&share.culprit.actor);
        let name = labels::culprit(&share.culprit, &cgroups, context.style);
        let name = fit_path(&name, NAME, context.style);
        TimelineRow { name, ns: share.ns, spans: spans.collect(), rank: 0 }
    };
    let mut rows: Vec<TimelineRow> = wait.shares.iter().enumerate().map(row).collect();
    if wait.left_out.0 > 0 {
        let name = format!("{} more", units::thousands(wait.left_out.0));
        rows.push(TimelineRow { name, ns: wait.left_out.1, spans: Vec::new(), rank: 0 });
    }
    rows
}
