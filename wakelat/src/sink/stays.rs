//! `trace --all` for people: a line each time a CPU goes from one task to the next, and what happened between.

use std::io::{self, Write};

use wakelat_common::start::Leaving;

use super::{
    Context, Events,
    columns::{self, Column, Columns, GAP},
    coverage,
    style::{Ink, Style},
    text::Line,
    units, words,
};
use crate::{
    report::Report,
    timeline::stay::{Line as Event, Stay},
};

/// Lines of stays.
pub struct Stays {
    style: Style,
    places: Columns<Event>,
    map: Map,
    columns: Columns<Stay>,
}

/// When and where: in front of every line.
const PLACE: [Column<Event>; 2] = [
    Column {
        title: "time",
        needs: 15,
        uses: 16,
        right: true,
        ink: Ink::Dim,
        cell: |event, context, _, style| columns::time(event.at_ns(), context, style),
    },
    Column {
        title: "cpu",
        needs: 4,
        uses: 4,
        right: true,
        ink: Ink::Plain,
        cell: |event, _, _, _| event.cpu().to_string(),
    },
];

const COLUMNS: [Column<Stay>; 6] = [
    Column { title: "task", needs: 13, uses: 33, right: false, ink: Ink::Plain, cell: task },
    Column {
        title: "off cpu",
        needs: 8,
        uses: 9,
        right: true,
        ink: Ink::Plain,
        cell: |stay, _, _, style| duration(stay.off_cpu_ns, style),
    },
    Column {
        title: "latency",
        needs: 8,
        uses: 9,
        right: true,
        ink: Ink::Strong,
        cell: |stay, _, _, style| duration(stay.waited.map(|wait| wait.latency_ns), style),
    },
    Column {
        title: "run",
        needs: 8,
        uses: 9,
        right: true,
        ink: Ink::Plain,
        cell: |stay, _, _, style| duration(stay.run_ns, style),
    },
    Column { title: "then", needs: 6, uses: 6, right: false, ink: Ink::Dim, cell: |stay, _, _, _| then(stay) },
    Column {
        title: "next",
        needs: 14,
        uses: 23,
        right: false,
        ink: Ink::Plain,
        cell: |stay, _, width, style| words::thread(Some(stay.next.comm), stay.next.tid, width, style),
    },
];

/// What goes where room is short, first to last.
const GO: [&str; 3] = ["next", "then", "off cpu"];

impl Stays {
    /// Chooses the columns. Each of the CPUs in `map` has one, as far as half of the line goes.
    pub fn new(map: &[u32], style: Style) -> Self {
        let places = Columns::new(&PLACE, &[], 0, style.clone());
        let place = places.titles().width() + GAP;
        let most = if style.terminal { style.columns().saturating_sub(place) / 2 } else { usize::MAX };
        let map = Map::new(map, most);
        let taken = place + if map.cpus.is_empty() { 0 } else { map.cpus.len() + GAP };
        Self { columns: Columns::new(&COLUMNS, &GO, taken, style.clone()), places, map, style }
    }

    fn line(&self, place: Line, map: String, rest: Line, out: &mut dyn Write) -> io::Result<()> {
        let gap = " ".repeat(GAP);
        let mut line = place.and(Ink::Plain, &gap);
        if !map.is_empty() {
            line.push(Ink::Bar, map);
            line.push(Ink::Plain, gap);
        }
        line.append(rest);
        columns::write(&line, &self.style, out)
    }
}

impl Events for Stays {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line(self.places.titles(), self.map.title(), self.columns.titles(), out)
    }

    fn event(&mut self, event: &Event, context: &Context, out: &mut dyn Write) -> io::Result<()> {
        let place = self.places.cells(event, context);
        let style = &self.style;
        let (sign, rest) = match event {
            Event::Stay(stay) => (if stay.task.tid == 0 { 'i' } else { 's' }, self.columns.cells(stay, context)),
            Event::Moved(moved) => {
                let who = words::thread(Some(moved.comm), moved.tid, usize::MAX, style);
                let waits = if moved.waits { ", while it waits" } else { "" };
                ('m', Line::of(Ink::Dim, format!("{who} moves to CPU {}{waits}", moved.to_cpu)))
            }
            Event::Woken(woken) => {
                let who = words::thread(Some(woken.comm), woken.tid, usize::MAX, style);
                let what = if woken.new { "begins, made by" } else { "is woken by" };
                let waker = words::thread((context.name_of)(woken.waker_tid), woken.waker_tid, usize::MAX, style);
                let running = if woken.running { ", while it runs" } else { "" };
                ('w', Line::of(Ink::Dim, format!("{who} {what} {waker}{running}")))
            }
            Event::Lost { events, .. } => {
                let lost = format!("! {} lost: the ring buffer was full", units::counted(*events, "event"));
                ('!', Line::of(Ink::Warning, lost))
            }
            Event::Unseen { came, leaves, .. } => {
                let name = |tid| words::thread((context.name_of)(tid), tid, usize::MAX, style);
                let unseen =
                    format!("! {} leaves, where {} had come: no tracepoint showed it", name(*leaves), name(*came));
                ('!', Line::of(Ink::Warning, unseen))
            }
        };
        self.line(place, self.map.row(event.cpu(), sign), rest, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::from("\n");
        coverage::render(report, &self.style, &mut text);
        out.write_all(text.as_bytes())
    }
}

/// A column for each CPU, in which a sign tells what happened there.
struct Map {
    cpus: Vec<u32>,
    /// There are more CPUs than columns: the last one is for all the others.
    cut: bool,
}

impl Map {
    fn new(cpus: &[u32], most: usize) -> Self {
        let most = most.max(1);
        Self { cpus: cpus.iter().copied().take(most).collect(), cut: cpus.len() > most }
    }

    /// The last digit of each CPU.
    fn title(&self) -> String {
        let digits = self.cpus.iter().map(|cpu| char::from_digit(cpu % 10, 10).unwrap_or('?'));
        let mut title: String = digits.collect();
        if self.cut {
            title.pop();
            title.push('+');
        }
        title
    }

    fn row(&self, cpu: u32, sign: char) -> String {
        let last = self.cpus.len().wrapping_sub(1);
        let own = self.cpus.iter().position(|is| *is == cpu).filter(|place| !self.cut || *place < last);
        let place = own.or(self.cut.then_some(last));
        (0..self.cpus.len()).map(|column| if Some(column) == place { sign } else { ' ' }).collect()
    }
}

fn task(stay: &Stay, _: &Context, width: usize, style: &Style) -> String {
    if stay.task.tid == 0 {
        return "idle".to_owned();
    }
    words::task(stay.task.comm, stay.task.tid, stay.task.pid, width, style)
}

fn duration(ns: Option<u64>, style: &Style) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| units::duration(ns, style.unicode))
}

fn then(stay: &Stay) -> String {
    let word = match (stay.task.tid, stay.leaving) {
        (0, _) => "",
        (_, Leaving::Runnable | Leaving::RunnableYetWakeable) => "waits",
        (_, Leaving::Asleep) => "sleeps",
        (_, Leaving::Dead) => "ends",
    };
    word.to_owned()
}
