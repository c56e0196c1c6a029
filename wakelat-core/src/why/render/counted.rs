//! Renders causes that the programs have counted, for people: the largest cause, all causes, the groups, which group
//! waited for which, and the coverage.

use crate::{
    render::{
        Style, coverage,
        style::TextStyle,
        text_line::{TextLine, clean, flow, left, paragraph, right, width},
        units,
    },
    report::Report,
    why::counted::{
        CauseGroups, CauseTime,
        summary::{CauseShares, CountedCause, CountedSummary, PairCauses},
    },
};

/// Maximum number of groups shown; the largest are shown.
const MAX_GROUPS: usize = 8;

/// Maximum number of pairs shown; the largest are shown.
const MAX_PAIRS: usize = 8;

/// Maximum number of causes shown for a group.
const MAX_CAUSES: usize = 3;

/// Width of a column of numbers.
const FIGURE: usize = 10;

/// Width of the three columns of numbers of a [`FigureTable`].
const FIGURES: usize = 3 * FIGURE;

/// The least width of a name in a row of the table of pairs.
const SHORTEST_NAME: usize = 8;

/// Renders the causes and the report of the same window. `limit_flag`: the flag that limits the number of groups.
pub fn text(summary: &CountedSummary, report: &Report, limit_flag: &str, style: &Style) -> String {
    let mut out = String::new();
    if summary.all.waits > 0 {
        finding(summary, style, &mut out);
        causes(summary, style, &mut out);
        groups(summary, style, &mut out);
        pairs(summary, style, &mut out);
    }
    division(summary, limit_flag, style, &mut out);
    // Its groups and their percentiles are not shown.
    coverage::render(&Report { groups: Vec::new(), ..report.clone() }, style, &mut out);
    out
}

/// What a group is called.
fn group_noun(by: CauseGroups) -> &'static str {
    match by {
        CauseGroups::Cgroups => "cgroup",
        CauseGroups::Containers => "container",
        CauseGroups::Names => "name",
    }
}

/// The name of a cause for people.
fn label(cause: CountedCause, by: CauseGroups) -> String {
    let group = group_noun(by);
    match cause {
        CountedCause::OwnGroup => format!("own {group}"),
        CountedCause::OtherGroups => format!("other {group}s"),
        CountedCause::System => "system (no container)".to_owned(),
        CountedCause::KernelThreads => "kernel threads".to_owned(),
        CountedCause::Higher => "higher class or priority".to_owned(),
        CountedCause::Idle => "exit from idle".to_owned(),
        CountedCause::Interrupts => "interrupts".to_owned(),
        CountedCause::Stolen => "steal time".to_owned(),
        CountedCause::Throttled => "quota throttling".to_owned(),
        CountedCause::OtherQueue => "on another CPU's queue".to_owned(),
        CountedCause::UntrackedGroup => format!("untracked {group}s"),
        CountedCause::BeforeHistory => "before the history".to_owned(),
        CountedCause::Unseen => "unseen switches".to_owned(),
    }
}

/// The largest pair of a cause.
fn largest(summary: &CountedSummary, cause: CountedCause) -> Option<&PairCauses> {
    summary.pairs.iter().find(|pair| pair.cause == cause)
}

/// The cause with the most time in one sentence, and its largest pair.
pub(super) fn evidence(summary: &CountedSummary, style: &Style) -> Option<String> {
    let (cause, time) = summary.causes.first()?;
    let of_all = units::share_of(time.ns, summary.all.sum_ns);
    let total = units::duration(time.ns, style.unicode);
    let mut text = format!("{}: {} of the waiting time ({total})", label(*cause, summary.by), of_all.trim());
    if let Some(pair) = largest(summary, *cause) {
        let (waiting, running) = (clean(&pair.waiting, style), clean(&pair.running, style));
        let waited = units::duration(pair.time.ns, style.unicode);
        text += &match cause {
            CountedCause::OwnGroup => format!("; {waiting} waited {waited} for its own tasks"),
            _ => format!("; {waiting} waited {waited} for {running}"),
        };
    }
    Some(text)
}

fn finding(summary: &CountedSummary, style: &Style, out: &mut String) {
    if let Some(text) = evidence(summary, style) {
        let mark = TextLine::of(TextStyle::Title, style.pick("▸ ", "> "));
        paragraph(mark, TextStyle::Strong, &text, style, out);
        out.push('\n');
    }
}

/// Appends the table of causes.
fn causes(summary: &CountedSummary, style: &Style, out: &mut String) {
    let names: Vec<String> = summary.causes.iter().map(|(cause, _)| label(*cause, summary.by)).collect();
    let name = names.iter().map(|name| width(name)).max().unwrap_or(0).max("cause".len());
    let table = FigureTable { fits: 2 + name + FIGURES <= style.columns(), total_ns: summary.all.sum_ns };
    table.title(format!("  {}", left("cause", name, style)), String::new(), style, out);
    for (label, (_, time)) in names.iter().zip(&summary.causes) {
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", left(label, name, style)));
        if !table.fits {
            std::mem::take(&mut line).finish(style, out);
            line = TextLine::of(TextStyle::Plain, "  ");
        }
        table.figures(line, time, style).finish(style, out);
    }
    out.push('\n');
}

