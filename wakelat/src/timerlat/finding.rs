//! What stands out in the latencies of a run: the causes that a remedy is worth. The thresholds are those of
//! docs/timerlat.md.

use super::{
    explain::Cause,
    summary::{ShareSum, Summary},
};

/// Of all latency, a cause has to have this much to stand out: percent.
pub const SHARE: u128 = 20;

/// Or this much of the activation in which it had the most: percent.
pub const SHARE_OF_ONE: u128 = 50;

/// What is unexplained, this much of all latency, as it puts the others in doubt: percent.
pub const UNEXPLAINED: u128 = 5;

/// And as long as this in one activation: ns. Less is the usual way from a timer to a thread.
pub const ONCE_NS: u64 = 10_000;

/// Findings that are shown.
const SHOWN: usize = 5;

/// A cause that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// What it had of the explained activations.
    pub sum: ShareSum,
    /// Their latencies together: ns.
    pub whole_ns: u128,
}

/// What stands out, the largest first.
pub fn findings(summary: &Summary) -> Vec<Finding> {
    let whole_ns = summary.explained_ns;
    let stands_out = |cause: &Cause, sum: &ShareSum| {
        let of_all = |percent: u128| sum.ns * 100 >= whole_ns * percent;
        match cause {
            // What is measured there is the user's own code.
            Cause::UserSpace => false,
            // Without records of interferences nothing else could be.
            Cause::Unexplained => summary.coverage.noise > 0 && of_all(UNEXPLAINED),
            _ => of_all(SHARE) || u128::from(sum.max_ns) * 100 >= u128::from(sum.max_of_ns) * SHARE_OF_ONE,
        }
    };
    let shares = summary.shares_by_size().into_iter();
    shares
        .filter(|(cause, sum)| sum.max_ns >= ONCE_NS && stands_out(cause, sum))
        .take(SHOWN)
        .map(|(cause, sum)| Finding { cause: cause.clone(), sum: *sum, whole_ns })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timerlat::{
        fixtures,
        summary::{Rules, Summing},
        text::{RESOLUTION_NS, Said, Trace},
    };

    fn found(text: &str) -> Vec<Finding> {
        let rules = Rules { threshold_ns: None, worst: 0, resolution_ns: RESOLUTION_NS, ..Rules::default() };
        let (mut summing, mut trace) = (Summing::new(rules), Trace::new(text.as_bytes()));
        while let Some(said) = trace.next().unwrap() {
            if let Ok(Said::Record(record)) = said {
                summing.push(record);
            }
        }
        findings(&summing.end().0)
    }

    #[test]
    fn the_thread_that_kept_the_cpu_stands_out() {
        let found = found(fixtures::DOCUMENTATION[2]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(matches!(&found[0].cause, Cause::Blocking(task) if task.comm.as_bytes() == b"insmod"), "{found:?}");
        assert_eq!((found[0].sum.ns, found[0].whole_ns), (838_681, 859_978));
    }

    #[test]
    fn short_latencies_have_no_finding_and_unexplained_is_none_where_nothing_was_recorded() {
        // Three quarters of 28.9 µs are unexplained, for want of records.
        assert_eq!(found(fixtures::DOCUMENTATION[0]), []);
        // 7 µs of an interrupt in 40 µs of latency: less than the usual way.
        let irqs = found(fixtures::DOCUMENTATION[1]);
        assert!(irqs.iter().all(|found| found.cause == Cause::IrqDelay), "{irqs:?}");
    }
}
