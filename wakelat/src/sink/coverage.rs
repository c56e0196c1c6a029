//! What stands under every view for people: what was counted, what was not, and whether to worry.

use std::io::{self, Write};

use super::{
    style::{Style, TextStyle},
    text::{TextLine, flow, paragraph},
    units::{counted, duration, exact, share, small_share, thousands},
    words,
};
use crate::{
    aggregate::sampled::CONFIDENCE_PERCENT,
    report::{CoverageTerms, Mode, Report, Sampling},
};

/// Writes the coverage of a report: for views that have no place for it, such as a CSV of waits.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    render(report, style, &mut text);
    out.write_all(text.as_bytes())
}

/// Writes the coverage of a report below lines of its own.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_below(report: &Report, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\n")?;
    write(report, style, out)
}

/// Adds the coverage of a report to `out`: why nothing is there, if so; the terms; the threshold; every loss by itself.
pub(crate) fn render(report: &Report, style: &Style, out: &mut String) {
    let coverage = &report.coverage;
    if let Some(nothing) = no_waits_reason(report, style) {
        paragraph(TextLine::new(), TextStyle::Title, &nothing, style, out);
    }
    let filtered = if coverage.filtered_is_own { "of wakelat itself" } else { "excluded by the filter" };
    window(report, style, out);
    // Said once, of both.
    let mut missed_unknown = coverage.missed.is_none();
    if coverage.preemptions.is_none() || coverage.wakeups != CoverageTerms::default() {
        terms("coverage: ", &coverage.wakeups, filtered, std::mem::take(&mut missed_unknown), style, out);
    }
    if let Some(preemptions) = &coverage.preemptions {
        terms("preemptions: ", preemptions, filtered, missed_unknown, style, out);
    }
    if let Some(oldest) = coverage.oldest_waiting {
        let who = words::thread(Some(oldest.comm), oldest.tid, usize::MAX, style);
        let waited = duration(oldest.latency_ns, style.unicode);
        let pieces = [format!("{who},"), format!("for {waited}")].map(|text| TextLine::of(TextStyle::Plain, text));
        flow(TextLine::of(TextStyle::Dim, "waiting longest: "), pieces.into(), " ", style, out);
    }
    threshold(report, style, out);
    if report.mode == Mode::Aggregate && !report.groups.is_empty() {
        let counted = "in the kernel; percentiles within 3.2 %, to three digits with --mode samples";
        paragraph(TextLine::of(TextStyle::Dim, "counted: "), TextStyle::Dim, counted, style, out);
    }
    sampling(report, style, out);
    overhead(report, style, out);
    warnings(report, style, out);
}

/// How long the window was, and how long it was to be where that is something else.
fn window(report: &Report, style: &Style, out: &mut String) {
    let time = |ns| duration(ns, style.unicode);
    let length = time(report.duration_ns);
    let requested_ns = report.requested_ns.filter(|_| report.has_unexpected_length());
    let skipped = (report.skipped_intervals > 0).then(|| counted(report.skipped_intervals, "interval"));
    if requested_ns.is_none() && skipped.is_none() {
        return paragraph(TextLine::of(TextStyle::Dim, "window: "), TextStyle::Plain, &length, style, out);
    }
    let requested = requested_ns.map(|requested_ns| format!(", not the {} asked for", time(requested_ns)));
    let skipped = skipped.map(|skipped| format!("; {skipped} ended in it before wakelat came to report them"));
    let text = [Some(length), requested, skipped].into_iter().flatten().collect::<String>();
    paragraph(TextLine::of(TextStyle::Warning, "! window: "), TextStyle::Warning, &text, style, out);
}