/// A table with three figures and one or two names in each row. If a row does not fit the terminal, its names have a line
/// of their own, so that no figure is cut.
struct FigureTable {
    fits: bool,
    /// The sum of all waits, of which the shares are: ns.
    total_ns: u128,
}

impl FigureTable {
    /// Appends the titles of the columns: those of the figures between `before` and `after`.
    fn title(&self, before: String, after: String, style: &Style, out: &mut String) {
        let (before, after) = if self.fits { (before, after) } else { ("  ".to_owned(), String::new()) };
        let figures = ["sum", "share", "waits"].map(|title| right(title, FIGURE)).concat();
        TextLine::of(TextStyle::Dim, format!("{before}{figures}{after}")).finish(style, out);
    }

    /// Appends the figures to a line.
    fn figures(&self, line: TextLine, time: &CauseTime, style: &Style) -> TextLine {
        line.and(TextStyle::Plain, right(&units::duration(time.ns, style.unicode), FIGURE))
            .and(TextStyle::Strong, right(&units::share_of(time.ns, self.total_ns), FIGURE))
            .and(TextStyle::Dim, right(&units::short(time.waits), FIGURE))
    }
}

/// The largest causes of a group: `other cgroups 81.0 %, exit from idle 12.1 %`.
fn in_short(causes: &CauseShares, of_ns: u128, by: CauseGroups) -> String {
    let shown = causes.iter().take(MAX_CAUSES);
    let shown = shown.map(|(cause, time)| format!("{} {}", label(*cause, by), units::share_of(time.ns, of_ns).trim()));
    shown.collect::<Vec<_>>().join(", ")
}

/// Appends the groups, each with its distribution and its causes.
fn groups(summary: &CountedSummary, style: &Style, out: &mut String) {
    let time = |ns: u64| units::duration(ns, style.unicode);
    for group in summary.groups.iter().take(MAX_GROUPS) {
        let name = group.name.as_ref().map_or_else(|| "(other)".to_owned(), |name| clean(name, style));
        let total = &group.total;
        let pieces = [
            units::counted(total.waits, "wait"),
            format!("{} in total", units::duration(total.sum_ns, style.unicode)),
            format!("p50 {} {}", style.pick("≤", "<="), time(total.quantile_bound_ns(500))),
            format!("p99 {} {}", style.pick("≤", "<="), time(total.quantile_bound_ns(990))),
            format!("longest {}", time(total.max_ns)),
        ];
        let pieces: Vec<TextLine> = std::iter::once(TextLine::of(TextStyle::Title, name))
            .chain(pieces.map(|text| TextLine::of(TextStyle::Plain, text)))
            .collect();
        flow(TextLine::new(), pieces, style.pick(" · ", " | "), style, out);
        let causes = in_short(&group.causes, total.sum_ns, summary.by);
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Plain, &causes, style, out);
    }
    if let Some(hidden) = summary.groups.len().checked_sub(MAX_GROUPS).filter(|hidden| *hidden > 0) {
        let text = format!("{} not shown; `--json` lists them", units::counted(hidden as u64, "more group"));
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, &text, style, out);
    }
    out.push('\n');
}

/// Appends which group waited for which.
fn pairs(summary: &CountedSummary, style: &Style, out: &mut String) {
    if summary.pairs.is_empty() {
        return;
    }
    let room = style.columns().saturating_sub(2 + FIGURES + 2);
    let table = FigureTable { fits: room >= 2 * SHORTEST_NAME, total_ns: summary.all.sum_ns };
    // A row that does not fit has its names in a line of their own, indented.
    let room = if table.fits { room } else { style.columns().saturating_sub(4) };
    let (waiting, running) = (room / 2, room - room / 2);
    let titles = format!("  {}{}", left("waited", waiting, style), left("for", running, style).trim_end());
    table.title("  ".to_owned(), titles, style, out);
    for pair in summary.pairs.iter().take(MAX_PAIRS) {
        let suffix = match pair.cause {
            CountedCause::Higher => " (higher)",
            CountedCause::KernelThreads => " (kernel)",
            _ => "",
        };
        let other = end_of(&pair.running, running.saturating_sub(suffix.len()), style);
        let line = table.figures(TextLine::of(TextStyle::Plain, "  "), &pair.time, style);
        if table.fits {
            let name = left(&end_of(&pair.waiting, waiting.saturating_sub(1), style), waiting.saturating_sub(1), style);
            line.and(TextStyle::Plain, format!("  {name} {other}{suffix}")).finish(style, out);
        } else {
            let name = end_of(&pair.waiting, waiting.saturating_sub(" for ".len()), style);
            line.finish(style, out);
            TextLine::of(TextStyle::Plain, format!("    {name} for {other}{suffix}")).finish(style, out);
        }
    }
    out.push('\n');
}

