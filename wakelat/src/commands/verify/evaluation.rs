//! Evaluates a measured window: a [`WindowMeasurement`] in, a [`Verification`] out. Pure.

use wakelat_common::Class;

use super::{
    checks::{Check, CheckOutcome},
    compare::{Comparison, Tolerance},
    distributions,
    not_compared::NotCompared,
    paired_waits::{PairedWaits, WaitTally},
    queue_clock::{self, ClassComparison, DifferingInstrument},
    side::SideCounts,
};
use wakelat_core::report::LatencyFrom;
use wakelat_tracefs::hist_trigger::HistogramTotals;

/// One wait in this many, and always [`HELD_UP_LEAST`], may be delayed between the two clock readings at
/// one of its ends: see [`Tolerance::held_up`].
const HELD_UP_SHARE: u64 = 200;

/// Number of waits that may be delayed in a window of any size.
const HELD_UP_LEAST: u64 = 2;

/// The measurements of one window, before their evaluation.
pub struct WindowMeasurement {
    /// The kernel's release.
    pub kernel: String,
    /// The event at which latency starts.
    pub from: LatencyFrom,
    /// The waits of both sides, complete.
    pub waits: PairedWaits,
    /// The counts of the triggers, or why none were placed.
    pub counted: Result<TriggerCounts, NotCompared>,
    /// How long it took to switch counting on and off, in ns.
    pub switching_ns: u64,
    /// Wakeups of tasks that were running.
    pub already_running: u64,
    /// Wakeups of tasks that were already waiting.
    pub already_queued: u64,
    /// The checks that need no hist triggers.
    pub checks: Vec<Check>,
    /// The waits by the tracepoints and by the queue clock; none if this machine has no queue clock.
    pub classes: Option<ClassComparison>,
}

/// The counts of the three triggers.
#[derive(Clone, Debug, Default)]
pub struct TriggerCounts {
    /// The latencies by bucket; `dropped` is the sum over all three triggers.
    pub side: SideCounts,
    /// Totals of the tables of starts, ends and latencies, in this order.
    pub tables: [HistogramTotals; 3],
}

/// The result of a verification.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The kernel's release.
    pub kernel: String,
    /// The length of the window in ns.
    pub duration_ns: u64,
    /// The event at which latency starts.
    pub from: LatencyFrom,
    /// The comparison of the two sides, or why the triggers were not compared.
    pub comparison: Result<Comparison, NotCompared>,
    /// Totals of the triggers' tables of starts, ends and latencies, in this order; none without triggers.
    pub tables: Option<[HistogramTotals; 3]>,
    /// How long it took to switch counting on and off, in ns. A wait that ends meanwhile may be on one side
    /// only.
    pub switching_ns: u64,
    /// The same window by wakelat's rules, and the errors of the trigger's rules.
    pub rules: RulesComparison,
    /// The checks that need no hist triggers.
    pub checks: Vec<Check>,
    /// The waits by the tracepoints and by the queue clock; none if this machine has no queue clock.
    pub classes: Option<ClassComparison>,
}

/// The same window by wakelat's rules, and the errors of the trigger's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesComparison {
    /// Waits by wakelat's rules, indexed by [`Class`].
    pub classes: [WaitTally; 3],
    /// Wakeups of running tasks: no wait begins, but the trigger records a start.
    pub already_running: u64,
    /// Wakeups of waiting tasks: the trigger overwrites the start with a later one.
    pub already_queued: u64,
    /// Waits of the trigger that did not begin at a wakeup: see [`super::paired_waits::OwnRuleCounts::bogus`].
    pub bogus: WaitTally,
    /// Waits of the trigger that are too short because a later wakeup overwrote their start, and by how
    /// much. At most one for each wakeup in `already_queued`: the waits that differ most.
    pub restarted: WaitTally,
    /// Waits whose two readings of the start differ by more than the clock's tolerance although no wakeup
    /// can have overwritten the start, and by how much: something delayed the CPU between the readings.
    pub held_up: WaitTally,
    /// Waits after a wakeup that the trigger's rules miss.
    pub unknown: WaitTally,
}

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The triggers were compared, and everything agrees.
    Agree,
    /// Something that was compared does not agree.
    Disagree,
    /// The triggers were not compared; what else was compared agrees.
    NotCompared,
}

