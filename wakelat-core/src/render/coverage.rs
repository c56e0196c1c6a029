//! The coverage under every view for people: what was measured, what was not, and what puts the figures in
//! doubt.

use std::io::{self, Write};

use super::{
    labels, no_waits, queued_coverage,
    style::{Style, TextStyle},
    text_line::{TextLine, clean, flow, paragraph},
    units::{counted, duration, exact, share, small_share, thousands},
};
use crate::{
    aggregate::estimate::CONFIDENCE_PERCENT,
    report::{CoverageTerms, MissingEnd, Mode, Report, Sampling, TextCoverage},
};

/// Writes the coverage of a report. For views that cannot include it, such as waits in CSV.
pub fn write(report: &Report, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    render(report, style, &mut text);
    out.write_all(text.as_bytes())
}

/// Writes an empty line and the coverage of a report.
pub fn write_below(report: &Report, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\n")?;
    write(report, style, out)
}

/// Appends the coverage of a report to `out`: why there are no waits, if so; the counters; the threshold;
/// each loss.
pub fn render(report: &Report, style: &Style, out: &mut String) {
    let coverage = &report.coverage;
    if let Some(nothing) = no_waits::reason(report, style) {
        paragraph(TextLine::new(), TextStyle::Title, &nothing, style, out);
    }
    let filtered = if coverage.filtered_is_own { "excluded (wakelat's own)" } else { "excluded by the filter" };
    window(report, style, out);
    // An unknown number of missed events concerns both counters, so it is mentioned only once.
    let mut missed_unknown = coverage.missed.is_none() && coverage.text.is_none();
    if let Some(terms) = &coverage.switch_ins {
        queued_coverage::render(report, terms, filtered, std::mem::take(&mut missed_unknown), style, out);
    } else if coverage.preemptions.is_none() || coverage.wakeups != CoverageTerms::default() {
        terms("wakeup", &coverage.wakeups, filtered, std::mem::take(&mut missed_unknown), style, out);
    }
    if let Some(preemptions) = &coverage.preemptions {
        terms("preemption", preemptions, filtered, missed_unknown, style, out);
    }
    if let Some(oldest) = coverage.oldest_waiting {
        let who = labels::thread(Some(oldest.comm), oldest.tid, usize::MAX, style);
        let waited = duration(oldest.latency_ns, style.unicode);
        let who = format!("{who}{},", labels::in_file(oldest.tid, style));
        let pieces = [who, format!("for {waited}")].map(|text| TextLine::of(TextStyle::Plain, text));
        flow(TextLine::of(TextStyle::Dim, "longest still waiting: "), pieces.into(), " ", style, out);
    }
    threshold(report, style, out);
    if report.mode == Mode::Aggregate && !report.groups.is_empty() {
        let counted = "percentiles are at most 3.2 % too high (`--mode samples`: 0.1 %)";
        paragraph(TextLine::of(TextStyle::Dim, "aggregated in the kernel: "), TextStyle::Dim, counted, style, out);
    }
    sampling(report, style, out);
    overhead(report, style, out);
    warnings(report, style, out);
}

/// Appends the length of the window, the requested length if it differs, and the number of skipped intervals.
fn window(report: &Report, style: &Style, out: &mut String) {
    let time = |ns| duration(ns, style.unicode);
    let length = time(report.duration_ns);
    let requested_ns = report.requested_ns.filter(|_| report.has_unexpected_length());
    let skipped = (report.skipped_intervals > 0).then(|| counted(report.skipped_intervals, "interval"));
    if requested_ns.is_none() && skipped.is_none() {
        return paragraph(TextLine::of(TextStyle::Dim, "window: "), TextStyle::Plain, &length, style, out);
    }
    let requested = requested_ns.map(|requested_ns| format!(" instead of the requested {}", time(requested_ns)));
    let skipped = skipped.map(|skipped| format!("; contains {skipped} that wakelat was too late to report separately"));
    let text = [Some(length), requested, skipped].into_iter().flatten().collect::<String>();
    paragraph(TextLine::of(TextStyle::Warning, "! window: "), TextStyle::Warning, &text, style, out);
}

