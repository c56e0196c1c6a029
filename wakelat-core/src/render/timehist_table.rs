//! Renders `trace --all` for people: a line for each slice, as it ends, and for each event between.

use std::io::{self, Write};

use super::{
    EventRenderer, RenderContext,
    columns::{self, Column, Columns, GAP},
    coverage, labels,
    style::{Style, TextStyle},
    text_line::TextLine,
    units,
};
use crate::{
    files::own_number,
    report::Report,
    timeline::timehist::{SchedLine as Event, Slice},
};

/// A table of slices and other scheduling events.
pub struct SliceTable {
    style: Style,
    prefix: Columns<Event>,
    cpu_map: CpuMap,
    columns: Columns<Slice>,
}

/// The time and the CPU, in front of every line.
const PREFIX_COLUMNS: [Column<Event>; 2] = [
    Column::time(|event, context, _, style| columns::time(event.at_ns(), context, style)),
    Column::cpu(|event, _, _, _| own_number(event.cpu()).to_string()),
];

/// The column for the recording, in front of them.
const FILE: [Column<Event>; 1] = [Column::file(|event, _, width, style| columns::file(event.cpu(), width, style))];

const COLUMNS: [Column<Slice>; 6] = [
    Column { title: "task", min_width: 13, max_width: 33, align_right: false, style: TextStyle::Plain, cell: task },
    Column {
        title: "off cpu",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Plain,
        cell: |slice, _, _, style| duration(slice.off_cpu_ns, style),
    },
    Column::latency(|slice, _, _, style| duration(slice.wait.map(|wait| wait.latency_ns), style)),
    Column {
        title: "run",
        min_width: 8,
        max_width: 9,
        align_right: true,
        style: TextStyle::Plain,
        cell: |slice, _, _, style| duration(slice.run_ns, style),
    },
    Column {
        title: "state",
        min_width: 8,
        max_width: 8,
        align_right: false,
        style: TextStyle::Dim,
        cell: |slice, _, _, _| prev_state(slice),
    },
    Column {
        title: "next",
        min_width: 14,
        max_width: 23,
        align_right: false,
        style: TextStyle::Plain,
        cell: |slice, _, width, style| labels::thread(Some(slice.next.comm), slice.next.tid, width, style),
    },
];

/// The columns to drop if the terminal is too narrow, first to last.
const DROP_ORDER: [&str; 4] = ["next", "state", "off cpu", "latency"];

/// Minimum width of the task, the run time and one more column, in columns of the terminal.
const MIN_WIDTH: usize = 13 + GAP + 8 + GAP + 8;

impl SliceTable {
    /// Creates a table. Each of the CPUs in `map` has a column, as far as they fit beside task, latency and
    /// run time.
    pub fn new(map: &[u32], style: Style) -> Self {
        let file = if style.files.are_several() { &FILE[..] } else { &[] };
        let prefix = Columns::new(file.iter().chain(&PREFIX_COLUMNS), &["cpu"], MIN_WIDTH + GAP, style.clone());
        let prefix_width = prefix.titles().width() + GAP;
        let most =
            if style.terminal { style.columns().saturating_sub(prefix_width + GAP + MIN_WIDTH) } else { usize::MAX };
        let cpu_map = CpuMap::new(map, most);
        let taken = prefix_width + if cpu_map.cpus.is_empty() { 0 } else { cpu_map.cpus.len() + GAP };
        Self { columns: Columns::new(&COLUMNS, &DROP_ORDER, taken, style.clone()), prefix, cpu_map, style }
    }

