//! Two checks that every kernel allows, hist triggers or not: the kernel's own account of the waits of each task, and its
//! own number of context switches. Judging them is pure.

use std::path::Path;

use anyhow::Result;

use super::schedstat::SchedstatSums;
use crate::{kernel::switches, sink::units};

/// A check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name in JSON: `schedstat`, `ctxt`.
    pub name: &'static str,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// What was found, in words, with the numbers and the tolerance.
    pub found: String,
    /// The same numbers for programs: name and value.
    pub numbers: Vec<(&'static str, u64)>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The two agree.
    Agree,
    /// They do not.
    Disagree,
    /// It cannot be told here.
    Unknown,
}

impl CheckOutcome {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::Unknown => "unknown",
        }
    }
}

/// The kernel's number of context switches, and how often the program on `sched_switch` had run just before and after it
/// was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounts {
    /// Runs before.
    pub runs_before: u64,
    /// Context switches.
    pub kernel: u64,
    /// Runs after.
    pub runs_after: u64,
}

impl SwitchCounts {
    /// Reads all three.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn read(proc: &Path, runs: impl Fn() -> Result<u64>) -> Result<Self> {
        let runs_before = runs()?;
        let kernel = switches::count(proc)?;
        Ok(Self { runs_before, kernel, runs_after: runs()? })
    }
}

/// Of twenty switches at most one may go without its tracepoint.
const UNTRACED_SHARE: u64 = 20;

/// Every context switch the kernel counts (`nr_switches`, `__schedule()` in kernel/sched/core.c) passes `sched_switch`, so
/// the program there has run as often, or was skipped by the kernel. On some hosted machines no tracepoint fires in a few
/// threads, for any tool: a small share may be missing, and is reported. Returns the check and how many switches at most were not
/// traced.
pub fn ctxt(open: SwitchCounts, close: SwitchCounts, missed: u64, cpus: u64) -> (Check, u64) {
    let kernel = close.kernel.saturating_sub(open.kernel);
    // A switch between two readings is in one of them alone; so may be one that is under way on each CPU.
    let fewest = close.runs_before.saturating_sub(open.runs_after).saturating_sub(cpus);
    let most = close.runs_after.saturating_sub(open.runs_before) + cpus + missed;
    let untraced = kernel.saturating_sub(most);
    let agree = kernel >= fewest && untraced <= kernel / UNTRACED_SHARE;
    let runs = close.runs_before.saturating_sub(open.runs_before);
    let mut found = format!(
        "{} by the kernel, {} of the program on `sched_switch`",
        context_switches(kernel),
        units::counted(runs, "run"),
    );
    if missed > 0 {
        found.push_str(&format!(", {} skipped by the kernel", units::thousands(missed)));
    }
    if kernel < fewest {
        found.push_str("; more runs than switches are impossible");
    } else if untraced > 0 {
        found.push_str(&format!(
            "; {} ({}) fired no tracepoint, which a hosted machine may do to any tool (limit: 5 %)",
            units::thousands(untraced),
            units::share(untraced, kernel)
        ));
    } else {
        found.push_str(&format!("; {} may be between two readings", units::thousands(most.saturating_sub(fewest))));
    }
    let numbers = vec![("kernel", kernel), ("runs", runs), ("missed", missed), ("untraced", untraced)];
    let outcome = if agree { CheckOutcome::Agree } else { CheckOutcome::Disagree };
    let untraced_at_most = kernel.saturating_sub(close.runs_before.saturating_sub(open.runs_after) + missed);
    (Check { name: "ctxt", outcome, found, numbers }, untraced_at_most)
}

fn context_switches(count: u64) -> String {
    format!("{} context switch{}", units::thousands(count), if count == 1 { "" } else { "es" })
}

