//! The table of groups.

use ratatui::style::Style;

use super::context::{Context, fit_path};
use crate::{
    aggregate::percentile_rank::Percentile,
    render::{
        text_line::{fit, width},
        units,
    },
    timeline::component::Component,
    top_screen::{
        canvas::Canvas,
        data::wait_sum::WaitFigures,
        state::{
            hit::{Hit, Panel},
            page::TablePage,
        },
        view::{
            group_id::GroupId,
            group_rows::{GroupRow, GroupRows, SortColumn},
        },
    },
};

/// Least and most columns of a name, and of the bar of causes.
const NAME: (usize, usize) = (16, 44);
const BAR: (usize, usize) = (8, 40);

/// What is left out if there is no room, the least important first; `None` is the bar.
const LESS_IMPORTANT: [Option<SortColumn>; 6] = [
    Some(SortColumn::P50),
    Some(SortColumn::Run),
    None,
    Some(SortColumn::P99),
    Some(SortColumn::Waits),
    Some(SortColumn::Total),
];

/// Space between columns.
const GAP: usize = 2;

/// The columns that fit, with their widths.
struct TableColumns {
    name: usize,
    figures: Vec<(SortColumn, usize)>,
    bar: usize,
}

/// Draws the table.
pub fn draw(canvas: &mut Canvas<'_>, context: &Context<'_>, rows: &GroupRows, page: &mut TablePage, has_keys: bool) {
    if canvas.height() < 2 {
        return;
    }
    page.rows.at = rows.position(&page.selected);
    let visible = page.rows.visible(rows.rows(), canvas.height() - 1);
    let name = |row: &GroupRow| name(row, rows, page, context);
    let shown: Vec<(usize, &GroupRow, String)> = visible.map(|at| (at, rows.row(at), name(rows.row(at)))).collect();
    let columns = columns(canvas.width(), &shown, page, context);
    head(canvas, page, &columns, has_keys);
    for (y, (at, row, name)) in (1..).zip(&shown) {
        let selected = *at == page.rows.at;
        let mark = if selected { ">" } else { " " };
        canvas.text((0, y), mark, Style::new());
        let text = if row.id == GroupId::All { canvas.look.title() } else { Style::new() };
        canvas.text((GAP, y), &fit_path(name, columns.name, context.style), text);
        let mut end = GAP + columns.name;
        for (column, width) in &columns.figures {
            end += GAP + width;
            canvas.right((end, y), &figure(row, *column, context), Style::new());
        }
        if selected {
            let style = if has_keys { canvas.look.selected() } else { canvas.look.title() };
            canvas.paint_row(y, style);
        }
        bar(canvas, (end + GAP, y), columns.bar, &row.figures);
        let width = canvas.width();
        canvas.on_click((0, y), width, Hit::Row(Panel::Groups, *at));
    }
}

/// The name of a row.
fn name(row: &GroupRow, rows: &GroupRows, page: &TablePage, context: &Context<'_>) -> String {
    let (one, several) = page.grouping.name();
    match row.id {
        GroupId::All => {
            let count = rows.groups.len();
            format!("all ({} {})", units::thousands(count as u64), if count == 1 { one } else { several })
        }
        GroupId::Task(..) | GroupId::Process(_) => {
            let own = &context.settings.own_pids;
            let is_own = matches!(row.id, GroupId::Task(id, _) | GroupId::Process(id) if own.contains(&id));
            format!("{}{}", row.id.name(context.names, context.style), if is_own { " (itself)" } else { "" })
        }
        _ => row.id.name(context.names, context.style),
    }
}

