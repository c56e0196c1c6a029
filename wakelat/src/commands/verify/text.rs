//! A verification as text: the verdict first, then the evidence.

use wakelat_common::Class;

use super::{
    checks::CheckOutcome,
    compare::{Comparison, Mismatch},
    evaluation::{RulesComparison, Verdict, Verification},
    paired_waits::WaitTally,
};
use wakelat_core::render::{
    style::{Style, TextStyle},
    text_line::{TextLine, left, paragraph, right, width},
    units,
};

/// Renders the verification as text.
pub fn text(verification: &Verification, style: &Style) -> String {
    let mut out = String::new();
    verdict(verification, style, &mut out);
    let title = format!(
        "Linux {}, {}, latency from sched_{}",
        verification.kernel,
        units::duration(verification.duration_ns, style.unicode),
        verification.from.name()
    );
    paragraph(TextLine::new(), TextStyle::Dim, &title, style, &mut out);
    heading("one window by three instruments", style, &mut out);
    instruments(verification, style, &mut out);
    if let Ok(comparison) = &verification.comparison {
        heading("waits by the hist trigger's rules", style, &mut out);
        both_sides(comparison, style, &mut out);
        tolerances(verification, comparison, style, &mut out);
    }
    heading("the same window by wakelat's rules", style, &mut out);
    own_rules(&verification.rules, style, &mut out);
    heading("errors of the hist trigger's rules", style, &mut out);
    wrong_rules(verification, style, &mut out);
    heading("checks without hist triggers", style, &mut out);
    for check in &verification.checks {
        let text_style = if check.outcome == CheckOutcome::Disagree { TextStyle::Warning } else { TextStyle::Strong };
        TextLine::of(text_style, format!("  {}: {}", check.name, check.outcome.name())).finish(style, &mut out);
        paragraph(TextLine::of(TextStyle::Plain, "    "), TextStyle::Plain, &check.found, style, &mut out);
    }
    out
}

fn verdict(verification: &Verification, style: &Style, out: &mut String) {
    let mut line = |text_style: TextStyle, word: &str, text: &str| {
        paragraph(TextLine::of(text_style, format!("{word}: ")), TextStyle::Plain, text, style, out);
    };
    match (verification.verdict(), &verification.comparison) {
        (Verdict::Agree, Ok(comparison)) => line(TextStyle::Strong, "agree", &agreement(comparison)),
        (Verdict::Disagree, comparison) => {
            if let Some(instrument) = verification.differs() {
                line(TextStyle::Warning, "disagree", &instrument.to_string());
            }
            for mismatch in comparison.iter().flat_map(|comparison| &comparison.mismatches) {
                line(TextStyle::Warning, "disagree", &mismatch.to_string());
            }
            for check in verification.checks.iter().filter(|check| check.outcome == CheckOutcome::Disagree) {
                line(
                    TextStyle::Warning,
                    "disagree",
                    &format!("the check `{}` found a difference; its numbers are below", check.name),
                );
            }
        }
        (_, comparison) => {
            if let Err(why) = comparison {
                line(TextStyle::Warning, "not compared", &why.to_string());
            }
            let agree = verification.checks.iter().filter(|check| check.outcome == CheckOutcome::Agree);
            let names: Vec<&str> = agree.map(|check| check.name).collect();
            if !names.is_empty() {
                line(TextStyle::Strong, "agree", &format!("checks without hist triggers: {}", names.join(", ")));
            }
        }
    }
}

/// The text of the verdict `agree`, with the difference that the tolerance allows.
fn agreement(comparison: &Comparison) -> String {
    let (own, trigger) = (comparison.bpf.count(), comparison.trigger.count());
    match own.abs_diff(trigger) {
        0 => format!("wakelat and the hist trigger counted the same {}", units::counted(own, "wait")),
        apart => format!(
            "wakelat counted {} and the hist trigger {}: they differ only in {} of the {} that ended while counting was \
             switched on or off",
            units::counted(own, "wait"),
            units::thousands(trigger),
            units::thousands(apart),
            units::thousands(comparison.tolerance.waits),
        ),
    }
}