impl Verdict {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::NotCompared => "not_compared",
        }
    }

    /// The exit code of `wakelat verify`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Agree => 0,
            Self::Disagree => 3,
            Self::NotCompared => 4,
        }
    }
}

impl WindowMeasurement {
    /// Compares the two sides and separates the errors of the trigger's rules by cause.
    pub fn evaluate(self) -> Verification {
        let Self { kernel, from, waits, counted, switching_ns, already_running, already_queued, checks, classes } =
            self;
        let count = waits.exact.side.count();
        let tolerance = Tolerance { waits: waits.ambiguous, held_up: (count / HELD_UP_SHARE).max(HELD_UP_LEAST) };
        let (comparison, tables) = match counted {
            Ok(TriggerCounts { side, tables }) => (Ok(Comparison::new(&waits.exact, side, tolerance)), Some(tables)),
            Err(why) => (Err(why), None),
        };
        let mut late_ns = waits.own.late_ns;
        late_ns.sort_unstable_by(|one, other| other.cmp(one));
        let restarts = usize::try_from(already_queued).unwrap_or(usize::MAX).min(late_ns.len());
        let (restarted, held_up) = late_ns.split_at(restarts);
        Verification {
            kernel,
            duration_ns: waits.window.length_ns(),
            from,
            comparison,
            tables,
            switching_ns,
            rules: RulesComparison {
                classes: waits.own.classes,
                already_running,
                already_queued,
                bogus: waits.own.bogus,
                restarted: WaitTally::of(restarted),
                held_up: WaitTally::of(held_up),
                unknown: waits.own.unknown,
            },
            checks,
            classes,
        }
    }
}

impl Verification {
    /// The outcome.
    pub fn verdict(&self) -> Verdict {
        let disagrees = |check: &Check| check.outcome == CheckOutcome::Disagree;
        match &self.comparison {
            _ if self.checks.iter().any(disagrees) => Verdict::Disagree,
            Ok(comparison) if comparison.agrees() => Verdict::Agree,
            Ok(_) => Verdict::Disagree,
            Err(_) => Verdict::NotCompared,
        }
    }
}

impl Verification {
    /// The instrument that differs from the two others, if there is one: see [`DifferingInstrument::differing`].
    pub fn differs(&self) -> Option<DifferingInstrument> {
        let of = |name: &str| Some(self.checks.iter().find(|check| check.name == name)?.outcome);
        let outcome = match of(distributions::NAME) {
            Some(CheckOutcome::Disagree) => CheckOutcome::Disagree,
            _ => of(queue_clock::NAME)?,
        };
        DifferingInstrument::differing(self.comparison.as_ref().ok().map(Comparison::agrees), outcome)
    }
}

