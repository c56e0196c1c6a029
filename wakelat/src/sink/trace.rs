//! `trace` for people: a line for each wait, in columns that stay where they are.

use std::io::{self, Write};

use super::{
    Context, Waits,
    columns::{self, Column, Columns},
    coverage,
    style::{Ink, Style},
    units, words,
};
use crate::{report::Report, wait::Wait};

/// Lines of waits.
pub struct Trace {
    style: Style,
    columns: Columns<Wait>,
}

const COLUMNS: [Column<Wait>; 8] = [
    Column::time(|wait, context, _, style| columns::time(wait.at_ns, context, style)),
    Column::cpu(|w, _, _, _| w.cpu.to_string()),
    Column {
        title: "task",
        needs: 13,
        uses: 33,
        right: false,
        ink: Ink::Plain,
        cell: |wait, _, width, style| words::task(wait.comm, wait.tid, wait.pid, width, style),
    },
    Column::class(|w, _, _, _| w.class.name().to_owned()),
    Column { title: "delivery", needs: 8, uses: 9, right: true, ink: Ink::Plain, cell: delivery },
    Column { title: "latency", needs: 8, uses: 9, right: true, ink: Ink::Strong, cell: latency },
    Column { title: "waker", needs: 14, uses: 23, right: false, ink: Ink::Plain, cell: waker },
    Column { title: "prev", needs: 14, uses: 23, right: false, ink: Ink::Plain, cell: prev },
];

/// What goes where room is short, first to last; time, task and latency stay.
const GO: [&str; 5] = ["delivery", "prev", "waker", "class", "cpu"];

impl Trace {
    /// Chooses the columns.
    pub fn new(style: Style) -> Self {
        Self { columns: Columns::new(&COLUMNS, &GO, 0, style.clone()), style }
    }
}

impl Waits for Trace {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.titles(), &self.style, out)
    }

    fn wait(&mut self, wait: &Wait, context: &Context, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.cells(wait, context), &self.style, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        coverage::below(report, &self.style, out)
    }
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
