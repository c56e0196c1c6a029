//! `trace` for people: a line for each wait, in columns that stay where they are.

use std::io::{self, Write};

use super::{
    Context, Waits, clock, coverage,
    style::{Ink, Style},
    text::{Line, clean, fit, left, right},
    units, words,
};
use crate::{report::Report, wait::Wait};

/// Lines of waits.
pub struct Trace {
    style: Style,
    /// Those that there is room for, with the columns each takes.
    columns: Vec<(&'static Column, usize)>,
}

/// What a line shows about a wait.
struct Column {
    title: &'static str,
    /// Terminal columns it needs, and as many as it can use.
    needs: usize,
    uses: usize,
    /// Numbers stand at the right.
    right: bool,
    ink: Ink,
    /// The text, given the columns for it.
    cell: fn(&Wait, &Context, usize, &Style) -> String,
}

const COLUMNS: [Column; 8] = [
    Column { title: "time", needs: 15, uses: 16, right: true, ink: Ink::Dim, cell: time },
    Column { title: "cpu", needs: 4, uses: 4, right: true, ink: Ink::Plain, cell: |w, _, _, _| w.cpu.to_string() },
    Column { title: "task", needs: 13, uses: 33, right: false, ink: Ink::Plain, cell: task },
    Column {
        title: "class",
        needs: 9,
        uses: 9,
        right: false,
        ink: Ink::Dim,
        cell: |w, _, _, _| w.class.name().to_owned(),
    },
    Column { title: "delivery", needs: 8, uses: 9, right: true, ink: Ink::Plain, cell: delivery },
    Column { title: "latency", needs: 8, uses: 9, right: true, ink: Ink::Strong, cell: latency },
    Column { title: "waker", needs: 14, uses: 23, right: false, ink: Ink::Plain, cell: waker },
    Column { title: "prev", needs: 14, uses: 23, right: false, ink: Ink::Plain, cell: prev },
];

/// What goes where room is short, first to last; time, task and latency stay.
const GO: [&str; 5] = ["delivery", "prev", "waker", "class", "cpu"];

/// Terminal columns between columns.
const GAP: usize = 2;

/// Of a name this much has to be there before the process is.
const NAME: usize = 4;

impl Trace {
    /// Chooses the columns. Off a terminal nothing breaks long lines, so that all are there.
    pub fn new(style: Style) -> Self {
        let mut columns: Vec<(&Column, usize)> = COLUMNS.iter().map(|column| (column, column.needs)).collect();
        if !style.terminal {
            columns.iter_mut().for_each(|(column, width)| *width = column.uses);
            return Self { style, columns };
        }
        let taken = |columns: &[(&Column, usize)]| columns.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
        for title in GO {
            if taken(&columns) > style.columns() {
                columns.retain(|(column, _)| column.title != title);
            }
        }
        let mut spare = style.columns().saturating_sub(taken(&columns));
        for (column, width) in &mut columns {
            let more = spare.min(column.uses - column.needs);
            *width += more;
            spare -= more;
        }
        Self { style, columns }
    }

    fn line(&self, cell: impl Fn(&Column, usize) -> (Ink, String), out: &mut dyn Write) -> io::Result<()> {
        let mut line = Line::new();
        for (index, (column, width)) in self.columns.iter().enumerate() {
            if index > 0 {
                line.push(Ink::Plain, " ".repeat(GAP));
            }
            let (ink, text) = cell(column, *width);
            line.push(ink, if column.right { right(&text, *width) } else { left(&text, *width, &self.style) });
        }
        let mut text = String::new();
        line.end_within(if self.style.terminal { self.style.columns() } else { usize::MAX }, &self.style, &mut text);
        out.write_all(text.as_bytes())
    }
}

impl Waits for Trace {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line(|column, _| (Ink::Title, column.title.to_owned()), out)
    }

    fn wait(&mut self, wait: &Wait, context: &Context, out: &mut dyn Write) -> io::Result<()> {
        self.line(|column, width| (column.ink, (column.cell)(wait, context, width, &self.style)), out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::from("\n");
        coverage::render(report, &self.style, &mut text);
        out.write_all(text.as_bytes())
    }
}

fn time(wait: &Wait, context: &Context, _: usize, style: &Style) -> String {
    if style.timestamps {
        clock::time_of_day(clock::unix_ns(wait.at_ns, context.unix_offset_ns), &style.zone)
    } else {
        clock::monotonic(wait.at_ns)
    }
}

/// `nginx[1234/1230]`: thread and process, or the one number that is both. The name gives way to the ids, and the
/// process to the thread.
fn task(wait: &Wait, _: &Context, width: usize, style: &Style) -> String {
    let both = format!("[{}/{}]", wait.tid, wait.pid);
    let ids = if wait.tid == wait.pid || both.len() + NAME > width { format!("[{}]", wait.tid) } else { both };
    let name = fit(&clean(&wait.comm.to_string(), style), width.saturating_sub(ids.len()), style);
    format!("{name}{ids}")
}

fn delivery(wait: &Wait, _: &Context, _: usize, style: &Style) -> String {
    wait.delivery_ns.map_or_else(|| "-".to_owned(), |ns| units::duration(ns, style.unicode))
}

fn latency(wait: &Wait, _: &Context, _: usize, style: &Style) -> String {
    units::duration(wait.latency_ns, style.unicode)
}

fn waker(wait: &Wait, context: &Context, width: usize, style: &Style) -> String {
    let Some(tid) = wait.waker_tid else { return "-".to_owned() };
    words::thread((context.name_of)(tid), tid, width, style)
}

fn prev(wait: &Wait, _: &Context, width: usize, style: &Style) -> String {
    words::thread(Some(wait.prev_comm), wait.prev_tid, width, style)
}
