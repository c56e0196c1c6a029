//! `trace --all` for people: a line each time a CPU goes from one task to the next, and what happened between.

use std::io::{self, Write};

use wakelat_common::start::PrevState;

use super::{
    EventRenderer, RenderContext,
    columns::{self, Column, Columns, GAP},
    coverage,
    style::{Style, TextStyle},
    text::TextLine,
    units, words,
};
use crate::{
    report::Report,
    timeline::stay::{SchedLine as Event, Slice},
};

/// Lines of stays.
pub struct SliceTable {
    style: Style,
    prefix: Columns<Event>,
    cpu_map: CpuMap,
    columns: Columns<Slice>,
}

/// When and where: in front of every line.
const PREFIX_COLUMNS: [Column<Event>; 2] = [
    Column::time(|event, context, _, style| columns::time(event.at_ns(), context, style)),
    Column::cpu(|event, _, _, _| event.cpu().to_string()),
];

const COLUMNS: [Column<Slice>; 6] = [
    Column { title: "task", min_width: 13, max_width: 33, align_right: false, style: TextStyle::Plain, cell: task },
    Column {
        title: "off cpu",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Plain,
        cell: |stay, _, _, style| duration(stay.off_cpu_ns, style),
    },
    Column {
        title: "latency",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Strong,
        cell: |stay, _, _, style| duration(stay.wait.map(|wait| wait.latency_ns), style),
    },
    Column {
        title: "run",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Plain,
        cell: |stay, _, _, style| duration(stay.run_ns, style),
    },
    Column {
        title: "then",
        min_width: 6,
        max_width: 6,
        align_right: false,
        style: TextStyle::Dim,
        cell: |stay, _, _, _| prev_state(stay),
    },
    Column {
        title: "next",
        min_width: 14,
        max_width: 23,
        align_right: false,
        style: TextStyle::Plain,
        cell: |stay, _, width, style| words::thread(Some(stay.next.comm), stay.next.tid, width, style),
    },
];

/// What goes where room is short, first to last.
const DROP_ORDER: [&str; 4] = ["next", "then", "off cpu", "latency"];

/// What is left then, and one more.
const MIN_WIDTH: usize = 13 + GAP + 8 + GAP + 8;

impl SliceTable {
    /// Chooses the columns. Each of the CPUs in `map` has one, as far as there is room beside task, latency and run.
    pub fn new(map: &[u32], style: Style) -> Self {
        let prefix = Columns::new(&PREFIX_COLUMNS, &["cpu"], MIN_WIDTH + GAP, style.clone());
        let place = prefix.titles().width() + GAP;
        let most = if style.terminal { style.columns().saturating_sub(place + GAP + MIN_WIDTH) } else { usize::MAX };
        let cpu_map = CpuMap::new(map, most);
        let taken = place + if cpu_map.cpus.is_empty() { 0 } else { cpu_map.cpus.len() + GAP };
        Self { columns: Columns::new(&COLUMNS, &DROP_ORDER, taken, style.clone()), prefix, cpu_map, style }
    }

    fn line(&self, place: TextLine, map: String, rest: TextLine, out: &mut dyn Write) -> io::Result<()> {
        let gap = " ".repeat(GAP);
        let mut line = place.and(TextStyle::Plain, &gap);
        if !map.is_empty() {
            line.push(TextStyle::Bar, map);
            line.push(TextStyle::Plain, gap);
        }
        line.append(rest);
        columns::write(&line, &self.style, out)
    }
}

