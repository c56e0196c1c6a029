//! How losses, sums and distributions decide the verdict: docs/verify.md.

use super::{
    checks::{self, Check, CheckOutcome},
    compare::{CLOCK_NS, Comparison, Mismatch, Tolerance},
    distributions,
    evaluation::{Verdict, Verification, tests::rich},
    queue_clock::DifferingInstrument,
    side::ExactCounts,
    text::text,
};
use wakelat_core::render::Style;
use wakelat_tracefs::hist_trigger::wakeup_latency::Buckets;

fn counted(latencies_ns: &[u64]) -> ExactCounts {
    let mut counts = ExactCounts::new(Buckets::Log2, CLOCK_NS);
    latencies_ns.iter().for_each(|latency_ns| counts.record(*latency_ns));
    counts
}

#[test]
fn an_event_for_which_the_kernel_skipped_a_program_of_wakelats_side_is_a_disagreement() {
    for (skipped, verdict) in [(0, Verdict::Agree), (1, Verdict::Disagree)] {
        let mut own = counted(&[24_000; 10]);
        let trigger = own.side.clone();
        own.side.totals.dropped = skipped;
        let comparison = Ok(Comparison::new(&own, trigger, Tolerance::default()));
        let verification = Verification { comparison, ..rich() };
        assert_eq!(verification.verdict(), verdict);
        let shown = text(&verification, &Style { width: 400, ..Style::default() });
        assert_eq!(shown.contains("or the kernel skipped a program"), skipped > 0, "{shown}");
    }
}

#[test]
fn sums_may_differ_by_the_clocks_tolerance_for_each_wait_and_by_100_ms_for_each_delayed_one() {
    // In one bucket, so that no wait moves.
    let mismatches = |apart_ns: u64, tolerance| {
        let own = counted(&[600_000_000 + apart_ns, 600_000_000]);
        Comparison::new(&own, counted(&[600_000_000; 2]).side, tolerance).mismatches
    };
    for (held_up, explained_ns) in [(0, 10_000), (2, 200_010_000)] {
        let tolerance = Tolerance { waits: 0, held_up };
        assert_eq!(mismatches(explained_ns, tolerance), []);
        let sum = Mismatch::Sum { difference_ns: u128::from(explained_ns) + 1, explained_ns: u128::from(explained_ns) };
        assert_eq!(mismatches(explained_ns + 1, tolerance), [sum]);
    }
    // A wait that only one side may have can be of any length.
    assert_eq!(mismatches(400_000_000, Tolerance { waits: 1, held_up: 0 }), []);
}

#[test]
fn a_distribution_that_differs_names_the_instrument_as_numbers_of_waits_do() {
    let mut verification = rich();
    verification.checks[2].outcome = CheckOutcome::Agree;
    assert_eq!((verification.differs(), verification.verdict()), (None, Verdict::Agree));
    let distributions = checks::unknown(distributions::NAME, "a tail that one instrument lacks");
    verification.checks.push(Check { outcome: CheckOutcome::Disagree, ..distributions });
    let named = |verification: &Verification| (verification.differs(), verification.verdict());
    assert_eq!(named(&verification), (Some(DifferingInstrument::QueueClock), Verdict::Disagree));
    verification.comparison.as_mut().unwrap().mismatches.push(Mismatch::NoWaits);
    assert_eq!(named(&verification), (Some(DifferingInstrument::Tracepoints), Verdict::Disagree));
    verification.checks[3].outcome = CheckOutcome::Unknown;
    assert_eq!(named(&verification), (None, Verdict::Disagree));
}
