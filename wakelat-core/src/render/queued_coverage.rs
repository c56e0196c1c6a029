//! The coverage of waits by the run queue's clock, as text.

use super::{
    measured_time,
    style::{Style, TextStyle},
    text_line::{TextLine, flow, paragraph},
    units::{counted, duration, exact, share, thousands},
};
use crate::report::{Report, SwitchInTerms};

/// Why no switch-in is in a report.
pub fn nothing_measured_reason(report: &Report, terms: &SwitchInTerms, style: &Style) -> String {
    let excluded = terms.filtered.saturating_sub(terms.below_threshold);
    if terms.seen == 0 {
        format!("no task was switched in within {}", measured_time::text(report, style))
    } else if terms.below_threshold > 0 {
        let threshold = report.threshold.as_ref().map(|threshold| exact(threshold.threshold_ns, style.unicode));
        let of = threshold.map(|threshold| format!(" of {threshold}")).unwrap_or_default();
        format!("no wait reached the threshold{of}; {} were below it", thousands(terms.below_threshold))
    } else if excluded >= terms.seen && report.coverage.filtered_is_own {
        let own = thousands(excluded);
        format!("no switch-in but wakelat's own {own} was seen in {}", measured_time::text(report, style))
    } else if excluded >= terms.seen {
        format!("no switch-in matched the filter; it excluded {}", thousands(excluded))
    } else {
        "no switch-in ended a wait of a known length and of these classes".to_owned()
    }
}

/// Appends the counters of switch-ins that are not zero.
pub fn render(
    report: &Report,
    terms: &SwitchInTerms,
    filtered: &str,
    missed_unknown: bool,
    style: &Style,
    out: &mut String,
) {
    let plain = |text: String| TextLine::of(TextStyle::Plain, text);
    let mut pieces = vec![plain(format!("{} measured", thousands(terms.measured)))];
    let ends = [
        (terms.other_class, "of other classes"),
        (terms.filtered.saturating_sub(terms.below_threshold), filtered),
        (terms.below_threshold, "below the threshold"),
        (terms.unknown_start + terms.after_unseen, "with an unknown start"),
        (terms.not_timed, "not timed by the kernel"),
    ];
    pieces.extend(ends.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plain(format!("{} {what}", thousands(*n)))));
    let ink = if terms.lost() > 0 { TextStyle::Warning } else { TextStyle::Plain };
    pieces.push(TextLine::of(ink, format!("{} lost", thousands(terms.lost()))));
    if missed_unknown {
        pieces.push(plain("missed events not counted by this kernel".to_owned()));
    }
    flow(TextLine::of(TextStyle::Dim, format!("{}: ", counted(terms.seen, "switch-in"))), pieces, ", ", style, out);
    if terms.unseen > 0 {
        let has_paused = report.sampling.is_some_and(|sampling| sampling.measured_ns < report.duration_ns);
        let unseen = format!(
            "{} ended {} ({} by the kernel's own account); in no other figure",
            counted(terms.unseen, "wait"),
            if has_paused { "in pauses or unseen" } else { "unseen" },
            duration(terms.unseen_ns, style.unicode)
        );
        paragraph(TextLine::of(TextStyle::Dim, "unseen: "), TextStyle::Plain, &unseen, style, out);
    }
    if let Some(waiting @ 1..) = terms.still_waiting {
        let waiting = counted(waiting, "task");
        paragraph(TextLine::of(TextStyle::Dim, "still waiting at the end: "), TextStyle::Plain, &waiting, style, out);
    }
}

/// Passes what puts the switch-ins in doubt to `warn`.
pub fn warnings(terms: &SwitchInTerms, warn: &mut impl FnMut(String)) {
    let losses = [
        (
            terms.ring_buffer_full,
            "lost: the ring buffer was full; raise `--ring-size`, narrow the filter, or set `--rt-priority`",
        ),
        (terms.invalid, "invalid: the queue's clock was before the wait began; excluded from all figures"),
    ];
    for (n, how) in losses.iter().filter(|(n, _)| *n > 0) {
        warn(format!("{} ({}) {how}", counted(*n, "switch-in"), share(*n, terms.seen)));
    }
    match terms.unaccounted() {
        0 => {}
        more => warn(format!(
            "{} {}: do not trust these figures, and report this bug",
            counted(more.unsigned_abs(), "switch-in"),
            if more > 0 { "unaccounted for" } else { "more accounted for than seen" }
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::{coverage, testing::report, tests::terminal};

    fn some() -> SwitchInTerms {
        SwitchInTerms {
            seen: 1_234_567,
            measured: 1_200_000,
            filtered: 30_000,
            below_threshold: 10_000,
            other_class: 4_000,
            unknown_start: 300,
            after_unseen: 200,
            not_timed: 67,
            unknown_ns: 5_000_000,
            unseen: 12,
            unseen_ns: 3_400_000,
            still_waiting: Some(2),
            ..SwitchInTerms::default()
        }
    }

    fn shown(terms: SwitchInTerms, columns: usize) -> String {
        let mut report = report(Vec::new());
        report.coverage.switch_ins = Some(terms);
        let mut text = String::new();
        coverage::render(&report, &terminal(columns), &mut text);
        text
    }

    #[test]
    fn the_coverage_of_switch_ins_is_shown() {
        assert_eq!(some().unaccounted(), 0);
        insta::assert_snapshot!("switch_ins", [shown(some(), 100), shown(some(), 40)].join("\n"));
    }

    #[test]
    fn a_switch_in_that_is_in_no_term_or_in_two_is_reported() {
        let text = shown(SwitchInTerms { measured: some().measured - 3, ..some() }, 200);
        assert!(text.contains("3 switch-ins unaccounted for: do not trust these figures"), "{text}");
        let text = shown(SwitchInTerms { measured: some().measured + 3, ..some() }, 200);
        assert!(text.contains("3 switch-ins more accounted for than seen"), "{text}");
    }

    #[test]
    fn a_report_without_waits_says_why() {
        let seen = |terms| shown(terms, 200);
        assert!(seen(SwitchInTerms::default()).contains("no task was switched in"));
        let filtered = SwitchInTerms { seen: 5, filtered: 5, ..SwitchInTerms::default() };
        assert!(seen(filtered).contains("no switch-in matched the filter; it excluded 5"));
        assert!(seen(SwitchInTerms { below_threshold: 5, ..filtered }).contains("5 were below it"));
        let other = SwitchInTerms { seen: 5, other_class: 5, ..SwitchInTerms::default() };
        assert!(seen(other).contains("no switch-in ended a wait of a known length and of these classes"));
    }

    proptest! {
        #[test]
        fn a_window_is_the_difference_of_two_totals(first in prop::array::uniform8(0u64..1 << 40), more in prop::array::uniform8(0u64..1 << 40)) {
            let totals = |[measured, filtered, other_class, unknown_start, after_unseen, not_timed, unseen, unseen_ns]: [u64; 8]| SwitchInTerms {
                seen: measured + filtered + other_class + unknown_start + after_unseen + not_timed,
                measured, filtered, other_class, unknown_start, after_unseen, not_timed, unseen, unseen_ns,
                ..SwitchInTerms::default()
            };
            let sum = std::array::from_fn(|index| first[index] + more[index]);
            let window = totals(sum).since(&totals(first));
            prop_assert_eq!(window, totals(more));
            prop_assert_eq!(window.unaccounted(), 0);
        }
    }
}
