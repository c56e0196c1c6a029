//! Renders `top` for people: a line of figures for each group.

use std::{
    cmp::Reverse,
    io::{self, Write},
};

use super::{
    ReportRenderer, ReportView, coverage, labels,
    style::{Style, TextStyle},
    text_line::{TextLine, left, right, width},
    timestamps, units, window,
};
use crate::{
    aggregate::percentile_rank::Percentile,
    report::{Group, Report},
};

/// The column to sort a table by. The order is descending, except for the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The number of waits.
    Waits,
    /// The average latency.
    Avg,
    /// The median latency.
    P50,
    /// The 99th percentile of the latency.
    P99,
    /// The longest latency.
    #[default]
    Max,
    /// The sum of all latencies.
    Sum,
    /// The task, or the key of the groups if that is not a task.
    Task,
}

/// Renders reports as tables.
pub struct Table {
    /// How the text looks.
    pub style: Style,
    /// The column to sort by.
    pub sort: Sort,
    /// Maximum number of groups to show, or `None` for all.
    pub limit: Option<usize>,
}

impl Sort {
    /// All columns, in the order of the table.
    pub const ALL: [Self; 7] = [Self::Task, Self::Waits, Self::Sum, Self::Avg, Self::P50, Self::P99, Self::Max];

    /// The column with this name. `runs` was the name of `waits`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "runs" { "waits" } else { name };
        Self::ALL.into_iter().find(|sort| sort.name() == name)
    }

    /// The name of the column on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Avg => "avg",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Sum => "sum",
            Self::Task => "task",
        }
    }
}

impl ReportRenderer for Table {
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        write(report, self.sort, self.limit, &self.style, out)
    }
}

/// Writes a table of the first `limit` groups by `sort`, the totals of all groups, and the coverage.
pub fn write(report: &Report, sort: Sort, limit: Option<usize>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    window(report, style, &mut text);
    if !report.groups.is_empty() {
        let groups = ReportView::Table { sort, limit }.groups(report, style);
        lines(&groups, report, sort, style, &mut text);
        let left_out = report.groups.len() - groups.len();
        if left_out > 0 {
            let more = units::thousands(left_out as u64);
            TextLine::of(TextStyle::Dim, format!("{} {more} more", style.pick("…", "..."))).finish(style, &mut text);
        }
        totals(report, style, &mut text);
        text.push('\n');
    }
    coverage::render(report, style, &mut text);
    out.write_all(text.as_bytes())
}

/// Sorts groups. Groups with equal values stay in the order of the report.
pub(super) fn order(groups: &mut [&Group], sort: Sort, style: &Style) {
    match sort {
        Sort::Waits => groups.sort_by_key(|group| Reverse(group.distribution.count())),
        Sort::Avg => groups.sort_by_key(|group| Reverse(group.distribution.avg_ns())),
        Sort::P50 => groups.sort_by_cached_key(|group| Reverse(group.distribution.percentile_ns(Percentile::P50))),
        Sort::P99 => groups.sort_by_cached_key(|group| Reverse(group.distribution.percentile_ns(Percentile::P99))),
        Sort::Max => groups.sort_by_key(|group| Reverse(group.distribution.max_ns())),
        Sort::Sum => groups.sort_by_key(|group| Reverse(group.distribution.sum_ns())),
        Sort::Task => groups.sort_by_cached_key(|group| labels::key(&group.key, style)),
    }
}

/// A column to the right of the task.
struct TableColumn {
    title: &'static str,
    /// The corresponding sort key, if the table can be sorted by this column.
    sort: Option<Sort>,
    /// Whether the column is shown however narrow the terminal is. The others are dropped, the last one
    /// first.
    always_shown: bool,
    cell: fn(&Group, &Report, &Style) -> String,
}

impl TableColumn {
    /// Pads `text` to `columns`. Numbers are right-aligned, words left-aligned.
    fn set(&self, text: &str, columns: usize, style: &Style) -> String {
        if self.title == "class" { left(text, columns, style) } else { right(text, columns) }
    }
}

