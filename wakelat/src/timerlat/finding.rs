//! What stands out in the latencies of a run: the causes that a remedy is worth. The thresholds are those of
//! docs/timerlat.md.

use super::{
    explain::LatencyCause,
    summary::{ShareSum, TimerlatSummary},
};

/// Of all latency, a cause has to have this much to stand out: percent.
pub const MIN_SHARE_PERCENT: u128 = 20;

/// Or this much of the activation in which it had the most: percent.
pub const MIN_SHARE_OF_ONE_PERCENT: u128 = 50;

/// What is unexplained, this much of all latency, as it puts the others in doubt: percent.
pub const MIN_UNEXPLAINED_PERCENT: u128 = 5;

/// And as long as this in one activation: ns. Less is the usual way from a timer to a thread.
pub const MIN_LONGEST_NS: u64 = 10_000;

/// Findings that are shown.
const MAX_FINDINGS: usize = 5;

/// A cause that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatFinding {
    /// The cause.
    pub cause: LatencyCause,
    /// What it had of the explained activations.
    pub sum: ShareSum,
    /// Their latencies together: ns.
    pub total_ns: u128,
}

/// What stands out, the largest first.
pub fn findings(summary: &TimerlatSummary) -> Vec<TimerlatFinding> {
    let whole_ns = summary.explained_ns;
    let stands_out = |cause: &LatencyCause, sum: &ShareSum| {
        let of_all = |percent: u128| sum.ns * 100 >= whole_ns * percent;
        match cause {
            // What is measured there is the user's own code.
            LatencyCause::UserSpace => false,
            // Without records of interferences nothing else could be.
            LatencyCause::Unexplained => summary.coverage.noise > 0 && of_all(MIN_UNEXPLAINED_PERCENT),
            _ => {
                of_all(MIN_SHARE_PERCENT)
                    || u128::from(sum.max_ns) * 100 >= u128::from(sum.max_of_ns) * MIN_SHARE_OF_ONE_PERCENT
            }
        }
    };
    let shares = summary.shares_by_size().into_iter();
    shares
        .filter(|(cause, sum)| sum.max_ns >= MIN_LONGEST_NS && stands_out(cause, sum))
        .take(MAX_FINDINGS)
        .map(|(cause, sum)| TimerlatFinding { cause: cause.clone(), sum: *sum, total_ns: whole_ns })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::{
        fixtures,
        summary::{TimerlatSummaryBuilder, TimerlatSummaryOptions},
        text::{RESOLUTION_NS, TraceItem, TraceReader},
    };

    fn found(text: &str) -> Vec<TimerlatFinding> {
        let rules = TimerlatSummaryOptions {
            threshold_ns: None,
            worst: 0,
            resolution_ns: RESOLUTION_NS,
            ..TimerlatSummaryOptions::default()
        };
        let (mut summing, mut trace) = (TimerlatSummaryBuilder::new(rules), TraceReader::new(text.as_bytes()));
        while let Some(said) = trace.next().unwrap() {
            if let Ok(TraceItem::Record(record)) = said {
                summing.push(record);
            }
        }
        findings(&summing.end().0)
    }

    #[test]
    fn the_thread_that_kept_the_cpu_stands_out() {
        let found = found(fixtures::DOCUMENTATION[2]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            matches!(&found[0].cause, LatencyCause::Blocking(task) if task.comm.as_bytes() == b"insmod"),
            "{found:?}"
        );
        assert_eq!((found[0].sum.ns, found[0].total_ns), (838_681, 859_978));
    }

    #[test]
    fn short_latencies_have_no_finding_and_unexplained_is_none_where_nothing_was_recorded() {
        // Three quarters of 28.9 µs are unexplained, for want of records.
        assert_eq!(found(fixtures::DOCUMENTATION[0]), []);
        // 7 µs of an interrupt in 40 µs of latency: less than the usual way.
        let irqs = found(fixtures::DOCUMENTATION[1]);
        assert!(irqs.iter().all(|found| found.cause == LatencyCause::IrqDelay), "{irqs:?}");
    }
}
