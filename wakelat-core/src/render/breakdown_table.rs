//! Renders `trace --breakdown` for people: a line for each wait, with a column for each component of its
//! latency. If the terminal is too narrow for all of them, columns are merged, so that the columns of a
//! line add up to the latency at any width.

use std::io::{self, Write};

use super::{
    BreakdownRenderer, RenderContext,
    columns::{self, Column, Columns, GAP},
    coverage, labels,
    style::{Style, TextStyle},
    units,
};
use crate::{
    files::own_number,
    report::{LatencyFrom, Report},
    timeline::{Breakdown, component::Component},
};

/// A table of waits and the components of their latencies.
pub struct BreakdownTable {
    style: Style,
    columns: Columns<Breakdown>,
}

const WAIT_COLUMNS: [Column<Breakdown>; 5] = [
    Column::time(|breakdown, context, _, style| columns::time(breakdown.ended_wait.wait.at_ns, context, style)),
    Column::cpu(|breakdown, _, _, _| own_number(breakdown.ended_wait.wait.cpu).to_string()),
    Column {
        title: "task",
        min_width: 10,
        max_width: 33,
        align_right: false,
        style: TextStyle::Plain,
        cell: |breakdown, _, width, style| {
            let wait = &breakdown.ended_wait.wait;
            labels::task(wait.comm, wait.tid, wait.pid, width, style)
        },
    },
    Column::class(|breakdown, _, _, _| breakdown.ended_wait.wait.class.name().to_owned()),
    Column::latency(|breakdown, _, _, style| units::duration(breakdown.latency_ns, style.unicode)),
];

/// The column for the recording.
const FILE: [Column<Breakdown>; 1] =
    [Column::file(|breakdown, _, width, style| columns::file(breakdown.ended_wait.wait.cpu, width, style))];

/// The columns to drop if the terminal is too narrow, first to last. Task and latency are always shown.
const DROP_ORDER: [&str; 3] = ["class", "cpu", "time"];

/// A column for the sum of some components.
macro_rules! sum {
    ($title:literal: $($component:ident)+) => {
        Column {
            title: $title,
            min_width: if $title.len() > 8 { $title.len() } else { 8 },
            max_width: if $title.len() > 9 { $title.len() } else { 9 },
            align_right: true,
            style: TextStyle::Plain,
            cell: |breakdown, _, _, style| sum(breakdown, &[$(Component::$component),+], style),
        }
    };
}

/// One column for each component, titled with its name in JSON.
const BY_COMPONENT: [Column<Breakdown>; 12] = [
    sum!("placement": Placement),
    sum!("ipi": Ipi),
    sum!("idle": Idle),
    sum!("higher": Higher),
    sum!("same": Same),
    sum!("lower": Lower),
    sum!("irq": Irq),
    sum!("softirq": Softirq),
    sum!("throttled": Throttled),
    sum!("rt_throttled": RtThrottled),
    sum!("stolen": Stolen),
    sum!("unexplained": Unexplained),
];

/// One column for each kind of cause.
const BY_KIND: [Column<Breakdown>; 7] = [
    sum!("delivery": Placement Ipi),
    sum!("idle": Idle),
    sum!("tasks": Higher Same Lower),
    sum!("interrupts": Irq Softirq),
    sum!("throttled": Throttled RtThrottled),
    sum!("stolen": Stolen),
    sum!("unexplained": Unexplained),
];

const FOUR_COLUMNS: [Column<Breakdown>; 4] = [
    sum!("delivery": Placement Ipi),
    sum!("tasks": Higher Same Lower),
    sum!("interrupts": Irq Softirq),
    sum!("other": Idle Throttled RtThrottled Stolen Unexplained),
];

/// The four columns to show if delivery is not part of the latency.
const FOUR_WITHOUT_DELIVERY: [Column<Breakdown>; 4] = [
    sum!("idle": Idle),
    sum!("tasks": Higher Same Lower),
    sum!("interrupts": Irq Softirq),
    sum!("other": Placement Ipi Throttled RtThrottled Stolen Unexplained),
];

