//! The check type, and two checks that work on every kernel, with or without hist triggers. They compare wakelat with the
//! kernel's own count of each task's waits, and with its own count of context switches. Pure.

use super::{schedstat_sums::SchedstatSums, switch_counts::SwitchCounts};
use wakelat_core::render::units;

/// A check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The check's name in JSON: `schedstat`, `ctxt`, `queue_clock`, `distributions` or `run_queues`.
    pub name: &'static str,
    /// The outcome.
    pub outcome: CheckOutcome,
    /// What the check found, as text, with the numbers and the tolerance.
    pub found: String,
    /// The numbers for JSON: name and value.
    pub numbers: Vec<(&'static str, u64)>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// wakelat and the kernel agree.
    Agree,
    /// wakelat and the kernel do not agree.
    Disagree,
    /// The check cannot be made on this machine or with these flags.
    Unknown,
}

impl CheckOutcome {
    /// The outcome's name in JSON and text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::Unknown => "unknown",
        }
    }
}

/// At most one switch in this many may fire no tracepoint.
const UNTRACED_SHARE: u64 = 20;

/// Compares the kernel's number of context switches with the runs of the program on `sched_switch`. Returns
/// the check, and the largest number of switches that may have gone untraced.
///
/// Every context switch that the kernel counts (`nr_switches`, `__schedule()` in kernel/sched/core.c)
/// passes `sched_switch`, so the program has run as often, unless the kernel skipped it (`missed`; `None` if the
/// kernel does not count that, which then explains no difference). On some hosted machines no tracepoint fires in
/// a few threads, for any tool: a small share may be missing, and is reported.
pub fn ctxt(open: SwitchCounts, close: SwitchCounts, missed: Option<u64>, cpus: u64) -> (Check, u64) {
    let skipped = missed.unwrap_or(0);
    let kernel = close.kernel.saturating_sub(open.kernel);
    // A switch between two readings is in only one of them, and so may be one switch in progress on each CPU.
    let fewest = close.runs_before.saturating_sub(open.runs_after).saturating_sub(cpus);
    let most = close.runs_after.saturating_sub(open.runs_before) + cpus + skipped;
    let untraced = kernel.saturating_sub(most);
    let agree = kernel >= fewest && untraced <= kernel / UNTRACED_SHARE;
    let runs = close.runs_before.saturating_sub(open.runs_before);
    let mut found = format!(
        "{} counted by the kernel, {} of wakelat's program on `sched_switch`",
        context_switches(kernel),
        units::counted(runs, "run"),
    );
    match missed {
        None => found.push_str(", skipped runs not counted by this kernel"),
        Some(0) => {}
        Some(missed) => found.push_str(&format!(", {} skipped by the kernel", units::thousands(missed))),
    }
    if kernel < fewest {
        found.push_str("; there cannot be more runs than switches");
    } else if untraced > 0 {
        found.push_str(&format!(
            "; {} ({}) fired no tracepoint, as happens with any tool on some hosted machines (limit: 5 %)",
            units::thousands(untraced),
            units::share(untraced, kernel)
        ));
    } else {
        found.push_str(&format!(
            "; up to {} may be between two readings",
            units::thousands(most.saturating_sub(fewest))
        ));
    }
    let mut numbers = vec![("kernel", kernel), ("runs", runs)];
    numbers.extend(missed.map(|missed| ("missed", missed)));
    numbers.push(("untraced", untraced));
    let outcome = if agree { CheckOutcome::Agree } else { CheckOutcome::Disagree };
    let untraced_at_most = kernel.saturating_sub(close.runs_before.saturating_sub(open.runs_after) + skipped);
    (Check { name: "ctxt", outcome, found, numbers }, untraced_at_most)
}

fn context_switches(count: u64) -> String {
    format!("{} context switch{}", units::thousands(count), if count == 1 { "" } else { "es" })
}