/// A task is given a CPU once for each wait, and the kernel counts both that and the time. For each task the number of waits must
/// be the same but for the borders of its account ([`super::schedstat`]), for `lost` waits, and for `untraced` switches: each
/// hides the end of one wait and the beginning of another. Where the number is the same, the kernel's time is a lower bound: it comes
/// from the run queue's clock, which is not read again between a wakeup that preempts and the switch that follows
/// (`rq_clock_skip_update` in `wakeup_preempt`, kernel/sched/core.c), so that such a wait is 0 to it. The wait of the task that is
/// preempted is longer to the kernel by as much: some µs each, and 5 % in any case.
pub fn schedstat(sums: &SchedstatSums, untraced: u64, lost: u64, clock_ns: u64) -> Check {
    let hidden = 2 * untraced + lost;
    let allowed_ns = sums.kernel_ns / 20 + u128::from(clock_ns) * u128::from(sums.kernel_waits);
    let agree = sums.unexplained <= hidden && sums.kernel_ns <= sums.own_ns + allowed_ns;
    let short = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    let mut found = format!(
        "{}; waits: {} by the kernel, {} by wakelat; {} of the difference not at the borders of the window (limit: {}); \
         time of the tasks with equal counts: {} by wakelat, {} by the kernel (wakelat may be below by {})",
        units::counted(sums.tasks, "task"),
        units::thousands(sums.kernel_waits),
        units::thousands(sums.own_waits),
        units::thousands(sums.unexplained),
        units::thousands(hidden),
        units::duration(sums.own_ns, false),
        units::duration(sums.kernel_ns, false),
        units::duration(allowed_ns, false),
    );
    if sums.uncounted > 0 {
        found.push_str(&format!(
            "; the kernel does not count {} of tasks that were preempted on their way to sleep",
            units::counted(sums.uncounted, "wait")
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

/// A check that cannot be made, and why.
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
    fn as_many_runs_as_switches_agree() {
        for runs in [9_997, 10_000, 10_002] {
            let (check, untraced) = ctxt(switches(500, 7), switches(10_500, 7 + runs), 0, 2);
            assert_eq!(check.outcome, CheckOutcome::Agree, "{check:?}");
            // Of the three runs in each pair of readings any may be of switches that the kernel had counted before.
            assert_eq!(untraced, 10_003 - runs);
        }
    }

    #[test]
    fn more_runs_than_switches_are_impossible() {
        assert_eq!(ctxt(switches(0, 0), switches(10_000, 10_020), 0, 2).0.outcome, CheckOutcome::Disagree);
    }

    #[test]
    fn a_small_share_without_tracepoint_is_reported_and_a_large_one_is_not_accepted() {
        let (small, untraced) = ctxt(switches(0, 0), switches(10_000, 9_950), 0, 2);
        assert_eq!((small.outcome, untraced), (CheckOutcome::Agree, 53));
        assert!(small.found.contains("45 (0.5 %) fired no tracepoint"), "{small:?}");
        assert_eq!(ctxt(switches(0, 0), switches(10_000, 9_400), 0, 2).0.outcome, CheckOutcome::Disagree);
    }

    #[test]
    fn skipped_runs_are_no_difference() {
        let (check, untraced) = ctxt(switches(0, 0), switches(10_000, 9_000), 1_000, 2);
        assert_eq!((check.outcome, untraced), (CheckOutcome::Agree, 3), "{check:?}");
    }

    fn sums() -> SchedstatSums {
        SchedstatSums {
            tasks: 20,
            tasks_differ: 0,
            kernel_waits: 10_000,
            own_waits: 10_000,
            uncounted: 0,
            ambiguous: 0,
            late: 0,
            waiting: 0,
            unexplained: 0,
            kernel_ns: 500_000_000,
            unfinished_ns: 0,
            own_ns: 520_000_000,
        }
    }

    fn judged(sums: SchedstatSums, untraced: u64) -> CheckOutcome {
        schedstat(&sums, untraced, 0, 5_000).outcome
    }

    #[test]
    fn the_same_account_agrees_and_one_wait_that_nothing_explains_does_not() {
        assert_eq!(judged(sums(), 0), CheckOutcome::Agree);
        assert_eq!(judged(SchedstatSums { unexplained: 1, ..sums() }, 0), CheckOutcome::Disagree);
        assert_eq!(schedstat(&SchedstatSums { unexplained: 1, ..sums() }, 0, 1, 5_000).outcome, CheckOutcome::Agree);
    }

    #[test]
    fn an_untraced_switch_hides_two_waits() {
        assert_eq!(judged(SchedstatSums { unexplained: 120, ..sums() }, 60), CheckOutcome::Agree);
        assert_eq!(judged(SchedstatSums { unexplained: 121, ..sums() }, 60), CheckOutcome::Disagree);
    }

    #[test]
    fn waits_at_the_borders_are_in_one_account_only() {
        let sums = SchedstatSums { own_waits: 9_970, waiting: 25, ambiguous: 5, ..sums() };
        assert_eq!(judged(sums, 0), CheckOutcome::Agree);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_reported() {
        let check = schedstat(&SchedstatSums { uncounted: 300, ..sums() }, 0, 0, 5_000);
        assert!(
            check.found.contains("does not count 300 waits of tasks that were preempted on their way to sleep"),
            "{check:?}"
        );
    }

    #[test]
    fn time_that_the_kernel_counts_and_wakelat_does_not_is_found() {
        assert_eq!(judged(SchedstatSums { own_ns: 300_000_000, ..sums() }, 0), CheckOutcome::Disagree);
        // The other way round it is the kernel's clock.
        assert_eq!(judged(SchedstatSums { own_ns: 900_000_000, ..sums() }, 0), CheckOutcome::Agree);
    }

    #[test]
    fn without_tasks_nothing_is_known() {
        assert_eq!(judged(SchedstatSums::default(), 0), CheckOutcome::Unknown);
    }
}
