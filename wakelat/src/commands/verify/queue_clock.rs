//! Compares the waits that the tracepoints measure with those that the run queue's own clock measures in the same
//! window ([`wakelat_common::queue_clock`]). Pure: [`super::queue_clock_side`] measures.
//!
//! Both programs see the same switches, so each wait by the tracepoints ends in one of the terms of the queue clock,
//! and each wait by the queue clock is one by the tracepoints, except for these known differences:
//!
//! - The queue clock does not know the class of a wait whose start it has not seen, and the kernel does not time
//!   every wait: `unknown_start`, `after_unseen`, `not_timed` and `invalid` of [`SwitchInTerms`]. The kernel may
//!   also have skipped its program.
//! - The tracepoints lack waits that they lost, those of tasks that waited when the programs attached, and two for
//!   each switch that fired no tracepoint.
//! - A wait that ends while the queue clock's counts are read may be in them or not, and so may that of one switch in
//!   progress on each CPU: one program has run for it, and the other has not.

use wakelat_common::Class;
use wakelat_core::{render::units, report::SwitchInTerms, wait::Wait};

use super::{
    checks::{Check, CheckOutcome},
    distributions::{self, BucketTally, OneSidedWaits},
    paired_waits::WaitTally,
    window::{BracketSide, TimeBracket},
};

/// The name of the check in JSON.
pub const NAME: &str = "queue_clock";

/// The waits by the tracepoints that ended between two readings of the queue clock's counts.
#[derive(Clone, Debug, Default)]
pub struct WaitsBetweenReadings {
    opened: Option<TimeBracket>,
    closed: Option<TimeBracket>,
    /// Waits that ended between the two readings, indexed by [`Class`].
    inside: [WaitTally; 3],
    /// Waits that ended during one of the readings, indexed by [`Class`].
    during: [u64; 3],
    /// The lengths of the waits after a wakeup that ended between the two readings.
    wakeups: BucketTally,
}

impl WaitsBetweenReadings {
    /// The first reading was taken at `at`. Waits added before do not count.
    pub fn open(&mut self, at: TimeBracket) {
        self.opened = Some(at);
    }

    /// The last reading was taken at `at`. All waits added before ended before it.
    pub fn close(&mut self, at: TimeBracket) {
        self.closed = Some(at);
    }

    /// Adds a wait by wakelat's own rules.
    pub fn add(&mut self, wait: &Wait) {
        let Some(opened) = self.opened else { return };
        let class = wait.class as usize;
        // The brackets and the wait are by the same clock, read in this order: nothing to tolerate.
        let off = self.closed.map_or(BracketSide::Before, |closed| closed.side(wait.at_ns, 0));
        match (opened.side(wait.at_ns, 0), off) {
            (BracketSide::Before, _) | (_, BracketSide::After) => {}
            (BracketSide::After, BracketSide::Before) => {
                self.inside[class].add(wait.latency_ns);
                if wait.class == Class::Wakeup {
                    self.wakeups.add(wait.latency_ns);
                }
            }
            _ => self.during[class] += 1,
        }
    }
}

/// The waits by the queue clock between the two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueClockCounts {
    /// Number and sum in ns of the measured waits, indexed by [`Class`].
    pub classes: [(u64, u128); 3],
    /// The terms of all switch-ins, from before the first reading until after the last one.
    pub terms: SwitchInTerms,
    /// Switches for which the kernel skipped the program; `None` if it does not count them.
    pub missed: Option<u64>,
    /// The lengths of the measured waits after a wakeup.
    pub wakeups: BucketTally,
}

/// What the tracepoints may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracepointLosses {
    /// Waits that the programs lost, or that the kernel skipped them for.
    pub lost: u64,
    /// Switches that fired no tracepoint.
    pub untraced: u64,
    /// Tasks that waited when the first counters were read: one wait each, whose start may be unknown.
    pub waiting: u64,
}

/// The waits of each class by two instruments, between the same two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassComparison {
    /// Number and sum in ns by the tracepoints, indexed by [`Class`].
    pub tracepoints: [(u64, u128); 3],
    /// Number and sum in ns by the queue clock, indexed by [`Class`].
    pub queue_clock: [(u64, u128); 3],
}

/// Lays the waits of each class by the two instruments side by side.
pub fn classes(by_tracepoints: &WaitsBetweenReadings, queue: &QueueClockCounts) -> ClassComparison {
    let tracepoints = by_tracepoints.inside.map(|tally| (tally.count, tally.sum_ns));
    ClassComparison { tracepoints, queue_clock: queue.classes }
}

