//! The JSON documents of wakeup pairs.

use serde::Serialize;

use super::breakdown::TimeSumDocument;
use crate::{
    aggregate::percentile_rank::Percentile,
    render::key_document::key,
    report::KeyPart,
    why::wakeup_pairs::{RankedWakeupPairs, WakeupPair},
};

/// A waker and a wakee, with the waits that followed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WakeupPairDocument<'a> {
    /// The waker, by the keys of `--by` that describe a task (`comm`, `tid`, `pid`, `cgroup`, `container`), or by
    /// `comm` if there are none. `{"comm": "idle"}` for an interrupt on an idle CPU, `{}` if unknown.
    #[serde(serialize_with = "key")]
    #[cfg_attr(test, schemars(schema_with = "crate::render::key_document::schema"))]
    waker: &'a [KeyPart],
    /// The task that was woken, by the same keys.
    #[serde(serialize_with = "key")]
    #[cfg_attr(test, schemars(schema_with = "crate::render::key_document::schema"))]
    wakee: &'a [KeyPart],
    #[serde(flatten)]
    sum: TimeSumDocument,
    /// Median wait; at most 1/32 too high.
    p50_ns: u64,
    /// 99th percentile of the waits; at most 1/32 too high.
    p99_ns: u64,
}

impl<'a> WakeupPairDocument<'a> {
    pub(super) fn new(pair: &'a WakeupPair) -> Self {
        let waits = &pair.waits;
        Self {
            waker: &pair.waker,
            wakee: &pair.wakee,
            sum: TimeSumDocument { sum_ns: waits.ns, max_ns: waits.max_ns, waits: waits.count },
            p50_ns: waits.percentile_ns(Percentile::P50),
            p99_ns: waits.percentile_ns(Percentile::P99),
        }
    }
}

/// The waits after wakeups that are in none of the pairs written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WakeupPairsRestDocument {
    /// Sum of these waits.
    sum_ns: u128,
    /// Number of these waits.
    waits: u64,
    /// The waits of a pair take at most this much longer than shown: 4,096 pairs are kept, and those that waited
    /// least make room.
    error_ns: u128,
}

impl WakeupPairsRestDocument {
    pub(super) fn new(ranking: &RankedWakeupPairs) -> Self {
        let sum_of = |of: fn(&WakeupPair) -> u128| ranking.pairs.iter().map(of).sum::<u128>();
        let waits = sum_of(|pair| pair.waits.count.into());
        Self {
            sum_ns: ranking.all.ns - sum_of(|pair| pair.waits.ns),
            waits: ranking.all.count - u64::try_from(waits).unwrap_or(ranking.all.count),
            error_ns: ranking.error_ns,
        }
    }
}