fn columns(
    width: usize,
    shown: &[(usize, &GroupRow, String)],
    page: &TablePage,
    context: &Context<'_>,
) -> TableColumns {
    let mut figures: Vec<(SortColumn, usize)> = Vec::new();
    for column in SortColumn::ALL.into_iter().skip(1) {
        let values = shown.iter().map(|(_, row, _)| crate::render::text_line::width(&figure(row, column, context)));
        let title = column.title().len() + usize::from(column == page.sort);
        figures.push((column, values.max().unwrap_or(0).max(title)));
    }
    let mut bar = BAR.0;
    let needs = |figures: &[(SortColumn, usize)], bar: usize| {
        let figures: usize = figures.iter().map(|(_, width)| GAP + width).sum();
        GAP + NAME.0 + figures + if bar > 0 { GAP + bar } else { 0 }
    };
    for least in LESS_IMPORTANT {
        if needs(&figures, bar) <= width {
            break;
        }
        match least {
            Some(least) => figures.retain(|(column, _)| *column != least),
            None => bar = 0,
        }
    }
    let spare = width.saturating_sub(needs(&figures, bar));
    let longest = shown.iter().map(|(.., name)| crate::render::text_line::width(name)).max().unwrap_or(0);
    let longest = longest.clamp(NAME.0, NAME.1);
    let name = if bar == 0 { NAME.0 + spare } else { (NAME.0 + spare).min(longest) };
    let bar = if bar == 0 { 0 } else { (bar + spare - (name - NAME.0)).min(BAR.1) };
    TableColumns { name, figures, bar }
}

fn head(canvas: &mut Canvas<'_>, page: &TablePage, columns: &TableColumns, has_keys: bool) {
    let look = canvas.look;
    let mark = if page.reversed { look.pick('▲', '^') } else { look.pick('▼', 'v') };
    let style = |column| if column == page.sort { look.title() } else { look.dim() };
    let title = |column: SortColumn, name: &str| {
        if column == page.sort { format!("{name}{mark}") } else { name.to_owned() }
    };
    canvas.text((0, 0), if has_keys { look.pick("▸", "*") } else { " " }, look.title());
    let name = title(SortColumn::Name, page.grouping.name().0);
    canvas.text((GAP, 0), &fit(&name, columns.name, &look.text), style(SortColumn::Name));
    canvas.on_click((0, 0), GAP + columns.name, Hit::Sort(SortColumn::Name));
    let mut end = GAP + columns.name;
    for (column, wide) in &columns.figures {
        end += GAP + wide;
        let title = title(*column, column.title());
        canvas.right((end, 0), &title, style(*column));
        canvas.on_click((end - wide, 0), *wide, Hit::Sort(*column));
    }
    if columns.bar > width("causes") {
        canvas.text((end + GAP, 0), "causes", look.dim());
    }
}

fn figure(row: &GroupRow, column: SortColumn, context: &Context<'_>) -> String {
    let figures = &row.figures;
    let of_waits = |ns: u64| if figures.waits > 0 { context.time(ns) } else { "-".to_owned() };
    match column {
        SortColumn::Name => String::new(),
        SortColumn::Run => context.time(row.run_ns),
        SortColumn::Waits => units::thousands(figures.waits),
        SortColumn::Total => of_waits(figures.ns),
        SortColumn::P50 => of_waits(row.percentile_ns(Percentile::P50)),
        SortColumn::P99 => of_waits(row.percentile_ns(Percentile::P99)),
        SortColumn::Longest => of_waits(figures.max_ns),
    }
}

/// Draws the share of each component as a part of the bar.
pub fn bar(canvas: &mut Canvas<'_>, (x, y): (usize, usize), columns: usize, figures: &WaitFigures) {
    for (column, component) in (x..).zip(bar_components(columns, figures)) {
        let (letter, style) = canvas.look.component(component);
        canvas.set((column, y), letter, style);
    }
}

/// The component of each column of a bar.
fn bar_components(columns: usize, figures: &WaitFigures) -> Vec<Component> {
    let components = figures.components();
    let total: u128 = components.iter().map(|(_, ns)| u128::from(*ns)).sum();
    let mut bar = Vec::with_capacity(columns);
    let mut up_to = 0u128;
    for (component, ns) in components {
        up_to += u128::from(ns);
        // Rounded: the last one ends at the last column.
        let end = (up_to * columns as u128 + total / 2) / total.max(1);
        bar.resize(end as usize, component);
    }
    bar
}