impl EventRenderer for SliceTable {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line(self.prefix.titles(), self.cpu_map.title(), self.columns.titles(), out)
    }

    fn event(&mut self, event: &Event, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        let place = self.prefix.cells(event, context);
        let style = &self.style;
        let (sign, rest) = match event {
            Event::Slice(stay) => (if stay.task.tid == 0 { 'i' } else { 's' }, self.columns.cells(stay, context)),
            Event::Migration(moved) => {
                let who = words::thread(Some(moved.comm), moved.tid, usize::MAX, style);
                let waits = if moved.waiting { ", while it waits" } else { "" };
                ('m', TextLine::of(TextStyle::Dim, format!("{who} moves to CPU {}{waits}", moved.to_cpu)))
            }
            Event::Wakeup(woken) => {
                let who = words::thread(Some(woken.comm), woken.tid, usize::MAX, style);
                let what = if woken.new { "begins, made by" } else { "is woken by" };
                let waker = words::thread((context.name_of)(woken.waker_tid), woken.waker_tid, usize::MAX, style);
                let running = if woken.running { ", while it runs" } else { "" };
                ('w', TextLine::of(TextStyle::Dim, format!("{who} {what} {waker}{running}")))
            }
            Event::Lost { events, .. } => {
                let lost = format!("! {} lost: the ring buffer was full", units::counted(*events, "event"));
                ('!', TextLine::of(TextStyle::Warning, lost))
            }
            Event::Unseen { expected: came, switched_out: leaves, .. } => {
                let name = |tid| words::thread((context.name_of)(tid), tid, usize::MAX, style);
                let unseen =
                    format!("! {} leaves, where {} had come: no tracepoint showed it", name(*leaves), name(*came));
                ('!', TextLine::of(TextStyle::Warning, unseen))
            }
        };
        self.line(place, self.cpu_map.row(event.cpu(), sign), rest, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        coverage::write_below(report, &self.style, out)
    }
}

/// A column for each CPU, in which a sign tells what happened there.
struct CpuMap {
    cpus: Vec<u32>,
    /// There are more CPUs than columns: the last one is for all the others.
    truncated: bool,
}

impl CpuMap {
    fn new(cpus: &[u32], most: usize) -> Self {
        Self { cpus: cpus.iter().copied().take(most).collect(), truncated: cpus.len() > most && most > 0 }
    }

    /// The last digit of each CPU.
    fn title(&self) -> String {
        let digits = self.cpus.iter().map(|cpu| char::from_digit(cpu % 10, 10).unwrap_or('?'));
        let mut title: String = digits.collect();
        if self.truncated {
            title.pop();
            title.push('+');
        }
        title
    }

    fn row(&self, cpu: u32, sign: char) -> String {
        let last = self.cpus.len().wrapping_sub(1);
        let own = self.cpus.iter().position(|is| *is == cpu).filter(|place| !self.truncated || *place < last);
        let place = own.or(self.truncated.then_some(last));
        (0..self.cpus.len()).map(|column| if Some(column) == place { sign } else { ' ' }).collect()
    }
}

fn task(stay: &Slice, _: &RenderContext, width: usize, style: &Style) -> String {
    if stay.task.tid == 0 {
        return "idle".to_owned();
    }
    words::task(stay.task.comm, stay.task.tid, stay.task.pid, width, style)
}

fn duration(ns: Option<u64>, style: &Style) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| units::duration(ns, style.unicode))
}