fn heading(text: &str, style: &Style, out: &mut String) {
    out.push('\n');
    TextLine::of(TextStyle::Title, text).finish(style, out);
}

fn both_sides(comparison: &Comparison, style: &Style, out: &mut String) {
    let mut rows =
        vec![(TextStyle::Dim, ["latency", "wakelat", "trigger", "moved", "explained"].map(str::to_owned).to_vec())];
    for row in &comparison.rows {
        let is_here =
            |mismatch: &Mismatch| matches!(mismatch, Mismatch::Moved { edge_ns, .. } if *edge_ns == row.range.1);
        rows.push((
            if comparison.mismatches.iter().any(is_here) { TextStyle::Warning } else { TextStyle::Plain },
            vec![
                format!("{} {}", style.pick("≤", "<="), units::bound(row.range.1, style.unicode)),
                units::thousands(row.bpf),
                units::thousands(row.trigger),
                signed(row.moved),
                units::thousands(row.explained),
            ],
        ));
    }
    let (own, trigger) = (&comparison.bpf, &comparison.trigger);
    let mut total = |(text_style, name): (TextStyle, &str), own: String, trigger: String| {
        rows.push((text_style, vec![name.to_owned(), own, trigger, String::new(), String::new()]));
    };
    total((TextStyle::Strong, "all"), units::thousands(own.count()), units::thousands(trigger.count()));
    if let (Some(own_ns), Some(trigger_ns)) = (own.sum_ns, trigger.sum_ns) {
        let time = |ns: u128| units::duration(ns, style.unicode);
        total(total_time(comparison.compares_sums(), TextStyle::Strong), time(own_ns), time(trigger_ns));
    }
    if own.totals.dropped + trigger.totals.dropped > 0 {
        total(
            (TextStyle::Strong, "dropped"),
            units::thousands(own.totals.dropped),
            units::thousands(trigger.totals.dropped),
        );
    }
    columns(&rows, style, out);
}

fn tolerances(verification: &Verification, comparison: &Comparison, style: &Style, out: &mut String) {
    let mut line = |text: &str| paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, text, style, out);
    line(&format!(
        "moved: waits that are above the row's limit in one result and not in the other; explained: how many can be, \
         because of clock readings {} apart and {} delayed between two readings",
        units::exact(comparison.clock_ns, style.unicode),
        units::counted(comparison.tolerance.held_up, "wait"),
    ));
    if comparison.tolerance.waits > 0 {
        line(&format!(
            "{} ended while counting was switched on or off, which took {}, and may be in one result only, so the total \
             times are not compared",
            units::counted(comparison.tolerance.waits, "wait"),
            units::duration(verification.switching_ns, style.unicode),
        ));
    }
}

