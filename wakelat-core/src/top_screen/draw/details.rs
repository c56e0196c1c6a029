//! The details of a group: figures, distribution, heat map, causes, longest waits.

use ratatui::style::Style;

use super::{
    chart,
    context::{Context, fit_path, pieces},
    table::bar,
};
use crate::{
    aggregate::percentile_rank::Percentile,
    render::{
        PERCENTILES,
        text_line::{fit, width},
        units,
    },
    top_screen::{
        canvas::Canvas,
        data::kept_wait::KeptWait,
        state::{
            hit::{Hit, Panel},
            list_position::ListPosition,
            page::GroupsPage,
        },
        view::{
            group_details::GroupDetails,
            group_id::{GroupId, Grouping},
        },
    },
    why::render::labels,
};

/// The details of a group, with its name.
pub struct NamedDetails<'a> {
    /// The details.
    pub details: &'a GroupDetails,
    /// The time of the waits of others while the task ran (ns), and their number, if it is a task.
    pub caused: Option<(u64, usize)>,
}

/// Draws the details.
pub fn draw(canvas: &mut Canvas<'_>, context: &Context<'_>, of: &NamedDetails<'_>, page: &mut GroupsPage) {
    let details = of.details;
    heading(canvas, context, of, page);
    let height = canvas.height().saturating_sub(2);
    let wide = canvas.width();
    let left = if wide >= 70 { (wide / 2).saturating_sub(1).min(90) } else { 0 };
    if left > 0 {
        chart::draw(&mut canvas.part((0, 2), (left, height)), context, details);
    }
    let x = if left > 0 { left + 2 } else { 0 };
    // Beside, if there is no room for the chart there.
    let chart_rows = if left == 0 { height / 3 } else { 0 };
    let lists = height - chart_rows;
    // A row of space between both, if there is room.
    let space = usize::from(lists > 12);
    let causes = (lists * 2 / 5 + space).max(3).min(details.causes() + 1 + space).min(lists);
    draw_causes(&mut canvas.part((x, 2), (wide - x, causes - space.min(causes))), context, details, page);
    draw_waits(&mut canvas.part((x, 2 + causes), (wide - x, lists - causes)), context, details, page);
    if chart_rows > 0 {
        chart::draw(&mut canvas.part((0, 2 + lists), (wide, chart_rows)), context, details);
    }
}

fn heading(canvas: &mut Canvas<'_>, context: &Context<'_>, of: &NamedDetails<'_>, page: &GroupsPage) {
    let figures = &of.details.figures;
    let subject = page.subject();
    let names: Vec<String> = subject.iter().map(|group| group.name(context.names, context.style)).collect();
    let name = match &names[..] {
        [] => format!("all {}", page.table.as_ref().map_or(Grouping::Task, |table| table.grouping).name().1),
        names => names.join(canvas.look.pick(" › ", " > ")),
    };
    let name = fit(&name, canvas.width() / 2, context.style);
    let mut x = canvas.text((0, 0), &name, canvas.look.title());
    let mut figures_of = vec![units::counted(figures.waits, "wait")];
    if figures.waits > 0 {
        figures_of.push(format!("total {}", context.time(figures.ns)));
    }
    figures_of.push(format!("ran {}", context.time(of.details.run_ns)));
    if let Some((ns, victims)) = of.caused.filter(|(ns, _)| *ns > 0) {
        figures_of.push(format!("{} waited {} for it", units::counted(victims as u64, "task"), context.time(ns)));
    }
    if let [GroupId::Task(..)] = &subject[..]
        && let Some(cgroup) = of.details.longest.first().and_then(|wait| wait.task.cgroup_id)
    {
        figures_of.push(GroupId::Cgroup(cgroup).name(context.names, context.style));
    }
    x = canvas.text((x, 0), canvas.look.dot(), canvas.look.dim());
    pieces(canvas, (x, 0), &figures_of, Style::new());
    if figures.waits == 0 {
        return;
    }
    let percentile = |(percentile, name): &(Percentile, &str)| {
        format!("{name} {}", context.time(figures.percentile_ns(*percentile)))
    };
    let mut line: Vec<String> = PERCENTILES.iter().map(percentile).collect();
    line.push(format!("longest {}", context.time(figures.max_ns)));
    let x = pieces(canvas, (0, 1), &line, Style::new());
    let room = canvas.width().saturating_sub(x + 2).min(40);
    if room >= 8 {
        bar(canvas, (x + 2, 1), room, figures);
    }
}