/// Appends the counters of wakeups or of preemptions that are not zero.
fn terms(head: &str, terms: &CoverageTerms, filtered: &str, missed_unknown: bool, style: &Style, out: &mut String) {
    let plain = |text: String| TextLine::of(TextStyle::Plain, text);
    let mut pieces = vec![plain(format!("{} measured", thousands(terms.measured)))];
    let ends = [
        (terms.carried, "carried into this window"),
        (terms.already_running, "already running"),
        (terms.already_queued, "already queued"),
        (terms.filtered.saturating_sub(terms.below_threshold), filtered),
        (terms.below_threshold, "below the threshold"),
        (terms.not_sampled, "not sampled"),
        (terms.still_waiting.saturating_sub(terms.paused), "still waiting"),
        (terms.paused, "waiting when a pause began"),
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
    flow(TextLine::of(TextStyle::Dim, format!("{}: ", counted(terms.seen, head))), pieces, ", ", style, out);
}

fn threshold(report: &Report, style: &Style, out: &mut String) {
    let Some(threshold) = &report.threshold else { return };
    // If only waits above the threshold were requested, those below it were counted only in the kernel.
    let waits = [Some(report.coverage.wakeups), report.coverage.preemptions];
    let waits = waits.iter().flatten().map(|terms| (terms.measured, terms.below_threshold));
    let switch_ins = report.coverage.switch_ins.iter().map(|terms| (terms.measured, terms.below_threshold));
    let waits: u64 = waits.chain(switch_ins).map(|(measured, below)| measured.saturating_add(below)).sum();
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

/// Appends which tasks were sampled and for how much of the time, if `--max-overhead` was given. Nothing if the whole
/// window was a pause, which [`no_waits::reason`] says.
fn sampling(report: &Report, style: &Style, out: &mut String) {
    let Some(Sampling { limit_ppm, one_in_least, one_in_most, measured_ns }) = report.sampling else { return };
    if report.was_paused_throughout() {
        return;
    }
    let limit = small_share(limit_ppm.into(), 1_000_000);
    let has_paused = measured_ns < report.duration_ns;
    let who = match (one_in_least, one_in_most) {
        (1, 1) => "every task".to_owned(),
        (least, most) if least == most => format!("1 task in {most}"),
        (least, most) => format!("1 task in {least} to {most}"),
    };
    let when =
        if has_paused { format!(", {} of the time", share(measured_ns, report.duration_ns)) } else { String::new() };
    let text = if one_in_most == 1 && !has_paused {
        format!("{who}; the overhead stays below {limit}")
    } else {
        let estimates = format!(
            "; percentiles are estimates for all tasks, with {CONFIDENCE_PERCENT} % confidence intervals in parentheses, \
             (?) if unknown"
        );
        let estimates = if report.groups.is_empty() { "" } else { &estimates };
        format!(
            "{who}{when}, at random, to keep the overhead below {limit}; counts and sums cover the sample only{estimates}"
        )
    };
    paragraph(TextLine::of(TextStyle::Dim, "sampled: "), TextStyle::Plain, &text, style, out);
}

/// Appends the overhead of measuring.
fn overhead(report: &Report, style: &Style, out: &mut String) {
    let Some(overhead) = &report.overhead else { return };
    let capacity_ns = overhead.capacity_ns(report.duration_ns);
    let share = |ns| small_share(ns, capacity_ns);
    let cpus = counted(overhead.cpus, "CPU");
    let per_switch = overhead.programs.per_switch_ns().map(|ns| format!("{} ns per switch, ", thousands(ns)));
    let text = format!("{}{} of {cpus}", per_switch.unwrap_or_default(), share(overhead.total_ns()));
    paragraph(TextLine::of(TextStyle::Dim, "overhead: "), TextStyle::Plain, &text, style, out);
}

/// Appends everything that puts the figures in doubt.
fn warnings(report: &Report, style: &Style, out: &mut String) {
    let coverage = &report.coverage;
    let mut warn =
        |text: String| paragraph(TextLine::of(TextStyle::Warning, "! "), TextStyle::Warning, &text, style, out);
    for MissingEnd { file, at, is_damaged } in &coverage.missing_ends {
        let name = report.files.get(*file).filter(|_| report.files.are_several());
        let what = name.map_or("the recording".to_owned(), |name| format!("`{}`", clean(&name.file, style)));
        let at = thousands(*at);
        warn(if *is_damaged {
            format!("{what} is damaged at byte {at}; nothing after it is in the figures")
        } else {
            format!("{what} is truncated at byte {at}: `wakelat record` was killed, or the file is incomplete")
        });
    }
    let subjects = [("wakeup", Some(coverage.wakeups)), ("preemption", coverage.preemptions)];
    for (what, terms) in subjects.iter().filter_map(|(what, terms)| Some((what, terms.as_ref()?))) {
        let losses = [
            (terms.task_table_full, "lost: the task table was full; raise `--max-tasks`"),
            (
                terms.ring_buffer_full,
                "lost: the ring buffer was full; raise `--ring-size`, narrow the filter, or set `--rt-priority`",
            ),
            (terms.invalid, "invalid: the start was not seen or is later than the end; excluded from all figures"),
            (
                terms.missed_switch,
                "with a missed switch: the switch that ended the wait was not seen; excluded from all figures",
            ),
        ];
        for (n, how) in losses.iter().filter(|(n, _)| *n > 0) {
            warn(format!("{} ({}) {how}", counted(*n, what), share(*n, terms.seen)));
        }
        match terms.unaccounted() {
            0 => {}
            more if more > 0 => warn(format!(
                "{} unaccounted for: do not trust these figures, and report this bug",
                counted(more.unsigned_abs(), what)
            )),
            less => warn(format!(
                "{} more accounted for than seen: do not trust these figures, and report this bug",
                counted(less.unsigned_abs(), what)
            )),
        }
    }
    if let Some(terms) = &coverage.switch_ins {
        queued_coverage::warnings(terms, &mut warn);
    }
    if let (Some(sampling), Some(overhead)) = (&report.sampling, &report.overhead) {
        let (took_ns, capacity_ns) = (overhead.total_ns(), overhead.capacity_ns(report.duration_ns));
        if u128::from(took_ns) * 1_000_000 > u128::from(capacity_ns) * u128::from(sampling.limit_ppm) {
            let limit = small_share(sampling.limit_ppm.into(), 1_000_000);
            warn(format!(
                "the overhead exceeded the limit of {limit}: wakelat alone uses more, or the window was too short for pauses to offset \
                 the cost of starting; measure longer, or raise `--max-overhead`"
            ));
        }
    }
    if let Some(missed @ 1..) = coverage.missed {
        warn(format!(
            "{} missed: the kernel skipped a BPF program that was already running; waits may be missing",
            counted(missed, "event")
        ));
    }
    if let Some(lost @ 1..) = coverage.events_lost {
        let why = if coverage.text.is_some() {
            "lost when the trace was recorded: waits that were pending then are excluded from all figures"
        } else {
            "of the timeline lost: the ring buffer was full; raise `--ring-size` or set `--rt-priority`"
        };
        warn(format!("{} {why}", counted(lost, "event")));
    }
    if let Some(text) = &coverage.text {
        text_warnings(text, &mut warn);
    }
    if report.not_written > 0 {
        let what = counted(report.not_written, if coverage.events_lost.is_some() { "event" } else { "wait" });
        warn(format!(
            "{what} not written: the output was blocked; read it faster, write to a file with `--output`, or narrow the filter"
        ));
    }
    if let Some(waited_ns) = report.reader_waited_ns.filter(|_| report.reader_was_starved()) {
        let set = if report.files.are_recordings() { "record again with" } else { "set" };
        warn(format!(
            "wakelat's reader waited {} for a CPU ({}); {set} `--rt-priority 1`, or keep a CPU free for it",
            duration(waited_ns, style.unicode),
            share(waited_ns, report.duration_ns)
        ));
    }
    if coverage.group_table_full > 0 {
        warn(format!(
            "{} in (other), because the kernel's table of groups was full; raise `--group-memory`",
            counted(coverage.group_table_full, "wait")
        ));
    }
    let smallest = coverage.groups_merged.saturating_sub(coverage.group_table_full);
    if smallest > 0 {
        warn(format!(
            "{} in (other), from the groups with the least waiting time; raise `--max-groups`",
            counted(smallest, "wait")
        ));
    }
}

/// Warns of what the text of a trace lacks.
fn text_warnings(text: &TextCoverage, warn: &mut dyn FnMut(String)) {
    if text.unknown_start > 0 {
        warn(format!(
            "{} whose wait began unseen: before the trace, or with an event that is not in it; excluded from all figures",
            counted(text.unknown_start, "switch-in")
        ));
    }
    if let Some(first) = &text.first_skipped {
        warn(format!("{} skipped; the first is {first}", counted(text.skipped_lines, "line")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        files::{FileName, Files},
        render::testing::report,
    };

    /// The coverage of a report that `change` has changed.
    fn shown(change: impl FnOnce(&mut Report)) -> String {
        let mut report = report(Vec::new());
        change(&mut report);
        let mut text = String::new();
        render(&report, &Style { width: 300, ..Style::default() }, &mut text);
        text
    }

    #[test]
    fn a_window_shows_its_length_and_warns_if_that_is_not_the_requested_one() {
        let window = |duration_ns, skipped_intervals| {
            let text = shown(|report| {
                (report.duration_ns, report.requested_ns) = (duration_ns, Some(2_000_000_000));
                report.skipped_intervals = skipped_intervals;
            });
            text.lines().find(|line| line.contains("window: ")).unwrap().to_owned()
        };
        assert_eq!(window(2_199_000_000, 0), "window: 2.2 s");
        assert_eq!(window(2_200_000_000, 0), "! window: 2.2 s instead of the requested 2.0 s");
        assert_eq!(window(1_800_000_000, 0), "! window: 1.8 s instead of the requested 2.0 s");
        assert_eq!(
            window(7_000_000_000, 2),
            "! window: 7.0 s instead of the requested 2.0 s; contains 2 intervals that wakelat was too late to report separately"
        );
    }

    #[test]
    fn a_blocked_output_and_a_starved_reader_are_named_as_causes() {
        let blocked = shown(|report| report.not_written = 7);
        assert!(blocked.contains("! 7 waits not written: the output was blocked; "), "{blocked}");
        let starved = |waited_ns| {
            shown(|report| (report.duration_ns, report.reader_waited_ns) = (10_000_000_000, Some(waited_ns)))
        };
        let text = starved(1_000_000_000);
        assert!(text.contains("! wakelat's reader waited 1.0 s for a CPU (10.0 %); "), "{text}");
        assert!(text.contains("(10.0 %); set `--rt-priority 1`, or keep a CPU free for it"), "{text}");
        let recorded = shown(|report| {
            (report.duration_ns, report.reader_waited_ns) = (10_000_000_000, Some(1_000_000_000));
            report.files = Files::new([FileName::default()]);
        });
        assert!(recorded.contains("(10.0 %); record again with `--rt-priority 1`, or keep a CPU free"), "{recorded}");
        assert!(!starved(999_999_999).contains("for a CPU"), "{}", starved(999_999_999));
    }

    #[test]
    fn what_the_text_of_a_trace_lacks_is_reported() {
        let mut report = report(Vec::new());
        report.coverage.missed = None;
        report.coverage.events_lost = Some(3);
        let first_skipped = Some("line 7: `hello` is not an event of a trace".to_owned());
        report.coverage.text = Some(TextCoverage { unknown_start: 2, skipped_lines: 1, first_skipped });
        let mut text = String::new();
        render(&report, &Style { width: 300, ..Style::default() }, &mut text);
        for expected in [
            "! 3 events lost when the trace was recorded",
            "! 2 switch-ins whose wait began unseen",
            "! 1 line skipped; the first is line 7: `hello` is not",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("not counted by this kernel"), "{text}");
    }

    #[test]
    fn a_recording_without_its_end_is_reported_with_the_place() {
        let missing = |is_damaged| vec![MissingEnd { file: 0, at: 1_234_567, is_damaged }];
        let of = |is_damaged| shown(|report| report.coverage.missing_ends = missing(is_damaged));
        assert!(of(false).contains("the recording is truncated at byte 1,234,567: "), "{}", of(false));
        assert!(of(true).contains("! the recording is damaged at byte 1,234,567; nothing after it"), "{}", of(true));
        let without_reading = shown(|report| {
            (report.duration_ns, report.coverage.missing_ends) = (0, missing(false));
        });
        assert!(without_reading.contains("no figures: the file ends before its first reading"), "{without_reading}");
    }
}