/// How many waits each instrument may lack. `cpus` is the number of CPUs.
fn one_sided(
    by_tracepoints: &WaitsBetweenReadings,
    queue: &QueueClockCounts,
    lacks: TracepointLosses,
    cpus: u64,
) -> OneSidedWaits {
    let terms = &queue.terms;
    let unknown = terms.unknown_start + terms.after_unseen + terms.not_timed + terms.invalid;
    let during: u64 = by_tracepoints.during.iter().sum();
    OneSidedWaits {
        by_tracepoints: unknown + queue.missed.unwrap_or(0) + 2 * cpus,
        by_queue_clock: during + lacks.lost + 2 * lacks.untraced + lacks.waiting + 2 * cpus,
    }
}

/// Judges the two distributions of waits after a wakeup, whose lengths may be `distance_ns` apart. `cpus` is the number of
/// CPUs.
pub fn check_distributions(
    by_tracepoints: &WaitsBetweenReadings,
    queue: &QueueClockCounts,
    lacks: TracepointLosses,
    cpus: u64,
    distance_ns: u64,
) -> Check {
    let only = one_sided(by_tracepoints, queue, lacks, cpus);
    distributions::check(&by_tracepoints.wakeups, &queue.wakeups, only, distance_ns)
}

/// Judges the two counts, for each class and for all together. `cpus` is the number of CPUs.
pub fn check(
    by_tracepoints: &WaitsBetweenReadings,
    queue: &QueueClockCounts,
    lacks: TracepointLosses,
    cpus: u64,
) -> Check {
    let QueueClockCounts { classes, terms, missed, .. } = queue;
    // One switch in progress on each CPU at each of the two readings.
    let in_progress = 2 * cpus;
    let skipped = missed.unwrap_or(0);
    let unknown = terms.unknown_start + terms.after_unseen + terms.not_timed + terms.invalid + skipped;
    let unmeasured = lacks.lost + 2 * lacks.untraced + lacks.waiting;
    let agrees = |inside: u64, during: u64, queued: u64| {
        inside <= queued + unknown + in_progress && queued <= inside + during + unmeasured + in_progress
    };
    let inside: u64 = by_tracepoints.inside.iter().map(|tally| tally.count).sum();
    let during: u64 = by_tracepoints.during.iter().sum();
    let queued: u64 = classes.iter().map(|(count, _)| count).sum();
    let of_class = |class: Class| {
        let class = class as usize;
        (by_tracepoints.inside[class].count, by_tracepoints.during[class], classes[class].0)
    };
    let differing: Vec<&str> = Class::ALL
        .into_iter()
        .filter(|class| {
            let (inside, during, queued) = of_class(*class);
            !agrees(inside, during, queued)
        })
        .map(Class::name)
        .collect();
    let unaccounted = terms.unaccounted();
    let agree = agrees(inside, during, queued) && differing.is_empty() && unaccounted == 0;
    let sum_ns: u128 = by_tracepoints.inside.iter().map(|tally| tally.sum_ns).sum();
    let queued_ns: u128 = classes.iter().map(|(_, sum_ns)| sum_ns).sum();
    let mut found = format!(
        "waits: {} by the tracepoints, {} by the queue clock, whose program saw {} more without a known start or length; \
         the tracepoints may lack {}; {} ended while the counts were read, and up to {} may be in progress; \
         waiting time, not compared: {} by the tracepoints, {} by the queue clock",
        units::thousands(inside),
        units::thousands(queued),
        units::thousands(unknown),
        units::thousands(unmeasured),
        units::thousands(during),
        units::thousands(in_progress),
        units::duration(sum_ns, false),
        units::duration(queued_ns, false),
    );
    if !differing.is_empty() {
        found.push_str(&format!("; these numbers do not explain the difference of class {}", differing.join(", ")));
    }
    if unaccounted != 0 {
        found.push_str(&format!("; {unaccounted} switch-ins are unaccounted for by the queue clock"));
    }
    let short = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    let [wakeup, new, preempted] = [Class::Wakeup, Class::New, Class::Preempted].map(of_class);
    let mut numbers = vec![
        ("tracepoint_waits", inside),
        ("queue_clock_waits", queued),
        ("tracepoint_wakeup", wakeup.0),
        ("queue_clock_wakeup", wakeup.2),
        ("tracepoint_new", new.0),
        ("queue_clock_new", new.2),
        ("tracepoint_preempted", preempted.0),
        ("queue_clock_preempted", preempted.2),
        ("during_readings", during),
        ("in_progress", in_progress),
        ("unknown_start", terms.unknown_start),
        ("after_unseen", terms.after_unseen),
        ("not_timed", terms.not_timed),
        ("invalid", terms.invalid),
    ];
    numbers.extend(missed.map(|missed| ("queue_clock_missed", missed)));
    numbers.extend([
        ("tracepoints_lack", unmeasured),
        ("tracepoint_ns", short(sum_ns)),
        ("queue_clock_ns", short(queued_ns)),
    ]);
    let outcome = match (inside + during + queued, agree) {
        (0, true) => CheckOutcome::Unknown,
        (_, true) => CheckOutcome::Agree,
        (_, false) => CheckOutcome::Disagree,
    };
    Check { name: NAME, outcome, found, numbers }
}

