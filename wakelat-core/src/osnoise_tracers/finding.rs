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
}
