//! A distribution, as the JSON documents of the tracers have it.

use crate::aggregate::distribution::Distribution;
use serde::Serialize;

use super::PERCENTILES;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DistributionDocument {
    /// Number of values.
    count: u64,
    /// Sum of all values.
    sum_ns: u128,
    /// Smallest value, exact.
    min_ns: u64,
    /// Average, rounded down.
    avg_ns: u64,
    /// Largest value, exact.
    max_ns: u64,
    /// When the largest value was recorded, by the clock of the trace.
    max_at_ns: Option<u64>,
    /// The smallest value that this percentage of all values does not exceed, to three significant digits, by
    /// percent: `50`, `90`, `99`, `99.9`, `99.99`.
    percentiles_ns: PercentilesDocument,
    /// The values by bucket, in rising order, without empty buckets.
    buckets: Vec<BucketDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BucketDocument {
    /// Smallest value in the bucket.
    from_ns: u64,
    /// Smallest value above the bucket.
    to_ns: u64,
    /// Number of values in the bucket.
    count: u64,
}

/// The values of [`PERCENTILES`].
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PercentilesDocument {
    /// Half of the values do not exceed this.
    #[serde(rename = "50")]
    p50: u64,
    /// 90 % of the values do not exceed this.
    #[serde(rename = "90")]
    p90: u64,
    /// 99 % of the values do not exceed this.
    #[serde(rename = "99")]
    p99: u64,
    /// 99.9 % of the values do not exceed this.
    #[serde(rename = "99.9")]
    p99_9: u64,
    /// 99.99 % of the values do not exceed this.
    #[serde(rename = "99.99")]
    p99_99: u64,
}

impl PercentilesDocument {
    fn new(of: &Distribution) -> Self {
        let [p50, p90, p99, p99_9, p99_99] = PERCENTILES.map(|(percentile, _)| of.percentile_ns(percentile));
        Self { p50, p90, p99, p99_9, p99_99 }
    }
}

impl DistributionDocument {
    pub(super) fn new(of: &Distribution) -> Self {
        let buckets = of.buckets().into_iter();
        Self {
            count: of.count(),
            sum_ns: of.sum_ns(),
            min_ns: of.min_ns(),
            avg_ns: of.avg_ns(),
            max_ns: of.max_ns(),
            max_at_ns: of.max().map(|max| max.at_ns),
            percentiles_ns: PercentilesDocument::new(of),
            buckets: buckets.map(|b| BucketDocument { from_ns: b.from_ns, to_ns: b.to_ns, count: b.count }).collect(),
        }
    }
}