/// One of the three instruments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferingInstrument {
    /// wakelat's programs on the tracepoints of wakeups and switches.
    Tracepoints,
    /// The run queue's own clock.
    QueueClock,
}

impl DifferingInstrument {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracepoints => "tracepoints",
            Self::QueueClock => "queue_clock",
        }
    }

    /// The instrument that differs from the two others, given whether the tracepoints agree with the hist triggers,
    /// if these were compared, and the outcome of [`check`].
    ///
    /// If only the hist triggers differ from the tracepoints, the queue clock does not decide between the two: it
    /// does not measure by the trigger's rules.
    pub fn differing(triggers_agree: Option<bool>, queue_clock: CheckOutcome) -> Option<Self> {
        match (triggers_agree, queue_clock) {
            (Some(true), CheckOutcome::Disagree) => Some(Self::QueueClock),
            (Some(false), CheckOutcome::Disagree) => Some(Self::Tracepoints),
            _ => None,
        }
    }
}

impl std::fmt::Display for DifferingInstrument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tracepoints => "the tracepoints differ from the hist triggers and from the queue clock",
            Self::QueueClock => "the queue clock differs from the tracepoints, which agree with the hist triggers",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::render::testing;

    const CPUS: u64 = 2;
    const IN_PROGRESS: u64 = 4;

    fn at(at_ns: u64) -> TimeBracket {
        TimeBracket { before_ns: at_ns, after_ns: at_ns + 10 }
    }

    fn wait(class: Class, at_ns: u64) -> Wait {
        Wait { class, at_ns, latency_ns: 100, ..testing::wait() }
    }

    /// `count` waits of a class between two readings.
    fn waits(class: Class, count: u64) -> WaitsBetweenReadings {
        let mut waits = WaitsBetweenReadings::default();
        waits.open(at(1_000));
        (0..count).for_each(|index| waits.add(&wait(class, 2_000 + index)));
        waits
    }

    fn queue(class: Class, count: u64, terms: SwitchInTerms) -> QueueClockCounts {
        let mut queue = QueueClockCounts::default();
        queue.classes[class as usize] = (count, u128::from(count) * 90);
        let named = terms.unknown_start + terms.after_unseen + terms.not_timed + terms.invalid;
        queue.terms = SwitchInTerms { seen: count + named, measured: count, ..terms };
        queue
    }

    fn outcome(tracepoints: u64, queued: QueueClockCounts, lacks: TracepointLosses) -> CheckOutcome {
        check(&waits(Class::Wakeup, tracepoints), &queued, lacks, CPUS).outcome
    }

    #[test]
    fn a_wait_counts_between_the_readings_and_may_count_during_them() {
        let mut waits = WaitsBetweenReadings::default();
        waits.add(&wait(Class::New, 5_000));
        waits.open(at(1_000));
        for at_ns in [999, 1_000, 1_010, 1_011] {
            waits.add(&wait(Class::New, at_ns));
        }
        waits.close(at(9_000));
        for at_ns in [8_999, 9_000, 9_010, 9_011] {
            waits.add(&wait(Class::New, at_ns));
        }
        let class = Class::New as usize;
        assert_eq!((waits.inside[class].count, waits.during[class]), (2, 4));
    }

    #[test]
    fn the_waiting_times_are_shown_as_not_compared() {
        let queued = queue(Class::Wakeup, 100, SwitchInTerms::default());
        let check = check(&waits(Class::Wakeup, 100), &queued, TracepointLosses::default(), CPUS);
        assert_eq!(check.outcome, CheckOutcome::Agree);
        let times = "waiting time, not compared: 10.0 us by the tracepoints, 9.0 us by the queue clock";
        assert!(check.found.contains(times), "{}", check.found);
    }

    #[test]
    fn each_named_difference_explains_one_wait_and_no_more() {
        let none = TracepointLosses::default();
        for terms in [
            SwitchInTerms { unknown_start: 7, ..Default::default() },
            SwitchInTerms { after_unseen: 7, ..Default::default() },
            SwitchInTerms { not_timed: 7, ..Default::default() },
            SwitchInTerms { invalid: 7, ..Default::default() },
        ] {
            let apart = 7 + IN_PROGRESS;
            assert_eq!(outcome(100 + apart, queue(Class::Wakeup, 100, terms), none), CheckOutcome::Agree);
            assert_eq!(outcome(101 + apart, queue(Class::Wakeup, 100, terms), none), CheckOutcome::Disagree);
        }
        for (lacks, apart) in [
            (TracepointLosses { lost: 7, ..none }, 7),
            (TracepointLosses { untraced: 7, ..none }, 14),
            (TracepointLosses { waiting: 7, ..none }, 7),
        ] {
            let queued = |more| queue(Class::Wakeup, 100 + apart + IN_PROGRESS + more, SwitchInTerms::default());
            assert_eq!(outcome(100, queued(0), lacks), CheckOutcome::Agree);
            assert_eq!(outcome(100, queued(1), lacks), CheckOutcome::Disagree);
        }
    }

    #[test]
    fn each_switch_for_which_the_queue_clock_was_skipped_explains_one_wait_and_an_unknown_number_none() {
        let lacks = TracepointLosses::default();
        for (missed, apart) in [(Some(7), 7 + IN_PROGRESS), (Some(0), IN_PROGRESS), (None, IN_PROGRESS)] {
            let queued = QueueClockCounts { missed, ..queue(Class::Wakeup, 100, SwitchInTerms::default()) };
            let check = |tracepoints| check(&waits(Class::Wakeup, tracepoints), &queued, lacks, CPUS);
            assert_eq!(check(100 + apart).outcome, CheckOutcome::Agree, "{missed:?}");
            assert_eq!(check(101 + apart).outcome, CheckOutcome::Disagree, "{missed:?}");
            let numbers = check(100).numbers;
            let number = numbers.iter().find(|(name, _)| *name == "queue_clock_missed");
            assert_eq!(number.map(|(_, missed)| *missed), missed);
            let only = one_sided(&waits(Class::Wakeup, 100), &queued, lacks, CPUS);
            assert_eq!(only.by_tracepoints, apart, "{missed:?}");
        }
    }

    #[test]
    fn equal_totals_of_different_classes_disagree() {
        let check = check(
            &waits(Class::Wakeup, 100),
            &queue(Class::New, 100, SwitchInTerms::default()),
            Default::default(),
            CPUS,
        );
        assert_eq!(check.outcome, CheckOutcome::Disagree);
        assert!(check.found.contains("difference of class wakeup, new"), "{check:?}");
    }

    #[test]
    fn a_switch_in_that_is_in_no_term_is_a_difference() {
        let mut queued = queue(Class::Wakeup, 100, SwitchInTerms::default());
        queued.terms.seen += 1;
        assert_eq!(outcome(100, queued, TracepointLosses::default()), CheckOutcome::Disagree);
    }

    #[test]
    fn without_waits_the_outcome_is_unknown() {
        let queued = queue(Class::Wakeup, 0, SwitchInTerms::default());
        assert_eq!(outcome(0, queued, TracepointLosses::default()), CheckOutcome::Unknown);
    }

    #[test]
    fn the_instrument_that_differs_is_named_only_if_two_comparisons_single_it_out() {
        use CheckOutcome::{Agree, Disagree, Unknown};
        for (triggers, queue_clock, named) in [
            (Some(true), Agree, None),
            (Some(true), Disagree, Some(DifferingInstrument::QueueClock)),
            (Some(false), Disagree, Some(DifferingInstrument::Tracepoints)),
            (Some(false), Agree, None),
            (Some(false), Unknown, None),
            (None, Disagree, None),
        ] {
            assert_eq!(DifferingInstrument::differing(triggers, queue_clock), named, "{triggers:?}, {queue_clock:?}");
        }
    }
}