/// In order of importance, the most important first.
const COLUMNS: [TableColumn; 9] = [
    TableColumn {
        title: "max",
        sort: Some(Sort::Max),
        always_shown: true,
        cell: |g, _, s| time(g.distribution.max_ns(), s),
    },
    TableColumn {
        title: "p99",
        sort: Some(Sort::P99),
        always_shown: false,
        cell: |g, _, s| percentile(g, Percentile::P99, s),
    },
    TableColumn {
        title: "waits",
        sort: Some(Sort::Waits),
        always_shown: false,
        cell: |g, _, _| units::thousands(g.distribution.count()),
    },
    TableColumn { title: "class", sort: None, always_shown: false, cell: |g, _, _| g.class.name().to_owned() },
    TableColumn {
        title: "avg",
        sort: Some(Sort::Avg),
        always_shown: false,
        cell: |g, _, s| time(g.distribution.avg_ns(), s),
    },
    TableColumn {
        title: "p50",
        sort: Some(Sort::P50),
        always_shown: false,
        cell: |g, _, s| percentile(g, Percentile::P50, s),
    },
    TableColumn { title: RUN_TIME, sort: None, always_shown: false, cell: run_time },
    TableColumn { title: "max at", sort: None, always_shown: false, cell: max_at },
    TableColumn {
        title: "sum",
        sort: Some(Sort::Sum),
        always_shown: false,
        cell: |g, _, s| time(g.distribution.sum_ns(), s),
    },
];

/// The heading of the column that is shown only if the run time of a task is known.
const RUN_TIME: &str = "run time";

/// The order in which columns are displayed.
const DISPLAY_ORDER: [&str; 9] = ["class", RUN_TIME, "waits", "sum", "avg", "p50", "p99", "max", "max at"];

/// Width of the gap between two columns, in columns of the terminal.
const GAP: usize = 2;

/// Width that the task keeps before another column is dropped, in columns of the terminal.
const TASK: usize = 16;

/// Appends the headings and a line for each group. Columns that do not fit are left out, but never the sort
/// column.
pub(super) fn lines(groups: &[&Group], report: &Report, sort: Sort, style: &Style, out: &mut String) {
    let has_several_classes = labels::several_classes(report);
    let task = |group: &&Group| labels::key(&group.key, style).unwrap_or_else(|| "all tasks".to_owned());
    let tasks: Vec<String> = groups.iter().map(task).collect();
    let task_title = labels::key_title(groups);
    let widest_task = tasks.iter().map(|task| width(task)).max().unwrap_or(0).max(width(&task_title));

    let mut columns: Vec<(&TableColumn, Vec<String>, usize)> = COLUMNS
        .iter()
        .filter(|column| column.title != "class" || has_several_classes)
        .filter(|column| column.title != RUN_TIME || groups.iter().any(|group| group.run_ns.is_some()))
        .map(|column| {
            let cells: Vec<String> = groups.iter().map(|group| (column.cell)(group, report, style)).collect();
            let widest = cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(width(column.title));
            (column, cells, widest)
        })
        .collect();
    let taken =
        |columns: &[(&TableColumn, Vec<String>, usize)]| columns.iter().map(|column| column.2 + GAP).sum::<usize>();
    while taken(&columns) + widest_task.min(TASK) > style.columns() {
        let can_be_dropped =
            |(column, ..): &(&TableColumn, Vec<String>, usize)| !column.always_shown && column.sort != Some(sort);
        let Some(index) = columns.iter().rposition(can_be_dropped) else { break };
        columns.remove(index);
    }
    columns.sort_by_key(|(column, ..)| DISPLAY_ORDER.iter().position(|title| *title == column.title));

    let room = style.columns().saturating_sub(taken(&columns)).clamp(1, widest_task);
    let mut title = TextLine::of(ink(sort == Sort::Task), left(&task_title, room, style));
    for (column, _, widest) in &columns {
        title.push(TextStyle::Plain, " ".repeat(GAP));
        title.push(ink(column.sort == Some(sort)), column.set(column.title, *widest, style));
    }
    title.finish(style, out);
    for (index, task) in tasks.iter().enumerate() {
        let mut line = TextLine::of(TextStyle::Plain, left(task, room, style));
        for (column, cells, widest) in &columns {
            let ink = if column.sort == Some(sort) { TextStyle::Strong } else { TextStyle::Plain };
            line.push(ink, format!("{}{}", " ".repeat(GAP), column.set(&cells[index], *widest, style)));
        }
        line.finish(style, out);
    }
}