impl RulesComparison {
    /// The waits of one class.
    pub fn of(&self, class: Class) -> &WaitTally {
        &self.classes[class as usize]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::commands::verify::{
        checks,
        compare::Mismatch,
        side::ExactCounts,
        window::{TimeBracket, VerifyWindow},
    };
    use wakelat_core::{render::testing, wait::Wait};
    use wakelat_tracefs::hist_trigger::wakeup_latency::Buckets;

    const CLOCK_NS: u64 = 5_000;

    /// Latencies far from any edge between two buckets, so that no clock reading moves them to another
    /// bucket.
    const SHORT_NS: u64 = 24_000;
    const LONG_NS: u64 = 200_000;

    /// The same waits on both sides.
    fn waits(count: u64) -> PairedWaits {
        let at = |at_ns| TimeBracket { before_ns: at_ns, after_ns: at_ns };
        let window = VerifyWindow {
            starts_on: at(1_000_000),
            ends_on: at(2_000_000),
            counting_on: at(3_000_000),
            counting_off: Some(at(2_003_000_000)),
            clock_ns: CLOCK_NS,
        };
        let mut waits = PairedWaits::new(window, ExactCounts::new(Buckets::Log2, CLOCK_NS), None);
        for index in 0..count {
            waits.by_trigger_rules(&wait(index, 0), 0);
            waits.by_own_rules(&wait(index, 0), 0);
        }
        waits
    }

    /// Wait number `index`, whose start was overwritten `late_ns` later.
    fn wait(index: u64, late_ns: u64) -> Wait {
        let at_ns = 10_000_000 + index * 100_000;
        Wait { class: Class::Wakeup, at_ns, latency_ns: SHORT_NS - late_ns, tid: 7, ..testing::wait() }
    }

    /// A trigger that counted `count` waits, `moved` of them in another bucket.
    fn trigger(count: u64, moved: u64) -> TriggerCounts {
        let mut exact = ExactCounts::new(Buckets::Log2, 0);
        (0..count).for_each(|index| exact.record(if index < moved { LONG_NS } else { SHORT_NS }));
        TriggerCounts { side: exact.side, ..TriggerCounts::default() }
    }

    pub(in crate::commands::verify) fn measured(
        counted: Result<TriggerCounts, NotCompared>,
        waits: PairedWaits,
    ) -> WindowMeasurement {
        WindowMeasurement {
            kernel: "6.12.0".to_owned(),
            from: LatencyFrom::Wakeup,
            waits,
            counted,
            switching_ns: 26_800_000,
            already_running: 3,
            already_queued: 0,
            checks: vec![Check {
                name: "ctxt",
                outcome: CheckOutcome::Agree,
                found: "the same".to_owned(),
                numbers: vec![],
            }],
            classes: None,
        }
    }

    fn mismatches(count: u64, moved: u64) -> Vec<Mismatch> {
        measured(Ok(trigger(count, moved)), waits(count)).evaluate().comparison.unwrap().mismatches
    }

    #[test]
    fn at_most_one_wait_in_two_hundred_may_be_delayed() {
        assert_eq!(mismatches(1_000, 5), []);
        assert_eq!(mismatches(1_000, 6), [Mismatch::Moved { edge_ns: 32_768, moved: 6, explained: 5 }]);
        assert_eq!(mismatches(1_199, 5), []);
        assert_eq!(mismatches(1_199, 6).len(), 1);
        assert_eq!(mismatches(1_200, 6), []);
    }

    #[test]
    fn two_waits_may_be_delayed_in_a_small_window() {
        assert_eq!(mismatches(100, 2), []);
        assert_eq!(mismatches(100, 3), [Mismatch::Moved { edge_ns: 32_768, moved: 3, explained: 2 }]);
    }

    #[test]
    fn waits_that_ended_while_counting_was_switched_may_be_on_one_side_only() {
        let verification = |tolerated| {
            let mut waits = waits(1_000);
            waits.ambiguous = tolerated;
            measured(Ok(trigger(1_012, 0)), waits).evaluate()
        };
        assert_eq!(verification(12).verdict(), Verdict::Agree);
        let mismatch = Mismatch::Count { bpf: 1_000, trigger: 1_012, tolerated: 11 };
        assert_eq!(
            (verification(11).verdict(), verification(11).comparison.unwrap().mismatches),
            (Verdict::Disagree, vec![mismatch])
        );
    }

    #[test]
    fn each_wakeup_of_a_waiting_task_explains_one_late_start_and_the_others_were_delayed() {
        let rules = |already_queued| {
            let mut waits = waits(0);
            for (index, late_ns) in [6_000, 12_000, 9_000].into_iter().enumerate() {
                waits.by_trigger_rules(&wait(index as u64, late_ns), 0);
                waits.by_own_rules(&wait(index as u64, 0), 0);
            }
            waits.finish();
            WindowMeasurement { already_queued, ..measured(Err(NotCompared::NotMounted), waits) }.evaluate().rules
        };
        let tally = |count, sum_ns, max_ns| WaitTally { count, sum_ns, max_ns };
        for (already_queued, restarted, held_up) in [
            (0, tally(0, 0, 0), tally(3, 27_000, 12_000)),
            (1, tally(1, 12_000, 12_000), tally(2, 15_000, 9_000)),
            (9, tally(3, 27_000, 12_000), tally(0, 0, 0)),
        ] {
            let rules = rules(already_queued);
            assert_eq!((rules.restarted, rules.held_up), (restarted, held_up), "{already_queued} wakeups");
        }
    }

    #[test]
    fn a_failed_check_counts_even_if_no_triggers_were_compared() {
        for why in [NotCompared::NoHistTriggers, NotCompared::NotMounted, NotCompared::Denied("/t".into())] {
            let mut measured = measured(Err(why), waits(10));
            measured.checks.push(checks::unknown("schedstat", "not here"));
            let mut verification = measured.evaluate();
            assert_eq!((verification.verdict(), verification.verdict().exit_code()), (Verdict::NotCompared, 4));
            verification.checks[0].outcome = CheckOutcome::Disagree;
            assert_eq!((verification.verdict(), verification.verdict().exit_code()), (Verdict::Disagree, 3));
        }
        let agrees = measured(Ok(trigger(10, 0)), waits(10)).evaluate();
        assert_eq!((agrees.verdict(), agrees.verdict().exit_code()), (Verdict::Agree, 0));
    }

    #[test]
    fn an_inaccessible_tracefs_is_not_reported_as_a_kernel_without_triggers() {
        assert!(NotCompared::NoHistTriggers.to_string().contains("CONFIG_HIST_TRIGGERS"));
        for (why, remedy) in
            [(NotCompared::NotMounted, "mount -t tracefs"), (NotCompared::Denied("/t".into()), "with `sudo`")]
        {
            let text = why.to_string();
            assert!(text.contains(remedy) && !text.contains("kernel has no"), "{text}");
        }
    }

    /// A verification with a value in every row.
    pub(in crate::commands::verify) fn rich() -> Verification {
        let mut waits = waits(400);
        waits.ambiguous = 25;
        waits.own.classes[Class::Preempted as usize] = WaitTally { count: 42, sum_ns: 90_000_000, max_ns: 8_100_000 };
        waits.own.late_ns = vec![128_900, 6_000];
        waits.own.bogus = WaitTally { count: 2, sum_ns: 18_000_000, max_ns: 16_000_000 };
        waits.finish();
        let mut counted = trigger(412, 2);
        counted.tables[0] = HistogramTotals { hits: 500, entries: 20, dropped: 0 };
        let mut measured = WindowMeasurement { already_queued: 1, ..measured(Ok(counted), waits) };
        let sums = super::super::schedstat_sums::SchedstatSums {
            tasks: 20,
            tasks_differ: 2,
            kernel_waits: 2_451,
            own_waits: 2_439,
            uncounted: 28,
            uncertain: 0,
            ambiguous: 3,
            late: 2,
            waiting: 5,
            unexplained: 4,
            timed_waits: 400,
            kernel_ns: 722_700_000,
            unfinished_ns: 0,
            own_ns: 724_000_000,
        };
        let schedstat = checks::schedstat(&sums, 11, 0, CLOCK_NS);
        let switches =
            |kernel, runs| super::super::switch_counts::SwitchCounts { runs_before: runs, kernel, runs_after: runs };
        let (ctxt, _) = checks::ctxt(switches(0, 0), switches(9_547, 9_534), Some(0), 2);
        measured.checks = vec![schedstat, ctxt, checks::unknown(queue_clock::NAME, "not here")];
        measured.classes = Some(ClassComparison {
            tracepoints: [(400, 9_600_000), (0, 0), (42, 90_000_000)],
            queue_clock: [(397, 9_410_000), (0, 0), (41, 89_100_000)],
        });
        measured.evaluate()
    }
}
