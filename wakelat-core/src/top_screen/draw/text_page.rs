//! Pages of text: whether the figures can be trusted, and the keys.

use ratatui::style::Style;

use super::context::Context;
use crate::{
    render::{Style as TextStyle, coverage, style, text_line, units},
    report::{CoverageTerms, Report, SwitchInTerms},
    timeline::component::Component,
    top_screen::{canvas::Canvas, data::wait_sum::WaitFigures, look::Look, state::list_position::ListPosition},
    why::render::labels,
};

/// Draws lines of text, from the first visible one on.
pub fn draw(canvas: &mut Canvas<'_>, lines: &[String], position: &mut ListPosition) {
    let height = canvas.height();
    for (y, at) in position.scrolled(lines.len(), height).enumerate() {
        let line = &lines[at];
        let look = canvas.look;
        let style = match line.strip_prefix('#') {
            Some(_) => look.title(),
            None if line.starts_with("! ") => look.warning(),
            None => Style::new(),
        };
        canvas.text((0, y), line.strip_prefix('#').unwrap_or(line), style);
    }
}

/// Whether the figures can be trusted, in plain words.
pub fn trust(context: &Context<'_>, width: usize) -> Vec<String> {
    let style = TextStyle { width, ..context.style.clone() };
    let mut out = String::new();
    let mut say = |sentence: &str| {
        text_line::paragraph(text_line::TextLine::new(), style::TextStyle::Plain, sentence, &style, &mut out);
    };
    let total = &context.measured.total;
    if let Some(report) = context.report {
        sentences(report, context, &mut say);
    } else {
        say("No interval has ended yet: how many waits were lost is not known.");
    }
    let figures: Vec<_> = total.waits.values().map(|sum| &sum.figures).collect();
    let all = WaitFigures::sum_of(&figures);
    let unexplained = all.components[Component::Unexplained as usize];
    say(&match unexplained {
        0 => "Every nanosecond of the waits has a cause.".to_owned(),
        ns => format!("{} of the time of the waits is unexplained.", units::share(ns, all.ns)),
    });
    if !context.settings.not_collected.is_empty() {
        say(&format!("Not separated from run time: {}.", context.settings.not_collected.join(", ")));
    }
    say("Counts, sums and the longest wait are exact; percentiles are at most 3.2 % too high.");
    say("Only the largest causes have a name of their own: (others) is the exact rest.");
    if total.merged_waits > 0 {
        let merged = units::counted(total.merged_waits, "wait");
        say(&format!("There was no room for every task: {merged} of those that waited least are in (other)."));
    }
    let mut lines: Vec<String> = vec!["#Can this be trusted?".to_owned()];
    lines.extend(out.lines().map(str::to_owned));
    if let Some(report) = context.report {
        let mut details = String::new();
        coverage::render(report, &TextStyle { colour: false, ..style }, &mut details);
        lines.extend([String::new(), "#The account of all waits".to_owned()]);
        lines.extend(details.lines().map(str::to_owned));
    }
    lines
}

fn sentences(report: &Report, context: &Context<'_>, say: &mut dyn FnMut(&str)) {
    let coverage = &report.coverage;
    let terms = [Some(coverage.wakeups), coverage.preemptions];
    let of = |term: fn(&CoverageTerms) -> u64| terms.iter().flatten().map(term).fold(0, u64::saturating_add);
    let switch_ins = coverage.switch_ins;
    let sum =
        |terms: u64, by_queue: fn(&SwitchInTerms) -> u64| terms.saturating_add(switch_ins.as_ref().map_or(0, by_queue));
    let measured = sum(of(|terms| terms.measured), |terms| terms.measured);
    let seen = sum(of(|terms| terms.seen), |terms| terms.seen);
    let lost = sum(of(CoverageTerms::lost), SwitchInTerms::lost);
    let length = context.time(report.duration_ns);
    let (waits, seen_text) = (units::counted(measured, "wait"), units::thousands(seen));
    let what = if switch_ins.is_some() { "switch-ins" } else { "wakeups and preemptions" };
    say(&format!("{waits} measured in {length}; {seen_text} {what} seen, of which not all begin a wait."));
    say(&match lost {
        0 => "None was lost: the figures cover all waits.".to_owned(),
        lost => format!(
            "{} lost ({}): the figures lack them. The account below says why, and what helps.",
            units::counted(lost, "wait"),
            units::share(lost, seen)
        ),
    });
    if let Some(lost @ 1..) = coverage.events_lost {
        say(&format!(
            "{} of the timeline lost: the causes of waits at that time are unexplained.",
            units::counted(lost, "event")
        ));
    }
    match report.sampling {
        Some(sampling) if sampling.one_in_most > 1 => say(&format!(
            "Only 1 task in {} was measured, at random, to limit the overhead: counts and sums are of these tasks.",
            sampling.one_in_most
        )),
        _ => say("All tasks that the filter accepts were measured, all of the time."),
    }
    if let Some(overhead) = &report.overhead {
        let capacity_ns = overhead.capacity_ns(report.duration_ns);
        let share = units::small_share(overhead.total_ns(), capacity_ns);
        let cpus = units::counted(overhead.cpus, "CPU");
        say(&format!("Measuring took {share} of the time of {cpus}."));
    }
}

/// The keys, and what the letters of the bars mean.
pub fn help(look: &Look, width: usize) -> Vec<String> {
    /// Columns of the keys.
    const KEYS: usize = 29;
    let keys = [
        ("#Move", ""),
        ("up down PgUp PgDn Home End", "select a row; so does the mouse wheel"),
        ("Tab, Shift+Tab", "the next panel: groups, causes, longest waits"),
        ("Enter, second click", "from a group to its tasks, a task, one of its waits, and its culprit"),
        ("Esc, Backspace", "back"),
        ("#What is shown", ""),
        ("g", "group by task, process, name, cgroup or CPU"),
        ("< >, left right", "sort by another column, as a click on its heading does"),
        ("r", "reverse the order"),
        ("/", "filter: part of a name, or --comm GLOB, --pid N, --tid N, --cgroup PATH, --cpus LIST, --class NAME"),
        ("i", "the last interval, or all since the start"),
        ("t", "a part of the time: left and right move it, [ and ] change its length, Enter keeps it, Esc drops it"),
        ("space", "freeze: measuring goes on, the screen stays"),
        ("#Views", ""),
        ("1", "back to the first page"),
        ("c", "CPUs: what each runs, who waits, for how long"),
        ("v", "can this be trusted? losses, overhead, sampling"),
        ("?", "this page"),
        ("#Files", ""),
        ("s", "save a recording of the last seconds"),
        ("h", "write an HTML report"),
        ("q", "quit"),
        ("#Causes, by their letters", ""),
    ];
    let mut text = String::new();
    let style = TextStyle { width, ..look.text.clone() };
    for (key, what) in keys {
        let head = text_line::TextLine::of(style::TextStyle::Plain, format!("  {key:KEYS$}"));
        match key.strip_prefix('#') {
            Some(_) => text.push_str(&format!("{key}\n")),
            None => text_line::paragraph(head, style::TextStyle::Plain, what, &style, &mut text),
        }
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let letters: Vec<String> = Component::ALL
        .into_iter()
        .map(|component| format!("{} {}", look.component(component).0, labels::component(component)))
        .collect();
    for pair in letters.chunks(3) {
        lines.push(format!("  {}", pair.iter().map(|text| format!("{text:<24}")).collect::<String>().trim_end()));
    }
    lines
}
