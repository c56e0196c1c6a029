//! The CPUs: what each runs, who waits for it, and for how long.

use ratatui::style::Style;

use super::context::{Context, fit_path};
use crate::{
    files::own_number,
    render::{
        text_line::{clean, fit, width},
        units,
    },
    top_screen::{
        canvas::Canvas,
        state::{
            hit::{Hit, Panel},
            list_position::ListPosition,
        },
        view::{
            cpu_rows::{CpuRow, CpuRows},
            group_id::GroupId,
        },
    },
};

/// A column: its heading, and whether it is text, which is cut if it is too long.
const COLUMNS: [(&str, bool); 8] = [
    ("CPU", false),
    ("busy", false),
    ("runs", true),
    ("waiting", false),
    ("waits", false),
    ("total wait", false),
    ("longest", false),
    ("ran most", true),
];

/// The columns that are left out if there is no room, the least important first.
const LESS_IMPORTANT: [usize; 4] = [4, 7, 5, 6];

/// Least columns of a text.
const TEXT: usize = 18;

/// Most columns of the name of a recording.
const FILE: usize = 24;

/// Draws the CPUs, and the tasks of the selected one.
pub fn draw(canvas: &mut Canvas<'_>, context: &Context<'_>, rows: &CpuRows, position: &mut ListPosition) {
    let height = canvas.height();
    let table = (height / 2).max(3).min(rows.cpus.len() + 1);
    draw_table(&mut canvas.rows(0, table), context, rows, position);
    let Some(cpu) = rows.cpus.get(position.at) else {
        canvas.text((0, 1), "no events yet", canvas.look.dim());
        return;
    };
    let (wide, rest) = (canvas.width(), height.saturating_sub(table + 1));
    let half = wide / 2;
    draw_waiting(&mut canvas.part((0, table + 1), (half.saturating_sub(1), rest)), context, cpu);
    draw_ran(&mut canvas.part((half + 1, table + 1), (wide - half - 1, rest)), context, cpu);
}

fn draw_table(canvas: &mut Canvas<'_>, context: &Context<'_>, rows: &CpuRows, position: &mut ListPosition) {
    let visible = position.visible(rows.cpus.len(), canvas.height().saturating_sub(1));
    let cells: Vec<Vec<String>> = rows.cpus[visible.clone()].iter().map(|cpu| cells(cpu, context)).collect();
    let widest = |column: usize| cells.iter().map(|row| width(&row[column])).max().unwrap_or(0);
    let mut widths: Vec<Option<usize>> = (0..)
        .zip(COLUMNS)
        .map(|(at, (title, is_text))| Some(if is_text { TEXT } else { widest(at).max(title.len()) }))
        .collect();
    let needs = |widths: &[Option<usize>]| widths.iter().flatten().map(|width| width + 2).sum::<usize>();
    for column in LESS_IMPORTANT {
        if needs(&widths) <= canvas.width() {
            break;
        }
        widths[column] = None;
    }
    let spare = canvas.width().saturating_sub(needs(&widths));
    let texts = [2, 7].iter().filter(|at| widths[**at].is_some()).count();
    for at in [2, 7] {
        let longest = widest(at).max(TEXT);
        widths[at] = widths[at].map(|width| (width + spare / texts.max(1)).min(longest));
    }
    for y in 0..=cells.len() {
        let mut x = 2;
        for ((at, (title, is_text)), wide) in COLUMNS.iter().enumerate().zip(&widths) {
            let Some(wide) = wide else { continue };
            let (text, style) = match y.checked_sub(1) {
                Some(row) => (&*cells[row][at], Style::new()),
                None => (*title, canvas.look.dim()),
            };
            if *is_text {
                canvas.text((x, y), &fit(text, *wide, context.style), style);
            } else {
                canvas.right((x + wide, y), text, style);
            }
            x += wide + 2;
        }
        let Some(row) = y.checked_sub(1).map(|row| row + visible.start) else { continue };
        if row == position.at {
            canvas.text((0, y), ">", Style::new());
            canvas.paint_row(y, canvas.look.selected());
        }
        let wide = canvas.width();
        canvas.on_click((0, y), wide, Hit::Row(Panel::Groups, row));
    }
}