/// The instruments side by side. The queue clock measures by wakelat's rules and the hist trigger by its own, so each is
/// next to what the tracepoints measure by the same rules.
fn instruments(verification: &Verification, style: &Style, out: &mut String) {
    const NONE: &str = "-";
    const CLASSES: [(Class, &str); 3] =
        [(Class::Wakeup, "after a wakeup"), (Class::Preempted, "after a preemption"), (Class::New, "of new tasks")];
    let time = |ns: u128| units::duration(ns, style.unicode);
    let cells = |name: &str, numbers: [Option<String>; 3]| {
        let numbers = numbers.into_iter().map(|number| number.unwrap_or_else(|| NONE.to_owned()));
        (TextStyle::Plain, std::iter::once(name.to_owned()).chain(numbers).collect::<Vec<_>>())
    };
    let title = ["", "tracepoints", "queue clock", "hist trigger"].map(str::to_owned).to_vec();
    let mut rows = vec![(TextStyle::Dim, title)];
    let mut has_uncompared = false;
    let tracepoints = match &verification.classes {
        Some(classes) => classes.tracepoints,
        None => verification.rules.classes.map(|tally| (tally.count, tally.sum_ns)),
    };
    let queue_clock = verification.classes.map(|classes| classes.queue_clock);
    let count = |class: Class| {
        let of = |counts: [(u64, u128); 3]| units::thousands(counts[class as usize].0);
        [Some(of(tracepoints)), queue_clock.map(of), None]
    };
    rows.extend(CLASSES.map(|(class, name)| cells(name, count(class))));
    let all = |counts: [(u64, u128); 3]| units::thousands(counts.iter().map(|(count, _)| count).sum::<u64>());
    let all_ns = |counts: [(u64, u128); 3]| time(counts.iter().map(|(_, sum_ns)| sum_ns).sum());
    rows.push(cells("all waits", [Some(all(tracepoints)), queue_clock.map(all), None]));
    // The two clocks are read at different points. Without a queue clock, nothing is beside the figure.
    let mut times = |compared: bool, times: [Option<String>; 3], rows: &mut Vec<_>| {
        let (text_style, name) = total_time(compared, TextStyle::Plain);
        rows.push((text_style, cells(name, times).1));
        has_uncompared |= !compared;
    };
    times(queue_clock.is_none(), [Some(all_ns(tracepoints)), queue_clock.map(all_ns), None], &mut rows);
    if let Ok(comparison) = &verification.comparison {
        let (own, trigger) = (&comparison.bpf, &comparison.trigger);
        let both = [Some(units::thousands(own.count())), None, Some(units::thousands(trigger.count()))];
        rows.push(cells("by trigger's rules", both));
        times(comparison.compares_sums(), [own.sum_ns.map(time), None, trigger.sum_ns.map(time)], &mut rows);
    }
    columns(&rows, style, out);
    if has_uncompared {
        let text = "in parentheses: not compared; the numbers of waits are";
        paragraph(TextLine::of(TextStyle::Dim, "  "), TextStyle::Dim, text, style, out);
    }
}

/// The look and the name of a row of total times: of those that are `compared`, `text_style`.
fn total_time(compared: bool, text_style: TextStyle) -> (TextStyle, &'static str) {
    if compared { (text_style, "total time") } else { (TextStyle::Dim, "(total time)") }
}

fn own_rules(rules: &RulesComparison, style: &Style, out: &mut String) {
    let mut rows = vec![titles()];
    rows.push(waits("waits after a wakeup", rules.of(Class::Wakeup), style));
    rows.push(waits("waits after a preemption", rules.of(Class::Preempted), style));
    rows.push(waits("first waits of new tasks", rules.of(Class::New), style));
    columns(&rows, style, out);
}

fn wrong_rules(verification: &Verification, style: &Style, out: &mut String) {
    let rules = &verification.rules;
    let mut rows = vec![titles()];
    rows.push(events("wakeups of running tasks", rules.already_running));
    rows.push(events("wakeups of waiting tasks", rules.already_queued));
    if let Some(tables) = &verification.tables {
        rows.push(waits("bogus waits", &rules.bogus, style));
        rows.push(waits("waits cut short", &rules.restarted, style));
        rows.push(waits("waits missed", &rules.unknown, style));
        rows.push(events("events dropped", tables.iter().map(|table| table.dropped).sum()));
        rows.push(waits("delayed readings", &rules.held_up, style));
    }
    columns(&rows, style, out);
}

fn titles() -> (TextStyle, Vec<String>) {
    (TextStyle::Dim, ["", "count", "longest", "total"].map(str::to_owned).to_vec())
}

fn waits(name: &str, tally: &WaitTally, style: &Style) -> (TextStyle, Vec<String>) {
    let time = |ns: u128| if tally.count == 0 { String::new() } else { units::duration(ns, style.unicode) };
    let count = units::thousands(tally.count);
    (TextStyle::Plain, vec![name.to_owned(), count, time(tally.max_ns.into()), time(tally.sum_ns)])
}

/// A row for events, which have a count but no length.
fn events(name: &str, count: u64) -> (TextStyle, Vec<String>) {
    (TextStyle::Plain, vec![name.to_owned(), units::thousands(count), String::new(), String::new()])
}