/// Appends the totals of all groups.
fn totals(report: &Report, style: &Style, out: &mut String) {
    let waits: u64 = report.groups.iter().map(|group| group.distribution.count()).sum();
    let sum_ns: u128 = report.groups.iter().map(|group| group.distribution.sum_ns()).sum();
    let (groups, waits) = (units::counted(report.groups.len() as u64, "group"), units::counted(waits, "wait"));
    let total = format!("total: {groups}, {waits}, {} of waiting time", time(sum_ns, style));
    super::text_line::paragraph(TextLine::new(), TextStyle::Dim, &total, style, out);
}

fn ink(sorted: bool) -> TextStyle {
    if sorted { TextStyle::Title } else { TextStyle::Dim }
}

fn time(ns: impl Into<u128>, style: &Style) -> String {
    units::duration(ns, style.unicode)
}

fn run_time(group: &Group, _: &Report, style: &Style) -> String {
    group.run_ns.map_or_else(|| "-".to_owned(), |ns| time(ns, style))
}

fn percentile(group: &Group, of: Percentile, style: &Style) -> String {
    labels::percentile(&group.distribution, of, style)
}

fn max_at(group: &Group, report: &Report, style: &Style) -> String {
    let at = |at_ns| timestamps::unix_ns(at_ns, report.unix_offset_ns);
    let text = |at| timestamps::time_beside(at, report.start_unix_ns, &style.zone);
    group.distribution.max().map(|max| text(at(max.at_ns))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::render::{
        OutputFormat,
        output_md::parsed,
        tests::{many_groups, show, terminal},
    };

    use super::*;

    #[test]
    fn each_column_is_found_by_its_name() {
        assert!(Sort::ALL.iter().all(|sort| Sort::from_name(sort.name()) == Some(*sort)));
    }

    #[test]
    fn the_run_time_column_fits_80_columns_and_is_absent_if_no_row_has_it() {
        let mut report = many_groups(2);
        let cells = |report: &Report, columns, line: usize| {
            let view = ReportView::Table { sort: Sort::Max, limit: None };
            let text = show(OutputFormat::Human, view, report, terminal(columns));
            let cells = text.lines().nth(line).unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.map(str::to_owned).collect::<Vec<_>>()
        };
        let others = ["task", "waits", "sum", "avg", "p50", "p99", "max", "max at"];
        assert_eq!(cells(&report, 120, 0), others);
        report.groups[0].run_ns = Some(1_500_000);
        let all = cells(&report, 120, 0);
        assert_eq!((all[1].as_str(), [&all[..1], &all[2..]].concat()), (RUN_TIME, others.map(str::to_owned).to_vec()));
        let mut shown = [1, 2].map(|line| cells(&report, 120, line)[1].clone());
        shown.sort();
        assert_eq!(shown, ["-", "1.5 ms"]);
        for columns in 20..120 {
            let titles = cells(&report, columns, 0);
            let has = |title: &str| titles.iter().any(|found| found == title);
            assert!(has(RUN_TIME) || !(has("sum") || has("max at")), "{columns}: {titles:?}");
        }
        assert!(cells(&report, 80, 0).contains(&all[1]), "{:?}", cells(&report, 80, 0));
        assert!(!cells(&report, 40, 0).contains(&all[1]));
    }

    #[test]
    fn csv_and_json_have_the_groups_of_the_table_and_the_number_left_out() {
        let report = many_groups(5);
        let view = ReportView::Table { sort: Sort::P50, limit: Some(2) };
        let text = show(OutputFormat::Csv, view, &report, Style::default());
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let titles = reader.headers().unwrap().clone();
        let cell = |row: &::csv::StringRecord, title| row[titles.iter().position(|is| is == title).unwrap()].to_owned();
        let rows =
            reader.records().map(|row| row.map(|row| ["comm", "groups_left_out"].map(|title| cell(&row, title))));
        let expected = [["rcu_preempt", "3"], ["ksoftirqd/0", "3"]].map(|row| row.map(str::to_owned));
        assert_eq!(rows.collect::<Result<Vec<_>, _>>().unwrap(), expected);
        let json = parsed(&show(OutputFormat::Json, view, &report, Style::default()));
        let names: Vec<_> = json["groups"].as_array().unwrap().iter().map(|group| &group["key"]["comm"]).collect();
        assert_eq!(names, ["rcu_preempt", "ksoftirqd/0"]);
        assert_eq!(json["groups_left_out"], 3);
        let all = parsed(&show(OutputFormat::Json, ReportView::Chart, &report, Style::default()));
        assert_eq!((all["groups"].as_array().unwrap().len(), &all["groups_left_out"]), (5, &0.into()));
    }
}
