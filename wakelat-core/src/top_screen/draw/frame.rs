//! What is around a page: names of the pages, what is selected, the time bar, and the keys.

use ratatui::style::Style;

use super::{
    chart::{interval_at, is_shown},
    context::{Context, pieces_before},
};
use crate::{
    render::{
        text_line::{clean, fit, width},
        units,
    },
    top_screen::{
        canvas::Canvas,
        state::{
            filter_line::FilterLine,
            hit::{Hit, Panel},
            page::{GroupsPage, ScreenPage},
            time_bar::TimeBar,
        },
        view::selection::TimeSpan,
    },
};

/// Draws the first line: the names of the pages, and where the waits come from.
pub fn head(canvas: &mut Canvas<'_>, context: &Context<'_>, page: &ScreenPage) {
    let look = canvas.look;
    let pages = [('1', "groups"), ('c', "CPUs"), ('v', "trust"), ('?', "help")];
    let is_open = |key: char| match page {
        ScreenPage::Groups(_) | ScreenPage::Wait(_) => key == '1',
        ScreenPage::Cpus(_) => key == 'c',
        ScreenPage::Trust(_) => key == 'v',
        ScreenPage::Help(_) => key == '?',
    };
    let mut x = canvas.text((0, 0), "wakelat top", look.title()) + 1;
    for (key, name) in pages {
        let begin = x;
        x = canvas.text((x, 0), &format!(" {key} "), look.key());
        x = canvas.text((x, 0), name, if is_open(key) { look.selected() } else { Style::new() });
        canvas.on_click((begin, 0), x - begin, Hit::Key(key));
    }
    let room = canvas.width().saturating_sub(x + 2);
    let source = fit(&clean(&context.settings.source, context.style), room, context.style);
    let end = canvas.width();
    canvas.right((end, 0), &source, look.dim());
}

/// Draws the second line: what is shown.
pub fn status(canvas: &mut Canvas<'_>, context: &Context<'_>, page: &ScreenPage, filter: &FilterLine, is_frozen: bool) {
    let look = canvas.look;
    let measured = context.measured;
    let length = |(from_ns, to_ns): (u64, u64)| context.time(to_ns.saturating_sub(from_ns));
    let (start_ns, now_ns) = (measured.start_ns.unwrap_or(0), measured.now_ns);
    let span = match context.span {
        TimeSpan::All => format!("since the start: {}", length((start_ns, now_ns))),
        TimeSpan::Last => format!("last interval: {}", length(measured.last.span_ns)),
        TimeSpan::Between(from_ns, to_ns) => {
            let (from_ns, to_ns) = (from_ns.max(start_ns), to_ns.min(now_ns.max(from_ns)));
            format!("from {} to {}", context.since_start(from_ns), context.since_start(to_ns))
        }
    };
    let mut texts = vec![span];
    if let ScreenPage::Groups(GroupsPage { scope, table: Some(table), .. }) = page {
        let of = scope.iter().map(|group| group.name(context.names, context.style)).collect::<Vec<_>>().join(", ");
        let (one, several) = table.grouping.name();
        texts.push(if of.is_empty() { format!("by {one}") } else { format!("{several} of {of}") });
    }
    let is_filtered = matches!(page, ScreenPage::Groups(page) if !page.is_unfiltered) && !filter.text().is_empty();
    if is_filtered {
        texts.push(format!("filter: {}", clean(filter.text(), context.style)));
    }
    let lost = context.report.map_or(0, |report| {
        let coverage = &report.coverage;
        let terms = coverage.wakeups.lost().saturating_add(coverage.preemptions.map_or(0, |terms| terms.lost()));
        terms.saturating_add(coverage.switch_ins.map_or(0, |terms| terms.lost()))
    });
    let mut warnings = Vec::new();
    if is_frozen {
        warnings.push("frozen".to_owned());
    }
    if lost > 0 {
        warnings.push(format!("! {} lost (v)", units::thousands(lost)));
    }
    let warnings = warnings.join(look.dot());
    // What is wrong comes first: other texts have the room that it leaves.
    let end = if warnings.is_empty() { canvas.width() } else { canvas.width().saturating_sub(width(&warnings) + 2) };
    pieces_before(canvas, (0, 0), end, &texts, Style::new());
    if !warnings.is_empty() {
        canvas.right((canvas.width(), 0), &format!("  {warnings}"), look.warning());
    }
}

