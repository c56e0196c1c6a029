//! Why a report has no waits: the first line of every view for people that has nothing to show.

use super::{
    measured_time, queued_coverage,
    style::Style,
    units::{duration, exact, small_share, thousands},
};
use crate::report::{CoverageTerms, Report};

/// Why a report has no waits to show, or `None` if it has some.
pub fn reason(report: &Report, style: &Style) -> Option<String> {
    let coverage = &report.coverage;
    if report.duration_ns == 0 && report.groups.is_empty() && !coverage.missing_ends.is_empty() {
        return Some("no figures: the file ends before its first reading".to_owned());
    }
    if let Some(terms) = &coverage.switch_ins {
        return (terms.measured == 0 && report.groups.is_empty()).then(|| {
            paused_throughout(report, "switch-in", style)
                .unwrap_or_else(|| queued_coverage::nothing_measured_reason(report, terms, style))
        });
    }
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
    if let Some(paused) = paused_throughout(report, what, style) {
        return Some(paused);
    }
    let (seen, below) = (sum(|terms| terms.seen), sum(|terms| terms.below_threshold));
    let excluded = sum(|terms| terms.filtered).saturating_sub(below);
    Some(if seen == 0 {
        format!("no {what} was seen in {}", measured_time::text(report, style))
    } else if excluded >= seen && coverage.filtered_is_own {
        format!(
            "no {what} but wakelat's own {} was seen in {}",
            thousands(excluded),
            measured_time::text(report, style)
        )
    } else if excluded >= seen {
        format!("no {what} matched the filter; it excluded {}", thousands(excluded))
    } else if below > 0 {
        let threshold = report.threshold.as_ref().map(|threshold| exact(threshold.threshold_ns, style.unicode));
        let of = threshold.map(|threshold| format!(" of {threshold}")).unwrap_or_default();
        format!("no wait reached the threshold{of}; {} were below it", thousands(below))
    } else {
        format!("no {what} led to a wait that ended in this window")
    })
}

/// That no `what` could be measured because the whole window was a pause, if it was one.
fn paused_throughout(report: &Report, what: &str, style: &Style) -> Option<String> {
    let sampling = report.sampling.filter(|_| report.was_paused_throughout())?;
    let (window, limit) =
        (duration(report.duration_ns, style.unicode), small_share(sampling.limit_ppm.into(), 1_000_000));
    Some(format!(
        "no {what} was measured: wakelat paused for the whole window of {window} to keep the overhead below {limit}; use a \
         longer window, or raise `--max-overhead`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::{coverage, testing::report},
        report::{Sampling, SwitchInTerms},
    };

    /// The coverage of a window of 1 s without waits, of which `measured_ns` were measured.
    fn shown(measured_ns: u64, change: impl FnOnce(&mut Report)) -> String {
        let mut report = report(Vec::new());
        report.coverage.wakeups = CoverageTerms::default();
        (report.duration_ns, report.requested_ns) = (1_000_000_000, Some(1_000_000_000));
        report.sampling = Some(Sampling { limit_ppm: 1_000, one_in_least: 1, one_in_most: 1, measured_ns });
        change(&mut report);
        let mut text = String::new();
        coverage::render(&report, &Style { width: 300, ..Style::default() }, &mut text);
        text
    }

    fn queued(report: &mut Report) {
        report.coverage.switch_ins = Some(SwitchInTerms::default());
    }

    #[test]
    fn a_window_that_is_a_single_pause_is_not_one_without_wakeups() {
        let how = "measured: wakelat paused for the whole window of 1.0 s to keep the overhead below 0.10 %; use a longer \
                   window, or raise `--max-overhead`\n";
        for (text, what) in [
            (shown(0, |_| ()), "wakeup"),
            (shown(0, |report| report.coverage.preemptions = Some(CoverageTerms::default())), "preemption"),
            (shown(0, queued), "switch-in"),
        ] {
            assert!(text.starts_with(&format!("no {what} was {how}")), "{text}");
            assert!(!text.contains("seen") && !text.contains("sampled"), "{text}");
        }
    }

    #[test]
    fn a_window_with_pauses_says_in_how_much_of_it_no_wakeup_was_seen() {
        let pauses = "12.0 ms; wakelat paused for the rest of the window\n";
        let text = shown(12_000_000, |_| ());
        assert!(text.starts_with(&format!("no wakeup was seen in {pauses}")), "{text}");
        let text = shown(12_000_000, queued);
        assert!(text.starts_with(&format!("no task was switched in within {pauses}")), "{text}");
        let text = shown(1_000_000_000, |_| ());
        assert!(text.starts_with("no wakeup was seen in 1.0 s\n"), "{text}");
    }

    #[test]
    fn without_a_filter_no_wakeup_is_excluded_by_one() {
        let of = |change: fn(&mut Report)| {
            shown(1_000_000_000, |report| {
                report.coverage.filtered_is_own = true;
                change(report);
            })
        };
        let wakeups = of(|report| {
            report.coverage.wakeups = CoverageTerms { seen: 12, filtered: 12, ..CoverageTerms::default() };
        });
        assert!(wakeups.starts_with("no wakeup but wakelat's own 12 was seen in 1.0 s\n"), "{wakeups}");
        let queued = of(|report| {
            report.coverage.switch_ins = Some(SwitchInTerms { seen: 12, filtered: 12, ..SwitchInTerms::default() });
        });
        assert!(queued.starts_with("no switch-in but wakelat's own 12 was seen in 1.0 s\n"), "{queued}");
        assert!(![wakeups, queued].concat().contains("the filter"));
    }
}