/// Why a report has no wait to show, if it has none.
fn no_waits_reason(report: &Report, style: &Style) -> Option<String> {
    let coverage = &report.coverage;
    let subjects = [Some(coverage.wakeups), coverage.preemptions];
    let sum = |term: fn(&CoverageTerms) -> u64| subjects.iter().flatten().map(term).sum::<u64>();
    if sum(|terms| terms.measured) > 0 || !report.groups.is_empty() {
        return None;
    }
    let what = match coverage.preemptions {
        None => "wakeup",
        Some(_) if coverage.wakeups == CoverageTerms::default() => "preemption",
        Some(_) => "wakeup or preemption",
    };
    let (seen, below) = (sum(|terms| terms.seen), sum(|terms| terms.below_threshold));
    let refused = sum(|terms| terms.filtered).saturating_sub(below);
    Some(if seen == 0 {
        format!("no {what} was seen in {}", duration(report.duration_ns, style.unicode))
    } else if refused >= seen {
        format!("no {what} matched the filter: {} were refused", thousands(refused))
    } else if below > 0 {
        let threshold = report.threshold.as_ref().map(|threshold| exact(threshold.threshold_ns, style.unicode));
        let of = threshold.map(|threshold| format!(" of {threshold}")).unwrap_or_default();
        format!("no wait reached the threshold{of}: {} were below it", thousands(below))
    } else {
        format!("no {what} led to a wait that ended in this window")
    })
}

/// The terms of one subject, those that are not zero.
fn terms(head: &str, terms: &CoverageTerms, filtered: &str, missed_unknown: bool, style: &Style, out: &mut String) {
    let plain = |text: String| TextLine::of(TextStyle::Plain, text);
    let mut pieces = vec![plain(format!("{} delivered of {} seen", thousands(terms.measured), thousands(terms.seen)))];
    let ends = [
        (terms.carried, "carried into this window"),
        (terms.already_running, "found running"),
        (terms.already_queued, "found waiting"),
        (terms.filtered.saturating_sub(terms.below_threshold), filtered),
        (terms.below_threshold, "below the threshold"),
        (terms.not_sampled, "of tasks not watched"),
        (terms.still_waiting.saturating_sub(terms.paused), "still waiting"),
        (terms.paused, "waiting when a rest began"),
    ];
    pieces.extend(ends.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plain(format!("{} {what}", thousands(*n)))));
    let lost = terms.lost();
    pieces.push(TextLine::of(
        if lost > 0 { TextStyle::Warning } else { TextStyle::Plain },
        format!("{} lost", thousands(lost)),
    ));
    if missed_unknown {
        pieces.push(plain("missed events not counted by this kernel".to_owned()));
    }
    flow(TextLine::of(TextStyle::Dim, head), pieces, "; ", style, out);
}

fn threshold(report: &Report, style: &Style, out: &mut String) {
    let Some(threshold) = &report.threshold else { return };
    // Waits below it were counted in the kernel alone where only those above it were asked for.
    let waits = [Some(report.coverage.wakeups), report.coverage.preemptions];
    let waits: u64 = waits.iter().flatten().map(|terms| terms.measured.saturating_add(terms.below_threshold)).sum();
    let ink = if threshold.over > 0 { TextStyle::Strong } else { TextStyle::Plain };
    let line = TextLine::of(TextStyle::Dim, "threshold: ").and(
        ink,
        format!(
            "{} ({}) at or above {}",
            thousands(threshold.over),
            share(threshold.over, waits),
            exact(threshold.threshold_ns, style.unicode)
        ),
    );
    line.finish(style, out);
}

/// Which tasks were watched and for which part of the time, where not all might be.
fn sampling(report: &Report, style: &Style, out: &mut String) {
    let Some(Sampling { limit_ppm, one_in_least, one_in_most, measured_ns }) = report.sampling else { return };
    let limit = small_share(limit_ppm.into(), 1_000_000);
    let has_rested = measured_ns < report.duration_ns;
    let who = match (one_in_least, one_in_most) {
        (1, 1) => "every task".to_owned(),
        (least, most) if least == most => format!("1 task in {most}"),
        (least, most) => format!("1 task in {least} to {most}"),
    };
    let when =
        if has_rested { format!(" {} of the time", share(measured_ns, report.duration_ns)) } else { String::new() };
    let text = if one_in_most == 1 && !has_rested {
        format!("{who} was watched: the overhead stays below {limit}")
    } else {
        format!(
            "{who} was watched{when}, at random, to stay below {limit}; counts are of what was watched, percentiles those of \
             all, in parentheses where {CONFIDENCE_PERCENT} % of such intervals hold them; (?) where that cannot be known"
        )
    };
    paragraph(TextLine::of(TextStyle::Dim, "sampled: "), TextStyle::Plain, &text, style, out);
}