/// Compares wakelat's waits with the kernel's own: their number for each task, and their total time.
///
/// A task gets a CPU once for each wait, and the kernel counts how often that happens and how long the task
/// waited. For each task, the two numbers of waits must be equal, except for waits at the edges of the two
/// readings ([`super::schedstat_sums`]), `lost` waits, and `untraced` switches: each of these hides the end of
/// one wait and the start of another.
///
/// If the numbers are equal, the kernel's time is a lower bound. It comes from the run queue's clock, which
/// is not updated between a wakeup that preempts and the switch that follows (`rq_clock_skip_update` in
/// `wakeup_preempt`, kernel/sched/core.c), so such a wait has length 0 in the kernel. The wait of the
/// preempted task is longer in the kernel by the same amount: a few µs for each wait (`clock_ns`), and 5 %
/// in any case, are tolerated.
pub fn schedstat(sums: &SchedstatSums, untraced: u64, lost: u64, clock_ns: u64) -> Check {
    let hidden = 2 * untraced + lost;
    let allowed_ns = sums.kernel_ns / 20 + u128::from(clock_ns) * u128::from(sums.timed_waits);
    let agree = sums.unexplained <= hidden && sums.kernel_ns <= sums.own_ns + allowed_ns;
    let short = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    let mut found = format!(
        "{}; waits: {} counted by the kernel, {} by wakelat; {} of the difference are not explained by the edges of the window \
         (limit: {}); waiting time of tasks with equal counts: {} by wakelat, {} by the kernel (wakelat may be lower by up to {})",
        units::counted(sums.tasks, "task"),
        units::thousands(sums.kernel_waits),
        units::thousands(sums.own_waits),
        units::thousands(sums.unexplained),
        units::thousands(hidden),
        units::duration(sums.own_ns, false),
        units::duration(sums.kernel_ns, false),
        units::duration(allowed_ns, false),
    );
    let uncounted = sums.uncounted - sums.uncertain;
    if uncounted > 0 {
        found.push_str(&format!(
            "; the kernel does not count {} of tasks that were preempted while going to sleep",
            units::counted(uncounted, "wait")
        ));
    }
    if sums.uncertain > 0 {
        found.push_str(&format!(
            "; it is not known whether the kernel counts {} of preempted tasks",
            units::counted(sums.uncertain, "wait")
        ));
    }
    let numbers = vec![
        ("tasks", sums.tasks),
        ("tasks_differ", sums.tasks_differ),
        ("kernel_waits", sums.kernel_waits),
        ("wakelat_waits", sums.own_waits),
        ("uncounted", sums.uncounted),
        ("ambiguous", sums.ambiguous),
        ("late", sums.late),
        ("waiting", sums.waiting),
        ("unexplained", sums.unexplained),
        ("kernel_ns", short(sums.kernel_ns)),
        ("wakelat_ns", short(sums.own_ns)),
        ("unfinished_ns", short(sums.unfinished_ns)),
        ("tolerated_waits", hidden),
        ("tolerated_ns", short(allowed_ns)),
    ];
    let outcome = match (sums.tasks, agree) {
        (0, _) => CheckOutcome::Unknown,
        (_, true) => CheckOutcome::Agree,
        (_, false) => CheckOutcome::Disagree,
    };
    Check { name: "schedstat", outcome, found, numbers }
}

/// Events for which the kernel has skipped a program since there were `before`; `None` if it does not count them.
pub fn missed_since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.zip(before).map(|(now, before)| now.saturating_sub(before))
}

