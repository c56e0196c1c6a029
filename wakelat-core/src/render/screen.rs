//! Fits a report to a terminal with a given number of rows, where it replaces the previous one. Pure.

use super::{
    Style,
    style::TextStyle,
    text_line::{TextLine, fit},
    timestamps, units,
};
use crate::report::Report;

/// The line above the report: the time that it covers.
pub fn head(report: &Report, last_only: bool, style: &Style) -> String {
    let length = units::duration(report.duration_ns, style.unicode);
    let since = timestamps::time_of_day(report.start_unix_ns, &style.zone);
    let since = since.split('.').next().unwrap_or_default();
    let text = if last_only { format!("last {length}") } else { format!("all since {since} ({length})") };
    let mut out = String::new();
    TextLine::of(TextStyle::Dim, fit(&text, style.columns(), style)).finish(style, &mut out);
    out
}

/// Calls `render` for as many groups as fit into `rows` lines, but at most `most`. At least a third of the
/// lines is for groups. If the lines below the groups do not fit into the rest, the last ones are cut, and
/// the last line shows how many.
pub fn fitting(rows: usize, most: usize, style: &Style, render: impl Fn(usize) -> String) -> String {
    let lines = |text: &str| text.lines().count();
    let least = (rows / 3).clamp(1, most.max(1));
    let mut groups = most.clamp(1, rows.max(1));
    let mut text = render(groups);
    while lines(&text) > rows && groups > least {
        groups -= (lines(&text) - rows).min(groups - least);
        text = render(groups);
    }
    if lines(&text) <= rows {
        return text;
    }
    let kept = rows.saturating_sub(1);
    let left_out = units::counted((lines(&text) - kept) as u64, "more line");
    let mut cut: String = text.lines().take(kept).flat_map(|line| [line, "\n"]).collect();
    let sign = format!("{} {left_out}: the terminal is too small", style.pick("…", "..."));
    TextLine::of(TextStyle::Warning, sign).finish(style, &mut cut);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{
        OutputFormat, ReportView,
        tests::{many_groups, show, terminal},
        top_table::Sort,
    };

    /// A table of many groups, with every kind of loss below it.
    fn screen(columns: usize, rows: usize) -> String {
        let mut report = many_groups(60);
        let terms = &mut report.coverage.wakeups;
        (terms.task_table_full, terms.ring_buffer_full, terms.invalid, terms.missed_switch) = (1, 2, 3, 4);
        report.coverage.missed = Some(5);
        let style = terminal(columns);
        let head = head(&report, false, &style);
        let render = |limit| {
            let view = ReportView::Table { sort: Sort::Max, limit: Some(limit) };
            format!("{head}{}", show(OutputFormat::Human, view, &report, style.clone()))
        };
        fitting(rows, usize::MAX, &style, render)
    }

    #[test]
    fn the_headings_stay_on_the_screen_whatever_is_below_the_table() {
        for (columns, rows) in [(80, 23), (80, 40), (40, 14), (60, 11), (40, 5), (200, 60)] {
            let screen = screen(columns, rows);
            assert!(screen.lines().count() <= rows, "{columns}x{rows}: {screen}");
            let titles = screen.lines().nth(1).unwrap();
            assert!(titles.starts_with("task") && titles.contains("max"), "{columns}x{rows}: {titles}");
            assert!(screen.lines().count() > 2, "{columns}x{rows}: {screen}");
        }
    }

    #[test]
    fn no_row_of_the_screen_is_wasted() {
        assert_eq!(screen(80, 40).lines().count(), 40);
    }

    #[test]
    fn the_first_line_shows_the_time_that_the_figures_cover() {
        let report = many_groups(1);
        let style = terminal(80);
        assert_eq!(head(&report, false, &style).trim_end(), "all since 22:13:20 (10.0 s)");
        assert!(head(&report, true, &style).starts_with("last "));
        assert!(head(&report, true, &terminal(40)).chars().count() <= 41);
    }
}