/// A name in at most this many columns. Of a long one, the end is kept: paths of cgroups differ there.
fn end_of(name: &str, columns: usize, style: &Style) -> String {
    let name = clean(name, style);
    if width(&name) <= columns {
        return name;
    }
    let mark = style.pick("…", "...");
    let room = columns.saturating_sub(width(mark));
    let from = name.char_indices().map(|(at, _)| at).find(|at| width(&name[*at..]) <= room).unwrap_or(name.len());
    format!("{mark}{}", &name[from..])
}

/// Appends what the causes are based on, and what is missing from them.
fn division(summary: &CountedSummary, limit_flag: &str, style: &Style, out: &mut String) {
    let of_all = |cause| {
        let found = summary.causes.iter().find(|(one, _)| *one == cause);
        units::share_of(found.map_or(0, |(_, time)| time.ns), summary.all.sum_ns)
    };
    let pieces = [
        format!("of {}", units::counted(summary.all.waits, "wait")),
        format!("{} in total", units::duration(summary.all.sum_ns, style.unicode)),
        format!("{} before the history", of_all(CountedCause::BeforeHistory).trim()),
    ];
    let pieces = pieces.map(|text| TextLine::of(TextStyle::Plain, text)).into_iter().collect();
    flow(TextLine::of(TextStyle::Dim, "causes: "), pieces, "; ", style, out);
    let mut note =
        |text: String| paragraph(TextLine::of(TextStyle::Dim, "note: "), TextStyle::Plain, &text, style, out);
    if !summary.not_separated.is_empty() {
        let causes: Vec<String> = summary.not_separated.iter().map(|cause| label(*cause, summary.by)).collect();
        note(format!("this kernel does not separate {} from what ran", causes.join(", ")));
    }
    let beyond_limit = summary.groups_merged.saturating_sub(summary.groups_without_path);
    if beyond_limit > 0 {
        note(format!("{} merged into (other); `{limit_flag}` has more", units::counted(beyond_limit, "group")));
    }
    if summary.groups_without_path > 0 {
        let groups = units::counted(summary.groups_without_path, "group");
        note(format!("{groups} merged into (other): removed before the path was read, or with too long a path"));
    }
    if summary.pairs_lost > 0 {
        let parts = units::counted(summary.pairs_lost, "part");
        note(format!("{parts} of waits had no room in a table of pairs: their time is in other pairs, or in none"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::testing::report,
        why::counted::summary::{
            SummaryLimits,
            testing::{one_neighbour, totals},
        },
    };

    #[test]
    fn the_largest_cause_comes_first_and_lines_fit_the_terminal() {
        let style = Style { width: 80, unicode: true, ..Style::default() };
        let text = text(&one_neighbour(), &report(Vec::new()), "--max-groups", &style);
        assert!(text.starts_with("▸ other cgroups: 74.4 % of the waiting time (9.0 ms)"), "{text}");
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_higher_limit_is_suggested_only_for_groups_beyond_it() {
        let notes = |groups_merged, groups_without_path, pairs_lost| -> Vec<String> {
            let summary = CountedSummary { groups_merged, groups_without_path, pairs_lost, ..one_neighbour() };
            let text = text(&summary, &report(Vec::new()), "--max-series", &Style { width: 200, ..Style::default() });
            text.lines().filter(|line| line.contains("merged") || line.contains("pairs")).map(str::to_owned).collect()
        };
        let removed = "note: 3 groups merged into (other): removed before the path was read, or with too long a path";
        assert_eq!(notes(3, 3, 0), [removed]);
        let limited = "note: 1 group merged into (other); `--max-series` has more";
        assert_eq!(notes(4, 3, 0), [limited, removed]);
        let lost = "note: 2 parts of waits had no room in a table of pairs: their time is in other pairs, or in none";
        assert_eq!(notes(0, 0, 2), [lost]);
    }

    #[test]
    fn no_figure_is_cut_in_a_narrow_terminal() {
        let style = Style { width: 40, unicode: true, ..Style::default() };
        let text = text(&one_neighbour(), &report(Vec::new()), "--max-groups", &style);
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
        for figures in ["      9.0 ms    74.4 %         2\n", "     40.0 µs     0.3 %         1\n"] {
            assert!(text.contains(figures), "{text}");
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_window_without_waits_has_only_its_coverage() {
        let names =
            crate::why::counted::summary::GroupNames { by: CauseGroups::Names, names: &crate::why::testing::TestNames };
        let text = text(
            &totals(&[]).into_summary(&names, SummaryLimits::groups(1), &[]),
            &report(Vec::new()),
            "--max-groups",
            &Style::default(),
        );
        assert!(text.starts_with("causes: of 0 waits"), "{text}");
    }
}