fn prev_state(stay: &Slice) -> String {
    let word = match (stay.task.tid, stay.prev_state) {
        (0, _) => "",
        (_, PrevState::Runnable | PrevState::PreemptedSleeping) => "waits",
        (_, PrevState::Sleeping) => "sleeps",
        (_, PrevState::Dead) => "ends",
    };
    word.to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        sink::{
            OutputFormat,
            fixtures::{START_NS, report},
            tests::{ascii, terminal},
        },
        timeline::{
            event::{MigrationEvent, TaskInfo, WakeupEvent},
            stay::tests::{task, waited},
        },
        wait::Comm,
    };

    /// A stay of which everything is known.
    pub(crate) fn slice(cpu: u32, tid: u32, run_ns: u64, leaving: PrevState) -> Event {
        let until_ns = START_NS + 789_012_345;
        let waited = waited(tid, until_ns - run_ns, 3_100_000, 1).wait;
        let named = TaskInfo { comm: Comm::new(b"nginx"), pid: tid - 4, ..task(tid) };
        Event::Slice(Box::new(Slice {
            cpu,
            until_ns,
            task: named,
            run_ns: Some(run_ns),
            off_cpu_ns: Some(8_000_000),
            wait: Some(waited),
            prev_state: leaving,
            next: task(4711),
        }))
    }

    /// One of each kind, and a stay of which nothing is known.
    pub(crate) fn events() -> Vec<Event> {
        let at_ns = START_NS + 789_100_000;
        let comm = Comm::new(b"nginx");
        let woken = |new, running, waker_tid| {
            Event::Wakeup(WakeupEvent { at_ns, tid: 1234, comm, new, running, target_cpu: 1, waker_tid })
        };
        let idle = Slice {
            cpu: 1,
            until_ns: at_ns,
            task: task(0),
            run_ns: Some(2_000_000),
            off_cpu_ns: None,
            wait: None,
            prev_state: PrevState::Runnable,
            next: task(1234),
        };
        let unknown =
            Slice { cpu: 12, task: task(1_234_567), run_ns: None, prev_state: PrevState::Sleeping, ..idle.clone() };
        vec![
            slice(0, 1234, 120_500, PrevState::Sleeping),
            Event::Slice(Box::new(idle)),
            Event::Slice(Box::new(unknown)),
            slice(1, 1234, 950, PrevState::PreemptedSleeping),
            slice(2, 1234, 4_000_000_000, PrevState::Dead),
            Event::Migration(MigrationEvent { at_ns, tid: 1234, comm, waiting: true, from_cpu: 0, to_cpu: 1 }),
            Event::Migration(MigrationEvent { at_ns, tid: 1234, comm, waiting: false, from_cpu: 0, to_cpu: 1 }),
            woken(false, false, 77),
            woken(true, false, 0),
            woken(false, true, 78),
            Event::Lost { cpu: 1, at_ns, events: 1_200 },
            Event::Unseen { cpu: 0, at_ns, expected: 77, switched_out: 1234 },
        ]
    }

    pub(crate) fn show(format: OutputFormat, map: &[u32], events: &[Event], style: Style) -> String {
        let report = report(Vec::new());
        let name_of = |tid| (tid == 77).then(|| Comm::new(b"bash"));
        let context = RenderContext { unix_offset_ns: report.unix_offset_ns, name_of: &name_of };
        let mut out = Vec::new();
        let mut sink = format.events(map, style);
        sink.head(&mut out).unwrap();
        events.iter().for_each(|event| sink.event(event, &context, &mut out).unwrap());
        sink.end(&report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_event_has_its_line() {
        let wide: Vec<u32> = (0..100).collect();
        insta::assert_snapshot!(
            "events_pipe",
            show(OutputFormat::Human, &[], &events(), Style { terminal: false, ..ascii(80) })
        );
        insta::assert_snapshot!("events_120", show(OutputFormat::Human, &[0, 1, 2, 3], &events(), terminal(120)));
        insta::assert_snapshot!("events_80", show(OutputFormat::Human, &wide, &events(), terminal(80)));
        let style = Style { timestamps: true, ..terminal(44) };
        insta::assert_snapshot!("events_44", show(OutputFormat::Human, &[0, 12], &events(), style));
    }

    #[test]
    fn in_json_and_csv_every_event_has_the_same_fields() {
        let json = show(OutputFormat::Json, &[], &events(), Style::default());
        insta::assert_snapshot!("events_json", json.lines().take(events().len()).collect::<Vec<_>>().join("\n"));
        let text = show(OutputFormat::Csv, &[], &events(), Style::default());
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let titles: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
        assert_eq!(rows.len(), events().len());
        for (row, line) in rows.iter().zip(json.lines()) {
            let fields: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(fields.as_object().unwrap().len(), titles.len() + 1, "the schema, and a column each");
            for (title, cell) in titles.iter().zip(row) {
                let field = &fields[title];
                let text = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
                assert_eq!(cell, if field.is_null() { "" } else { &text }, "{title}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(width in 40..200usize, cpus in 0..300u32, stamped: bool, plain: bool) {
            let map: Vec<u32> = (0..cpus).collect();
            let style = Style { timestamps: stamped, unicode: !plain, ..terminal(width) };
            let text = show(OutputFormat::Human, &map, &events(), style);
            let widest = text.lines().map(crate::sink::text::width).max().unwrap();
            prop_assert!(widest <= width, "{} of {}: {}", widest, width, text);
        }
    }
}