    fn line(&self, prefix: TextLine, map: String, rest: TextLine, out: &mut dyn Write) -> io::Result<()> {
        let gap = " ".repeat(GAP);
        let mut line = prefix.and(TextStyle::Plain, &gap);
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
        let prefix = self.prefix.cells(event, context);
        let style = &self.style;
        let (sign, rest) = match event {
            Event::Slice(slice) => (if slice.task.tid == 0 { 'i' } else { 's' }, self.columns.cells(slice, context)),
            Event::Migration(migration) => {
                let who = labels::thread(Some(migration.comm), migration.tid, usize::MAX, style);
                let waits = if migration.waiting { ", while waiting" } else { "" };
                (
                    'm',
                    TextLine::of(
                        TextStyle::Dim,
                        format!("{who} migrates to CPU {}{waits}", own_number(migration.to_cpu)),
                    ),
                )
            }
            Event::Wakeup(wakeup) => {
                let who = labels::thread(Some(wakeup.comm), wakeup.tid, usize::MAX, style);
                let what = if wakeup.new { "is created by" } else { "is woken by" };
                let waker = labels::thread(context.names.comm(wakeup.waker_tid), wakeup.waker_tid, usize::MAX, style);
                let running = if wakeup.running { ", while running" } else { "" };
                ('w', TextLine::of(TextStyle::Dim, format!("{who} {what} {waker}{running}")))
            }
            Event::Lost { events, .. } => {
                let lost = format!("! {} lost: the ring buffer was full", units::counted(*events, "event"));
                ('!', TextLine::of(TextStyle::Warning, lost))
            }
            Event::Unseen { expected, switched_out, .. } => {
                let name = |tid| labels::thread(context.names.comm(tid), tid, usize::MAX, style);
                let unseen = format!(
                    "! {} switches out after {} had switched in: no tracepoint showed the switch between them",
                    name(*switched_out),
                    name(*expected)
                );
                ('!', TextLine::of(TextStyle::Warning, unseen))
            }
        };
        self.line(prefix, self.cpu_map.row(event.cpu(), sign), rest, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        coverage::write_below(report, &self.style, out)
    }
}

/// A column for each CPU. A character in it shows what happened on that CPU.
struct CpuMap {
    cpus: Vec<u32>,
    /// Whether there are more CPUs than columns. The last column is then for all the others.
    truncated: bool,
}

impl CpuMap {
    fn new(cpus: &[u32], most: usize) -> Self {
        Self { cpus: cpus.iter().copied().take(most).collect(), truncated: cpus.len() > most && most > 0 }
    }

    /// The heading: the last digit of the number of each CPU.
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
        let own = self.cpus.iter().position(|is| *is == cpu).filter(|position| !self.truncated || *position < last);
        let position = own.or(self.truncated.then_some(last));
        (0..self.cpus.len()).map(|column| if Some(column) == position { sign } else { ' ' }).collect()
    }
}

fn task(slice: &Slice, _: &RenderContext, width: usize, style: &Style) -> String {
    if slice.task.tid == 0 {
        return "idle".to_owned();
    }
    labels::task(slice.task.comm, slice.task.tid, slice.task.pid, width, style)
}

fn duration(ns: Option<u64>, style: &Style) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| units::duration(ns, style.unicode))
}

fn prev_state(slice: &Slice) -> String {
    if slice.task.tid == 0 { String::new() } else { labels::prev_state(slice.prev_state).to_owned() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use wakelat_common::pending_wait::PrevState;

    use super::*;
    use crate::{
        render::{
            OutputFormat,
            schema_tests::text_of,
            testing::{START_NS, report},
            tests::{ascii, terminal},
        },
        timeline::{
            event::{MigrationEvent, TaskInfo, WakeupEvent},
            timehist::tests::{task, waited},
        },
        wait::Comm,
    };

    /// A slice with all fields known.
    pub(crate) fn slice(cpu: u32, tid: u32, run_ns: u64, prev_state: PrevState) -> Event {
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
            prev_state,
            next: task(4711),
        }))
    }

    /// An event of each kind, and a slice with as little known as possible.
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
        let names = BTreeMap::from([(77, Comm::new(b"bash"))]);
        let context = RenderContext { unix_offset_ns: report.unix_offset_ns, names: &names };
        let mut out = Vec::new();
        let mut renderer = format.events(map, style);
        renderer.head(&mut out).unwrap();
        events.iter().for_each(|event| renderer.event(event, &context, &mut out).unwrap());
        renderer.end(&report, &mut out).unwrap();
        text_of(format, out)
    }

    #[test]
    fn every_event_has_a_line() {
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
            let widest = text.lines().map(crate::render::text_line::width).max().unwrap();
            prop_assert!(widest <= width, "{} of {}: {}", widest, width, text);
        }
    }
}
