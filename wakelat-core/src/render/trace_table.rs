//! Renders `trace` for people: a line for each wait, in columns of a fixed width.

use std::io::{self, Write};

use super::{
    RenderContext, WaitRenderer,
    columns::{self, Column, Columns},
    coverage, labels,
    style::{Style, TextStyle},
    units,
};
use crate::{files::own_number, report::Report, wait::Wait};

/// A table of waits.
pub struct TraceTable {
    style: Style,
    columns: Columns<Wait>,
}

const COLUMNS: [Column<Wait>; 8] = [
    Column::time(|wait, context, _, style| columns::time(wait.at_ns, context, style)),
    Column::cpu(|w, _, _, _| own_number(w.cpu).to_string()),
    Column {
        title: "task",
        min_width: 13,
        max_width: 33,
        align_right: false,
        style: TextStyle::Plain,
        cell: |wait, _, width, style| labels::task(wait.comm, wait.tid, wait.pid, width, style),
    },
    Column::class(|w, _, _, _| w.class.name().to_owned()),
    Column {
        title: "delivery",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Plain,
        cell: delivery,
    },
    Column::latency(latency),
    Column { title: "waker", min_width: 14, max_width: 23, align_right: false, style: TextStyle::Plain, cell: waker },
    Column { title: "prev", min_width: 14, max_width: 23, align_right: false, style: TextStyle::Plain, cell: prev },
];

/// The column for the recording.
const FILE: [Column<Wait>; 1] = [Column::file(|wait, _, width, style| columns::file(wait.cpu, width, style))];

/// The columns to drop if the terminal is too narrow, first to last. Time, task and latency are always
/// shown.
const DROP_ORDER: [&str; 5] = ["delivery", "prev", "waker", "class", "cpu"];

impl TraceTable {
    /// Creates a table with the columns that fit the terminal.
    pub fn new(style: Style) -> Self {
        let file = if style.files.are_several() { &FILE[..] } else { &[] };
        Self { columns: Columns::new(file.iter().chain(&COLUMNS), &DROP_ORDER, 0, style.clone()), style }
    }
}

impl WaitRenderer for TraceTable {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.titles(), &self.style, out)
    }

    fn wait(&mut self, wait: &Wait, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.cells(wait, context), &self.style, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        coverage::write_below(report, &self.style, out)
    }
}

fn delivery(wait: &Wait, _: &RenderContext, _: usize, style: &Style) -> String {
    wait.delivery_ns.map_or_else(|| "-".to_owned(), |ns| units::duration(ns, style.unicode))
}

fn latency(wait: &Wait, _: &RenderContext, _: usize, style: &Style) -> String {
    units::duration(wait.latency_ns, style.unicode)
}

fn waker(wait: &Wait, context: &RenderContext, width: usize, style: &Style) -> String {
    let Some(tid) = wait.waker_tid else { return "-".to_owned() };
    labels::thread(context.names.comm(tid), tid, width, style)
}

fn prev(wait: &Wait, _: &RenderContext, width: usize, style: &Style) -> String {
    labels::thread(Some(wait.prev_comm), wait.prev_tid, width, style)
}