/// What measuring took.
fn overhead(report: &Report, style: &Style, out: &mut String) {
    let Some(overhead) = &report.overhead else { return };
    let capacity_ns = overhead.capacity_ns(report.duration_ns);
    let share = |ns| small_share(ns, capacity_ns);
    let cpus = counted(overhead.cpus, "CPU");
    let text = match overhead.programs {
        Some(programs) => {
            let per_switch = programs.per_switch_ns().map(|ns| format!("{} ns per switch, ", thousands(ns)));
            format!("{}{} of {cpus}", per_switch.unwrap_or_default(), share(overhead.total_ns()))
        }
        None => format!("{} of {cpus} by wakelat itself; that of its programs is not known", share(overhead.tool_ns)),
    };
    paragraph(TextLine::of(TextStyle::Dim, "overhead: "), TextStyle::Plain, &text, style, out);
}

/// Everything that puts the figures in doubt.
fn warnings(report: &Report, style: &Style, out: &mut String) {
    let coverage = &report.coverage;
    let mut warn =
        |text: String| paragraph(TextLine::of(TextStyle::Warning, "! "), TextStyle::Warning, &text, style, out);
    let subjects = [("wakeup", Some(coverage.wakeups)), ("preemption", coverage.preemptions)];
    for (what, terms) in subjects.iter().filter_map(|(what, terms)| Some((what, terms.as_ref()?))) {
        let losses = [
            (terms.task_table_full, "lost: the map of starts was full; raise `--start-entries`"),
            (
                terms.ring_buffer_full,
                "lost: the ring buffer was full; raise `--ring-size`, narrow the filter, or give the reader `--rt-priority`",
            ),
            (
                terms.invalid,
                "discarded: the beginning was not seen, or is after the end; such a wait is in no figure, and the others hold",
            ),
            (
                terms.missed_switch,
                "stale: the switch that ended the wait was not seen; such a wait is in no figure, and the others hold",
            ),
        ];
        for (n, how) in losses.iter().filter(|(n, _)| *n > 0) {
            warn(format!("{} ({}) {how}", counted(*n, what), share(*n, terms.seen)));
        }
        match terms.unaccounted() {
            0 => {}
            more if more > 0 => {
                warn(format!("{} unaccounted for: do not trust these figures", counted(more.unsigned_abs(), what)))
            }
            less => warn(format!(
                "{} accounted for beyond those seen: do not trust these figures",
                counted(less.unsigned_abs(), what)
            )),
        }
    }
    if let (Some(sampling), Some(overhead)) = (&report.sampling, &report.overhead) {
        let (took_ns, capacity_ns) = (overhead.total_ns(), overhead.capacity_ns(report.duration_ns));
        if u128::from(took_ns) * 1_000_000 > u128::from(capacity_ns) * u128::from(sampling.limit_ppm) {
            let limit = small_share(sampling.limit_ppm.into(), 1_000_000);
            warn(format!(
                "the overhead was above the limit of {limit}: wakelat takes more by itself, or the window was too short to rest \
                 for what it took at first"
            ));
        }
    }
    if let Some(missed @ 1..) = coverage.missed {
        warn(format!("{} missed: the kernel skipped a program that was active already", counted(missed, "event")));
    }
    if let Some(lost @ 1..) = coverage.events_lost {
        warn(format!(
            "{} between waits lost: the ring buffer was full; raise `--ring-size` or give the reader `--rt-priority`",
            counted(lost, "event")
        ));
    }
    if report.not_written > 0 {
        let what = counted(report.not_written, if coverage.events_lost.is_some() { "event" } else { "wait" });
        warn(format!(
            "{what} not written: the output was blocked; read it faster, write to a file with `--output`, or narrow the filter"
        ));
    }
    if let Some(waited_ns) = report.reader_waited_ns.filter(|_| report.reader_was_starved()) {
        warn(format!(
            "wakelat's reader waited for a CPU for {} ({}); give it CAP_SYS_NICE or `--rt-priority`, or leave it a CPU",
            duration(waited_ns, style.unicode),
            share(waited_ns, report.duration_ns)
        ));
    }
    if coverage.groups_merged > 0 {
        warn(format!(
            "{} in (other): their groups waited least; raise `--max-groups`",
            counted(coverage.groups_merged, "wait")
        ));
    }
}
