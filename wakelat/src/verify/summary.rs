//! What a verification found, and how people read it.

use wakelat_common::Class;

use super::{
    checks::{Check, Outcome},
    compare::Comparison,
    show,
    waits::{Own, Tally},
};
use crate::{
    hist_trigger::Totals,
    report::From,
    sink::{
        style::{Ink, Style},
        text::{Line, paragraph, right, width},
        units,
    },
};

/// What a verification found.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The kernel's release.
    pub kernel: String,
    /// The length of the window: ns.
    pub duration_ns: u64,
    /// Where the clock started.
    pub from: From,
    /// Both sides; none where the kernel has no hist triggers.
    pub comparison: Option<Comparison>,
    /// Why there is no comparison.
    pub no_triggers: Option<String>,
    /// Totals of the triggers' tables of starts, of ends and of latencies.
    pub tables: Option<[Totals; 3]>,
    /// How long it took to switch counting on and off: ns. What ended meanwhile one side alone may have.
    pub switching_ns: u64,
    /// The same window under both sets of rules.
    pub rules: Rules,
    /// The checks that need no trigger.
    pub checks: Vec<Check>,
}

/// The same window under wakelat's rules, and what the trigger's make of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The waits.
    pub own: Own,
    /// Wakeups of a task that was running: nothing waits, but the trigger starts its clock.
    pub woken_running: u64,
    /// Wakeups of a task that waited already: the trigger starts its clock again.
    pub woken_waiting: u64,
}

impl Verification {
    /// Whether all that could be compared agrees.
    pub fn agrees(&self) -> bool {
        self.comparison.as_ref().is_none_or(Comparison::agrees)
            && self.checks.iter().all(|check| check.outcome != Outcome::Disagree)
    }
}

/// The verification for people.
pub fn text(verification: &Verification, style: &Style) -> String {
    let mut out = String::new();
    let unicode = style.unicode;
    let title = format!(
        "linux {}, {}, latency from sched_{}",
        verification.kernel,
        units::duration(verification.duration_ns, unicode),
        match verification.from {
            From::Wakeup => "wakeup",
            From::Waking => "waking",
        }
    );
    Line::of(Ink::Strong, title).end(style, &mut out);
    out.push('\n');
    heading("wakelat under the trigger's rules, and the kernel's hist trigger", style, &mut out);
    match (&verification.comparison, &verification.no_triggers) {
        (Some(comparison), _) => {
            out.push_str(&show::text(comparison, style));
            switching(verification, comparison, style, &mut out);
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("there is nothing to compare with");
            paragraph(Line::of(Ink::Warning, "  not compared: "), Ink::Plain, why, style, &mut out);
        }
    }
    out.push('\n');
    heading("the same window under wakelat's own rules", style, &mut out);
    rules(verification, style, &mut out);
    out.push('\n');
    heading("checks that need no trigger", style, &mut out);
    for check in &verification.checks {
        let ink = if check.outcome == Outcome::Disagree { Ink::Warning } else { Ink::Strong };
        let head = Line::of(ink, format!("  {} {}: ", check.name, check.outcome.name()));
        paragraph(head, Ink::Plain, &check.found, style, &mut out);
    }
    out.push('\n');
    let (ink, verdict) = match (verification.agrees(), &verification.comparison) {
        (false, _) => (Ink::Warning, "the numbers do not agree"),
        (true, Some(_)) => (Ink::Strong, "the numbers agree"),
        (true, None) => (Ink::Strong, "the checks that this kernel allows agree"),
    };
    Line::of(ink, verdict).end(style, &mut out);
    out
}

fn heading(text: &str, style: &Style, out: &mut String) {
    Line::of(Ink::Strong, text).end(style, out);
}

fn switching(verification: &Verification, comparison: &Comparison, style: &Style, out: &mut String) {
    let text = format!(
        "{} ended while counting was switched on or off, which took {}; {} may have been held up between two readings",
        units::counted(comparison.tolerance.waits, "wait"),
        units::duration(verification.switching_ns, style.unicode),
        units::thousands(comparison.tolerance.held_up),
    );
    paragraph(Line::of(Ink::Plain, "  "), Ink::Plain, &text, style, out);
    let Some(tables) = &verification.tables else { return };
    for (name, totals) in ["starts", "ends", "latencies"].into_iter().zip(tables) {
        let text = format!(
            "table of {name}: {} hits, {} entries, {} dropped",
            units::thousands(totals.hits),
            units::thousands(totals.entries),
            units::thousands(totals.dropped)
        );
        paragraph(Line::of(Ink::Dim, "  "), Ink::Dim, &text, style, out);
    }
}

fn rules(verification: &Verification, style: &Style, out: &mut String) {
    let Rules { own, woken_running, woken_waiting } = &verification.rules;
    let mut rows = vec![["", "count", "sum", "longest", ""].map(str::to_owned)];
    let mut row = |name: &str, tally: &Tally, note: &str| {
        let time = |ns: u128| if tally.count == 0 { String::new() } else { units::duration(ns, style.unicode) };
        rows.push([
            name.to_owned(),
            units::thousands(tally.count),
            time(tally.sum_ns),
            time(tally.max_ns.into()),
            note.to_owned(),
        ]);
    };
    let only = |count: u64| Tally { count, ..Tally::default() };
    let compared = verification.comparison.is_some();
    row("waits after a wakeup", &own.classes[Class::Wakeup as usize], "");
    row("first waits of new tasks", &own.classes[Class::New as usize], "the trigger does not see them");
    row("waits after a preemption", &own.classes[Class::Preempted as usize], "the trigger does not see them");
    row("wakeups of running tasks", &only(*woken_running), "the trigger starts its clock, though nothing waits");
    row("wakeups of waiting tasks", &only(*woken_waiting), "the trigger starts its clock again");
    if compared {
        row("bogus waits of the trigger", &own.bogus, "from a start that such a wakeup left behind");
        row("clocks restarted", &own.restarted, "by how much the trigger's waits are too short");
        row("waits the trigger lost", &own.unknown, "known to wakelat alone");
        let dropped = verification.tables.iter().flatten().map(|table| table.dropped).sum();
        row("events dropped", &only(dropped), "there was no room in one of the trigger's tables");
    }
    let widths: [usize; 5] =
        std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0));
    for (index, row) in rows.iter().enumerate() {
        let ink = if index == 0 { Ink::Dim } else { Ink::Plain };
        let name = format!("  {}{}", row[0], " ".repeat(widths[0] - width(&row[0])));
        let mut line = Line::of(ink, name);
        for column in 1..4 {
            line.push(ink, format!("  {}", right(&row[column], widths[column])));
        }
        line.push(Ink::Dim, format!("  {}", row[4]));
        line.end_within(usize::MAX, style, out);
    }
}