/// Writes a table with left-aligned names and right-aligned numbers. A narrow terminal gets only the first
/// columns.
fn columns(rows: &[(TextStyle, Vec<String>)], style: &Style, out: &mut String) {
    let count = rows.first().map_or(0, |(_, cells)| cells.len());
    let widths: Vec<usize> =
        (0..count).map(|column| rows.iter().map(|(_, cells)| width(&cells[column])).max().unwrap_or(0)).collect();
    let ends = widths.iter().scan(0, |end, width| {
        *end += 2 + width;
        Some(*end)
    });
    let shown = ends.take_while(|end| *end <= style.columns()).count().max(1);
    for (text_style, cells) in rows {
        let mut line = TextLine::new();
        for (column, (text, columns)) in cells.iter().zip(&widths).take(shown).enumerate() {
            let text = if column == 0 { left(text, *columns, style) } else { right(text, *columns) };
            line.push(*text_style, format!("  {text}"));
        }
        line.finish(style, out);
    }
}

fn signed(number: i128) -> String {
    let sign = match number {
        0 => "",
        _ if number < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}", units::thousands(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify::{evaluation::tests::rich, not_compared::NotCompared};

    fn shown(verification: &Verification, width: usize) -> String {
        text(verification, &Style { unicode: true, width, ..Style::default() })
    }

    fn disagreeing() -> Verification {
        let mut verification = rich();
        let comparison = verification.comparison.as_mut().unwrap();
        comparison.mismatches = vec![
            Mismatch::Count { bpf: 400, trigger: 412, tolerated: 3 },
            Mismatch::Moved { edge_ns: 32_768, moved: 14, explained: 5 },
        ];
        verification.checks[0].outcome = CheckOutcome::Disagree;
        verification
    }

    fn queue_clock_differs() -> Verification {
        let mut verification = rich();
        verification.checks[2].outcome = CheckOutcome::Disagree;
        verification
    }

    #[test]
    fn the_first_line_names_the_instrument_that_differs() {
        let text = shown(&queue_clock_differs(), 200);
        assert_eq!(
            text.lines().next(),
            Some("disagree: the queue clock differs from the tracepoints, which agree with the hist triggers")
        );
    }

    fn not_compared() -> Verification {
        Verification { comparison: Err(NotCompared::NoHistTriggers), tables: None, ..rich() }
    }

    #[test]
    fn the_verdict_comes_before_its_evidence() {
        insta::assert_snapshot!("agree", shown(&rich(), 80));
        insta::assert_snapshot!("disagree", shown(&disagreeing(), 80));
        insta::assert_snapshot!("not_compared", shown(&not_compared(), 80));
        insta::assert_snapshot!("narrow", shown(&rich(), 40));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_name_is_cut() {
        for verification in [rich(), disagreeing(), not_compared()] {
            for columns in [40, 60, 80, 200] {
                for line in shown(&verification, columns).lines() {
                    assert!(width(line) <= columns && !line.contains('…'), "{columns}: `{line}`");
                }
            }
        }
    }

    #[test]
    fn total_times_that_are_not_compared_are_marked() {
        let named = |verification: &Verification, name: &str| {
            let text = shown(verification, 200);
            text.lines().filter(|line| line.trim_start().starts_with(name)).count()
        };
        let mut verification = rich();
        assert_eq!(["total time", "(total time)", "in parentheses"].map(|name| named(&verification, name)), [0, 3, 1]);
        verification.comparison.as_mut().unwrap().tolerance.waits = 0;
        assert_eq!(["total time", "(total time)", "in parentheses"].map(|name| named(&verification, name)), [2, 1, 1]);
        verification.classes = None;
        assert_eq!(["total time", "(total time)", "in parentheses"].map(|name| named(&verification, name)), [3, 0, 0]);
    }

    #[test]
    fn wakeups_and_dropped_events_have_a_count_and_no_length() {
        let shown = shown(&rich(), 80);
        for (name, count) in [("wakeups of running tasks", 3), ("wakeups of waiting tasks", 1), ("events dropped", 0)] {
            let line = shown.lines().find(|line| line.contains(name)).unwrap();
            assert_eq!(line.trim_start_matches([' ']).strip_prefix(name).unwrap().trim(), count.to_string());
        }
    }

    #[test]
    fn a_difference_within_the_tolerance_is_reported() {
        let text = shown(&rich(), 200);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "agree: wakelat counted 400 waits and the hist trigger 412: they differ only in 12 of the 25 that ended while \
             counting was switched on or off"
        );
    }
}