fn cells(cpu: &CpuRow, context: &Context<'_>) -> Vec<String> {
    let now_ns = cpu.now_ns;
    let file = context.style.files.of_cpu(cpu.cpu);
    let file = file.map(|file| format!(" in {}", fit_path(&clean(file, context.style), FILE, context.style)));
    let name = |tid, comm| GroupId::Task(tid, comm).name(context.names, context.style);
    let runs = match cpu.state.task {
        None => "unknown".to_owned(),
        Some(task) => {
            let name = if task.tid == 0 { "idle".to_owned() } else { name(task.tid, task.comm) };
            format!("{name} for {}", context.time(now_ns.saturating_sub(cpu.state.since_ns)))
        }
    };
    let waiting = match cpu.waiting.first() {
        None => "0".to_owned(),
        Some(first) => {
            format!("{} ({})", cpu.waiting.len(), context.time(now_ns.saturating_sub(first.since_ns)))
        }
    };
    let (waits, ns, max_ns) = cpu.waits;
    let most =
        cpu.ran.first().map(|(task, ns)| format!("{} {}", units::share(*ns, cpu.length_ns), name(task.tid, task.comm)));
    let of_waits = |ns: u64| if waits > 0 { context.time(ns) } else { "-".to_owned() };
    vec![
        format!("{}{}", own_number(cpu.cpu), file.unwrap_or_default()),
        units::share(cpu.busy_ns, cpu.length_ns),
        runs,
        waiting,
        units::thousands(waits),
        of_waits(ns),
        of_waits(max_ns),
        most.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn draw_waiting(canvas: &mut Canvas<'_>, context: &Context<'_>, cpu: &CpuRow) {
    let title = format!("waiting for {}", GroupId::Cpu(cpu.cpu).name(context.names, context.style));
    canvas.text((0, 0), &title, canvas.look.title());
    let rest = canvas.height().saturating_sub(2);
    for (y, task) in (1..=rest).zip(&cpu.waiting) {
        let name = GroupId::Task(task.tid, task.comm).name(context.names, context.style);
        row(canvas, context, y, &name, &context.time(cpu.now_ns.saturating_sub(task.since_ns)));
    }
    let mut note = String::new();
    if cpu.waiting.len() > rest {
        note = format!("and {} more", cpu.waiting.len() - rest);
    } else if !context.measured.cpus.knows_all_waiting() {
        note = format!("{}only preempted tasks are known", if cpu.waiting.is_empty() { "none; " } else { "" });
    } else if cpu.waiting.is_empty() {
        note = "none".to_owned();
    }
    canvas.text((2, cpu.waiting.len().min(rest) + 1), &note, canvas.look.dim());
}

fn draw_ran(canvas: &mut Canvas<'_>, context: &Context<'_>, cpu: &CpuRow) {
    let name = GroupId::Cpu(cpu.cpu).name(context.names, context.style);
    let title = format!("ran on {name} in {}", context.time(cpu.length_ns));
    canvas.text((0, 0), &title, canvas.look.title());
    for (y, (task, ns)) in (1..canvas.height()).zip(&cpu.ran) {
        let name = GroupId::Task(task.tid, task.comm).name(context.names, context.style);
        row(canvas, context, y, &name, &format!("{}  {:>7}", context.time(*ns), units::share(*ns, cpu.length_ns)));
    }
}

fn row(canvas: &mut Canvas<'_>, context: &Context<'_>, y: usize, name: &str, figures: &str) {
    let wide = canvas.width();
    let room = wide.saturating_sub(width(figures) + 3);
    canvas.text((2, y), &fit(name, room, context.style), Style::new());
    canvas.right((wide, y), figures, Style::new());
}