const TWO_COLUMNS: [Column<Breakdown>; 2] = [
    sum!("tasks": Higher Same Lower),
    sum!("other": Placement Ipi Idle Irq Softirq Throttled RtThrottled Stolen Unexplained),
];

/// The column layouts, the most detailed first. Each layout shows every component exactly once.
fn layouts(from: LatencyFrom) -> [&'static [Column<Breakdown>]; 4] {
    match from {
        LatencyFrom::Waking => [&BY_COMPONENT, &BY_KIND, &FOUR_COLUMNS, &TWO_COLUMNS],
        LatencyFrom::Wakeup | LatencyFrom::Queued => {
            [&BY_COMPONENT[2..], &BY_KIND[1..], &FOUR_WITHOUT_DELIVERY, &TWO_COLUMNS]
        }
    }
}

impl BreakdownTable {
    /// Creates a table with the most detailed layout that fits the terminal.
    pub fn new(from: LatencyFrom, style: Style) -> Self {
        let needs =
            |columns: &'static [Column<Breakdown>]| columns.iter().map(|column| column.min_width + GAP).sum::<usize>();
        let droppable: usize = WAIT_COLUMNS
            .iter()
            .filter(|column| DROP_ORDER[..2].contains(&column.title))
            .map(|column| column.min_width + GAP)
            .sum();
        let file: &'static [Column<Breakdown>] = if style.files.are_several() { &FILE } else { &[] };
        let room = (style.columns() + GAP).saturating_sub(needs(file) + needs(&WAIT_COLUMNS) - droppable);
        let layouts = layouts(from);
        let fits = |layout: &&'static [Column<Breakdown>]| !style.terminal || needs(layout) <= room;
        let layout = layouts.into_iter().find(fits).unwrap_or(layouts[layouts.len() - 1]);
        let columns = file.iter().chain(&WAIT_COLUMNS).chain(layout);
        Self { columns: Columns::new(columns, &DROP_ORDER, 0, style.clone()), style }
    }
}

impl BreakdownRenderer for BreakdownTable {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.titles(), &self.style, out)
    }

    fn breakdown(&mut self, breakdown: &Breakdown, context: &RenderContext, out: &mut dyn Write) -> io::Result<()> {
        columns::write(&self.columns.cells(breakdown, context), &self.style, out)
    }

    fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        coverage::write_below(report, &self.style, out)
    }
}