/// A check that cannot be made, with the reason.
pub fn unknown(name: &'static str, why: impl Into<String>) -> Check {
    Check { name, outcome: CheckOutcome::Unknown, found: why.into(), numbers: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(kernel: u64, runs: u64) -> SwitchCounts {
        SwitchCounts { runs_before: runs, kernel, runs_after: runs + 3 }
    }

    #[test]
    fn equal_numbers_of_runs_and_switches_agree() {
        for runs in [9_997, 10_000, 10_002] {
            let (check, untraced) = ctxt(switches(500, 7), switches(10_500, 7 + runs), Some(0), 2);
            assert_eq!(check.outcome, CheckOutcome::Agree, "{check:?}");
            // Any of the three runs between a pair of readings may belong to a switch that the kernel had
            // already counted.
            assert_eq!(untraced, 10_003 - runs);
        }
    }

    #[test]
    fn more_runs_than_switches_are_impossible() {
        assert_eq!(ctxt(switches(0, 0), switches(10_000, 10_020), Some(0), 2).0.outcome, CheckOutcome::Disagree);
    }

    #[test]
    fn a_small_share_without_tracepoint_is_reported_and_a_large_one_is_not_accepted() {
        let (small, untraced) = ctxt(switches(0, 0), switches(10_000, 9_950), Some(0), 2);
        assert_eq!((small.outcome, untraced), (CheckOutcome::Agree, 53));
        assert!(small.found.contains("45 (0.5 %) fired no tracepoint"), "{small:?}");
        assert_eq!(ctxt(switches(0, 0), switches(10_000, 9_400), Some(0), 2).0.outcome, CheckOutcome::Disagree);
    }

    #[test]
    fn runs_that_the_kernel_skipped_are_not_a_difference() {
        let (check, untraced) = ctxt(switches(0, 0), switches(10_000, 9_000), Some(1_000), 2);
        assert_eq!((check.outcome, untraced), (CheckOutcome::Agree, 3), "{check:?}");
        // If their number is unknown, all of the difference counts as untraced.
        let (check, untraced) = ctxt(switches(0, 0), switches(10_000, 9_000), None, 2);
        assert_eq!((check.outcome, untraced), (CheckOutcome::Disagree, 1_003), "{check:?}");
    }

    #[test]
    fn skipped_runs_are_shown_and_an_unknown_number_of_them_is_not_0() {
        for (missed, shown) in [
            (Some(12), "on `sched_switch`, 12 skipped by the kernel; up to"),
            (Some(0), "on `sched_switch`; up to"),
            (None, "on `sched_switch`, skipped runs not counted by this kernel; up to"),
        ] {
            let (check, _) = ctxt(switches(0, 0), switches(10_000, 10_000), missed, 2);
            assert!(check.found.contains(shown), "{missed:?}: {check:?}");
            let number = check.numbers.iter().find(|(name, _)| *name == "missed");
            assert_eq!(number.map(|(_, missed)| *missed), missed, "{check:?}");
        }
        assert_eq!(missed_since(Some(17), Some(5)), Some(12));
        assert_eq!((missed_since(None, None), missed_since(Some(5), Some(5))), (None, Some(0)));
    }

    fn sums() -> SchedstatSums {
        SchedstatSums {
            tasks: 20,
            tasks_differ: 0,
            kernel_waits: 10_000,
            own_waits: 10_000,
            uncounted: 0,
            uncertain: 0,
            ambiguous: 0,
            late: 0,
            waiting: 0,
            unexplained: 0,
            kernel_ns: 500_000_000,
            timed_waits: 10_000,
            unfinished_ns: 0,
            own_ns: 520_000_000,
        }
    }

    #[test]
    fn only_waits_whose_time_is_compared_have_a_tolerance() {
        // 10 ms for 2,000 waits of 5 µs, and a twentieth of 200 ms.
        let of = |own_ns| SchedstatSums { kernel_ns: 200_000_000, timed_waits: 2_000, own_ns, ..sums() };
        assert_eq!(outcome(of(180_000_000), 0), CheckOutcome::Agree);
        assert_eq!(outcome(of(179_999_999), 0), CheckOutcome::Disagree);
    }

    fn outcome(sums: SchedstatSums, untraced: u64) -> CheckOutcome {
        schedstat(&sums, untraced, 0, 5_000).outcome
    }

    #[test]
    fn equal_counts_agree_and_one_unexplained_wait_does_not() {
        assert_eq!(outcome(sums(), 0), CheckOutcome::Agree);
        assert_eq!(outcome(SchedstatSums { unexplained: 1, ..sums() }, 0), CheckOutcome::Disagree);
        assert_eq!(schedstat(&SchedstatSums { unexplained: 1, ..sums() }, 0, 1, 5_000).outcome, CheckOutcome::Agree);
    }

    #[test]
    fn an_untraced_switch_hides_two_waits() {
        assert_eq!(outcome(SchedstatSums { unexplained: 120, ..sums() }, 60), CheckOutcome::Agree);
        assert_eq!(outcome(SchedstatSums { unexplained: 121, ..sums() }, 60), CheckOutcome::Disagree);
    }

    #[test]
    fn waits_at_the_edges_may_be_on_one_side_only() {
        let sums = SchedstatSums { own_waits: 9_970, waiting: 25, ambiguous: 5, ..sums() };
        assert_eq!(outcome(sums, 0), CheckOutcome::Agree);
    }

    #[test]
    fn waits_that_the_kernel_does_not_count_are_reported() {
        let check = schedstat(&SchedstatSums { uncounted: 300, ..sums() }, 0, 0, 5_000);
        assert!(
            check.found.contains("does not count 300 waits of tasks that were preempted while going to sleep"),
            "{check:?}"
        );
        let check = schedstat(&SchedstatSums { uncounted: 300, uncertain: 300, ..sums() }, 0, 0, 5_000);
        assert!(
            check.found.ends_with("; it is not known whether the kernel counts 300 waits of preempted tasks"),
            "{check:?}"
        );
    }

    #[test]
    fn waiting_time_that_only_the_kernel_counts_is_detected() {
        assert_eq!(outcome(SchedstatSums { own_ns: 300_000_000, ..sums() }, 0), CheckOutcome::Disagree);
        // A longer time in wakelat comes from the kernel's clock.
        assert_eq!(outcome(SchedstatSums { own_ns: 900_000_000, ..sums() }, 0), CheckOutcome::Agree);
    }

    #[test]
    fn without_tasks_the_outcome_is_unknown() {
        assert_eq!(outcome(SchedstatSums::default(), 0), CheckOutcome::Unknown);
    }
}