/// Writes the title of a list, and returns how the selected row is marked.
fn title(canvas: &mut Canvas<'_>, text: &str, has_keys: bool) -> Style {
    let look = canvas.look;
    let mark = if has_keys { look.pick("▸ ", "* ") } else { "  " };
    canvas.line((0, 0), &[(mark, look.title()), (text, if has_keys { look.title() } else { look.dim() })]);
    if has_keys { look.selected() } else { Style::new() }
}

fn draw_causes(canvas: &mut Canvas<'_>, context: &Context<'_>, details: &GroupDetails, page: &mut GroupsPage) {
    if canvas.height() == 0 {
        return;
    }
    let has_keys = page.panel == Panel::Causes;
    let selected = title(canvas, "causes", has_keys);
    let height = canvas.height() - 1;
    for (y, at) in (1..).zip(page.causes.visible(details.causes(), height)) {
        let Some((culprit, ns)) = details.culprits.get(at) else {
            share_row(canvas, context, y, "(others)", (details.others_ns(), details.figures.ns));
            if has_keys && at == page.causes.at {
                canvas.paint_row(y, selected);
            }
            continue;
        };
        let cgroups = context.cgroups_of(&culprit.actor);
        let name = labels::culprit(culprit, &cgroups, context.style);
        let (letter, style) = canvas.look.component(culprit.component);
        let is_selected = has_keys && at == page.causes.at;
        canvas.text((0, y), if is_selected { ">" } else { " " }, Style::new());
        share_row(canvas, context, y, &name, (*ns, details.figures.ns));
        if is_selected {
            canvas.paint_row(y, selected);
        }
        canvas.set((1, y), letter, style);
        let wide = canvas.width();
        canvas.on_click((0, y), wide, Hit::Row(Panel::Causes, at));
    }
}

fn share_row(canvas: &mut Canvas<'_>, context: &Context<'_>, y: usize, name: &str, (ns, total): (u64, u64)) {
    let wide = canvas.width();
    let figures = format!("{}  {:>7}", context.time(ns), units::share(ns, total));
    let room = wide.saturating_sub(width(&figures) + 4);
    canvas.text((3, y), &fit_path(name, room, context.style), Style::new());
    canvas.right((wide, y), &figures, Style::new());
}

fn draw_waits(canvas: &mut Canvas<'_>, context: &Context<'_>, details: &GroupDetails, page: &mut GroupsPage) {
    if canvas.height() == 0 {
        return;
    }
    let has_keys = page.panel == Panel::Waits;
    let shown = details.longest.len().min(canvas.height() - 1);
    let below = details.longest.get(shown.wrapping_sub(1)).map_or(0, |wait| wait.latency_ns);
    // Only said if it concerns what is visible.
    let text = if details.missing_ns > below && details.figures.waits > details.longest.len() as u64 {
        format!("longest waits (below {}: not all)", context.time(details.missing_ns))
    } else {
        "longest waits".to_owned()
    };
    let selected = title(canvas, &text, has_keys);
    let height = canvas.height() - 1;
    let visible = page.waits.visible(details.longest.len(), height);
    let position: &ListPosition = &page.waits;
    let times: Vec<String> =
        details.longest[visible.clone()].iter().map(|wait| context.time(wait.latency_ns)).collect();
    let time = times.iter().map(|time| width(time)).max().unwrap_or(0);
    let task_name = |wait: &KeptWait| GroupId::Task(wait.task.tid, wait.task.comm).name(context.names, context.style);
    let tasks = details.longest[visible.clone()].iter().map(|wait| width(&task_name(wait))).max().unwrap_or(0);
    let task_width = tasks.min(canvas.width().saturating_sub(time + 4 + 14));
    for (y, at) in (1..).zip(visible) {
        let wait: &KeptWait = &details.longest[at];
        let is_selected = has_keys && at == position.at;
        canvas.text((0, y), if is_selected { ">" } else { " " }, Style::new());
        canvas.right((2 + time, y), &context.time(wait.latency_ns), Style::new());
        let culprit = wait.main_culprit();
        let cause = labels::culprit(&culprit, &context.cgroups_of(&culprit.actor), context.style);
        let task = task_name(wait);
        canvas.text((time + 4, y), &fit(&task, task_width, context.style), Style::new());
        let (letter, style) = canvas.look.component(culprit.component);
        let cause_x = time + 4 + task_width + 2;
        let text = fit_path(&cause, canvas.width().saturating_sub(cause_x + 2), context.style);
        canvas.text((cause_x + 2, y), &text, Style::new());
        if is_selected {
            canvas.paint_row(y, selected);
        }
        canvas.set((cause_x, y), letter, style);
        let wide = canvas.width();
        canvas.on_click((0, y), wide, Hit::Row(Panel::Waits, at));
    }
}