fn sum(breakdown: &Breakdown, components: &[Component], style: &Style) -> String {
    let ns: u64 = components.iter().map(|component| breakdown.component_ns(*component)).sum();
    if ns == 0 { style.pick("·", ".").to_owned() } else { units::duration(ns, style.unicode) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        render::{
            OutputFormat,
            schema_tests::text_of,
            testing,
            tests::{ascii, terminal},
            text_line::width,
        },
        timeline::{
            Timeline,
            event::{Event, InterruptSource},
            testing::{EventStream, fifo, idle, irq, task},
        },
    };

    /// Waits whose latencies have several components.
    fn breakdowns(from: LatencyFrom) -> Vec<Breakdown> {
        const MS: u64 = 1_000_000;
        let begin = testing::START_NS;
        let mut stream = EventStream::default();
        stream.switch(0, begin, task(4711, "cc1plus"));
        stream.interrupt(0, (begin + 2 * MS, begin + 2 * MS + 90_000), irq(24, "nvme0q1"));
        stream.interrupt(0, (begin + 3 * MS, begin + 3 * MS + 12_300), InterruptSource::Softirq(7));
        stream.switch(0, begin + 4 * MS, fifo(99, "irq/24-nvme0q1", 49));
        stream.switch(0, begin + 5 * MS, idle());
        let waited = stream.end_wait(0, (begin + MS, begin + 5_200_000), task(1234, "nginx"));
        (waited.wait.delivery_ns, waited.stolen_ns, waited.throttled_ns) = (Some(2_345), 55_000, Some(400_000));
        stream.end_wait(0, (begin + 5 * MS, begin + 9 * MS), task(1_234_567, "kworker/u16:12"));
        let unknown = stream.end_wait(1, (begin, begin + 3 * MS), task(77, "bash"));
        (unknown.wait.delivery_ns, unknown.remote) = (Some(150_000), true);
        let mut timeline = Timeline::new(from);
        stream.events.iter().filter_map(|event: &Event| timeline.push(event).cloned()).collect()
    }

    fn trace(format: OutputFormat, from: LatencyFrom, style: Style) -> String {
        let context = RenderContext { unix_offset_ns: 0, names: &BTreeMap::new() };
        let mut out = Vec::new();
        let mut renderer = format.breakdowns(from, style);
        renderer.head(&mut out).unwrap();
        breakdowns(from).iter().for_each(|breakdown| renderer.breakdown(breakdown, &context, &mut out).unwrap());
        text_of(format, out)
    }

    #[test]
    fn components_are_columns_at_any_width() {
        let human = |from, style| trace(OutputFormat::Human, from, style);
        assert_snapshot!("parts_pipe", human(LatencyFrom::Waking, Style { terminal: false, ..ascii(80) }));
        for columns in [200, 120, 80, 40] {
            assert_snapshot!(format!("parts_{columns}"), human(LatencyFrom::Waking, terminal(columns)));
        }
        assert_snapshot!("parts_wakeup_160", human(LatencyFrom::Wakeup, terminal(160)));
        assert_snapshot!("parts_wakeup_80", human(LatencyFrom::Wakeup, terminal(80)));
    }

    #[test]
    fn csv_rows_have_the_wait_columns_and_one_for_each_component() {
        let text = trace(OutputFormat::Csv, LatencyFrom::Waking, Style::default());
        assert_snapshot!("parts_csv", text);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let titles = reader.headers().unwrap().clone();
        let latency = titles.iter().position(|title| title == "latency_ns").unwrap();
        for row in reader.records().map(Result::unwrap) {
            let number = |cell: &str| cell.parse::<u64>().unwrap();
            let sum: u64 = row.iter().skip(titles.len() - Component::ALL.len()).map(number).sum();
            assert_eq!(sum, number(&row[latency]), "{row:?}");
        }
    }

    #[test]
    fn a_json_document_has_each_component() {
        for line in trace(OutputFormat::Json, LatencyFrom::Wakeup, Style::default()).lines() {
            let wait: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(wait["schema"], "wakelat.wait/1");
            let fields = wait["components"].as_object().unwrap();
            assert!(fields.keys().map(String::as_str).eq(Component::ALL.into_iter().map(Component::name)), "{line}");
            let sum: u64 = fields.values().map(|ns| ns.as_u64().unwrap()).sum();
            assert_eq!(sum, wait["latency_ns"].as_u64().unwrap(), "{line}");
        }
    }

    #[test]
    fn every_layout_shows_every_component_exactly_once() {
        for from in [LatencyFrom::Wakeup, LatencyFrom::Waking] {
            for breakdown in breakdowns(from) {
                for layout in layouts(from) {
                    // Each nanosecond belongs to exactly one column: a share on its own fills exactly one
                    // cell.
                    for share in breakdown.shares.iter() {
                        let mut one = breakdown.clone();
                        one.shares = vec![*share];
                        let context = RenderContext { unix_offset_ns: 0, names: &BTreeMap::new() };
                        let shown = |column: &&Column<Breakdown>| (column.cell)(&one, &context, 9, &ascii(80)) != ".";
                        assert_eq!(
                            layout.iter().filter(shown).count(),
                            1,
                            "{:?} of {}",
                            share.culprit.component,
                            layout.len()
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(columns in 40..240usize, waking: bool) {
            let from = if waking { LatencyFrom::Waking } else { LatencyFrom::Wakeup };
            for line in trace(OutputFormat::Human, from, terminal(columns)).lines() {
                prop_assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }
}