/// Draws the bar of the time: how long tasks waited, and which part is shown.
pub fn time_bar(canvas: &mut Canvas<'_>, context: &Context<'_>, bar: &TimeBar) {
    let (look, columns) = (canvas.look, canvas.width());
    let intervals = &context.measured.intervals;
    let of = |column: usize| -> u64 {
        let numbers = interval_at(context, column, columns);
        let begin = intervals.partition_point(|(number, _)| *number < numbers.start);
        let inside = intervals[begin..].iter().take_while(|(number, _)| *number < numbers.end);
        inside.map(|(_, table)| table.ns).fold(0, u64::saturating_add)
    };
    let waits: Vec<u64> = (0..columns).map(of).collect();
    let most = waits.iter().copied().max().unwrap_or(0).max(1);
    for (x, ns) in waits.iter().enumerate() {
        let level = (u128::from(*ns) * 8).div_ceil(u128::from(most)) as usize;
        canvas.set((x, 0), look.level(level), look.bar());
        let is_shown = is_shown(context, x, columns);
        let (shown, hidden) = look.pick(('═', '─'), ('=', '-'));
        let style = if is_shown && bar.has_keys { look.selected() } else { look.dim() };
        canvas.set((x, 1), if is_shown { shown } else { hidden }, style);
    }
}

/// Draws the last line: the filter, a message, or the keys.
pub fn foot(canvas: &mut Canvas<'_>, page: &ScreenPage, filter: &FilterLine, bar: &TimeBar, message: Option<&str>) {
    let look = canvas.look;
    if let Some(typed) = filter.typed() {
        let text = clean(typed, &look.text);
        // The end of a long filter stays visible.
        let room = canvas.width().saturating_sub(4);
        let skipped = width(&text).saturating_sub(room);
        let text: String = text.chars().skip(skipped).collect();
        let x = canvas.line((0, 0), &[("/", look.key()), (&text, Style::new()), ("_", look.dim())]);
        let note = filter.error().map(|error| clean(error, &look.text));
        let (note, style) = match &note {
            Some(error) => (error.as_str(), look.warning()),
            None => ("Enter keeps it, Esc drops it", look.dim()),
        };
        canvas.text((x + 2, 0), note, style);
        return;
    }
    if let Some(message) = message {
        canvas.text((0, 0), &clean(message, &look.text), look.title());
        return;
    }
    let keys: &[(&str, &str)] = match page {
        _ if bar.has_keys => &[
            (look.pick("←→", "left/right"), "move"),
            ("[ ]", "shorter, longer"),
            ("Enter", "keep"),
            ("Esc", "all of the time"),
        ],
        ScreenPage::Groups(GroupsPage { table: Some(_), panel: Panel::Groups, .. }) => &[
            ("Enter", "open"),
            ("Tab", "panel"),
            ("/", "filter"),
            ("g", "group"),
            ("< >", "sort"),
            ("?", "help"),
            ("q", "quit"),
            ("t", "time"),
            ("i", "interval"),
            ("space", "freeze"),
            ("s", "save"),
            ("h", "HTML report"),
            ("r", "reverse"),
        ],
        ScreenPage::Groups(_) => &[
            ("Enter", "open"),
            ("Tab", "panel"),
            ("Esc", "back"),
            ("/", "filter"),
            ("?", "help"),
            ("q", "quit"),
            ("i", "interval"),
            ("t", "time"),
            ("space", "freeze"),
        ],
        ScreenPage::Wait(_) => &[("Enter", "go to the culprit"), ("Esc", "back"), ("?", "help"), ("q", "quit")],
        ScreenPage::Cpus(_) => &[
            ("Enter", "tasks of the CPU"),
            ("Esc", "back"),
            ("i", "interval"),
            ("t", "time"),
            ("space", "freeze"),
            ("?", "help"),
            ("q", "quit"),
        ],
        ScreenPage::Trust(_) | ScreenPage::Help(_) => {
            &[(look.pick("↑↓", "up/down"), "scroll"), ("Esc", "back"), ("q", "quit")]
        }
    };
    let mut x = 0;
    for (key, what) in keys {
        let needs = width(key) + 1 + width(what);
        if x + needs > canvas.width() {
            break;
        }
        x = canvas.line((x, 0), &[(key, look.key()), (" ", Style::new()), (what, look.dim())]) + 2;
    }
}
