//! The findings of a run: causes large enough to be worth a remedy. docs/timerlat.md lists the thresholds.

use super::{
    explain::LatencyCause,
    summary::{ShareSum, TimerlatSummary},
};

/// Minimum share of all latency of a finding: percent.
pub const MIN_SHARE_PERCENT: u128 = 20;

/// Alternatively, minimum share of the latency of the activation in which the cause took the most time:
/// percent.
pub const MIN_SHARE_OF_ONE_PERCENT: u128 = 50;

/// Minimum share of all latency that is unexplained, because that puts the other causes in doubt: percent.
pub const MIN_UNEXPLAINED_PERCENT: u128 = 5;

/// Minimum time that a finding took in one activation: ns. Less is the normal path from a timer to a
/// thread.
pub const MIN_LONGEST_NS: u64 = 10_000;

/// Maximum number of findings.
const MAX_FINDINGS: usize = 5;

/// A cause large enough to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatFinding {
    /// The cause.
    pub cause: LatencyCause,
    /// The time of this cause in the explained activations.
    pub sum: ShareSum,
    /// The latencies of all explained activations together: ns.
    pub total_ns: u128,
}

/// The findings of a run, the largest first.
pub fn findings(summary: &TimerlatSummary) -> Vec<TimerlatFinding> {
    let whole_ns = summary.explained_ns;
    let is_large = |cause: &LatencyCause, sum: &ShareSum| {
        let of_all = |percent: u128| sum.ns * 100 >= whole_ns * percent;
        match cause {
            // The latency of user space is that of the user's own code.
            LatencyCause::UserSpace => false,
            // Without records of interferences, everything is unexplained.
            LatencyCause::Unexplained => summary.coverage.noise > 0 && of_all(MIN_UNEXPLAINED_PERCENT),
            _ => {
                of_all(MIN_SHARE_PERCENT)
                    || u128::from(sum.max_ns) * 100 >= u128::from(sum.max_of_ns) * MIN_SHARE_OF_ONE_PERCENT
            }
        }
    };
    let shares = summary.shares_by_size().into_iter();
    shares
        .filter(|(cause, sum)| sum.max_ns >= MIN_LONGEST_NS && is_large(cause, sum))
        .take(MAX_FINDINGS)
        .map(|(cause, sum)| TimerlatFinding { cause: cause.clone(), sum: *sum, total_ns: whole_ns })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise_tracers::{
        fixtures,
        summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
        text::{RESOLUTION_NS, TraceItem, TraceReader},
    };

    fn found(text: &str) -> Vec<TimerlatFinding> {
        let options = TimerlatSummaryOptions {
            threshold_ns: None,
            worst: 0,
            resolution_ns: RESOLUTION_NS,
            ..TimerlatSummaryOptions::default()
        };
        let (mut builder, mut trace) = (TimerlatSummaryBuilder::new(options), TraceReader::new(text.as_bytes()));
        while let Some(item) = trace.next().unwrap() {
            if let Ok(TraceItem::Record(record)) = item {
                builder.push(record);
            }
        }
        findings(&builder.end().0)
    }

    #[test]
    fn the_thread_that_kept_the_cpu_is_the_finding() {
        let found = found(fixtures::DOCUMENTATION[2]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            matches!(&found[0].cause, LatencyCause::Blocking(task) if task.comm.as_bytes() == b"insmod"),
            "{found:?}"
        );
        assert_eq!((found[0].sum.ns, found[0].total_ns), (838_681, 859_978));
    }

    #[test]
    fn short_or_unrecorded_latencies_have_no_findings() {
        // Three quarters of 28.9 µs are unexplained, because there are no noise records.
        assert_eq!(found(fixtures::DOCUMENTATION[0]), []);
        // 7 µs of an interrupt in 40 µs of latency: less than the normal path takes.
        let irqs = found(fixtures::DOCUMENTATION[1]);
        assert!(irqs.iter().all(|found| found.cause == LatencyCause::IrqDelay), "{irqs:?}");
    }

    /// The causes that are findings of a run with 1 ms of latency in total and `noise` noise records. Each cause has
    /// its total, its most in one activation and the latency of that activation: ns.
    fn of_causes(causes: Vec<(LatencyCause, u64, u64, u64)>, noise: u64) -> Vec<LatencyCause> {
        let (mut summary, _) = TimerlatSummaryBuilder::new(TimerlatSummaryOptions::default()).end();
        summary.explained_ns = 1_000_000;
        summary.coverage.noise = noise;
        for (cause, ns, max_ns, max_of_ns) in causes {
            let sum = ShareSum { ns: ns.into(), max_ns, max_of_ns, activations: 1, times: 1 };
            summary.shares.insert(cause, sum);
        }
        findings(&summary).into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn a_cause_is_a_finding_from_its_limits_on() {
        use LatencyCause::{Nmi, Unexplained, UserSpace};
        for (cause, [ns, max_ns, max_of_ns], is_finding) in [
            // 10 us in one activation, and 20 % of all latency.
            (Nmi, [200_000, 10_000, 100_000], true),
            (Nmi, [199_999, 10_000, 100_000], false),
            (Nmi, [200_000, 9_999, 100_000], false),
            // Half of the activation in which it took the most.
            (Nmi, [50_000, 50_000, 100_000], true),
            (Nmi, [50_000, 49_999, 100_000], false),
            (Nmi, [9_999, 9_999, 10_000], false),
            // 5 % of all latency, whatever its part of one activation.
            (Unexplained, [50_000, 10_000, 100_000], true),
            (Unexplained, [49_999, 40_000, 40_000], false),
            // The user's own code.
            (UserSpace, [900_000, 900_000, 900_000], false),
        ] {
            let expected = if is_finding { vec![cause.clone()] } else { Vec::new() };
            assert_eq!(of_causes(vec![(cause, ns, max_ns, max_of_ns)], 1), expected, "{ns}, {max_ns}, {max_of_ns}");
        }
        let unexplained = || vec![(Unexplained, 900_000, 900_000, 900_000)];
        assert_eq!(of_causes(unexplained(), 1), [Unexplained]);
        assert_eq!(of_causes(unexplained(), 0), [], "without noise records");
    }

    #[test]
    fn the_five_largest_causes_are_findings() {
        let cause = |number: i32| (LatencyCause::Softirq(number), 20_000 * number as u64, 20_000, 20_000);
        let expected: Vec<LatencyCause> = (3..=7).rev().map(LatencyCause::Softirq).collect();
        assert_eq!(of_causes((1..=7).map(cause).collect(), 1), expected);
    }
}
