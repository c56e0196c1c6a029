//! The JSON documents of wakeup pairs.

use serde::Serialize;

use super::TimeSumDocument;
use crate::{
    aggregate::percentile_rank::Percentile,
    render::report_document::key,
    report::KeyPart,
    why::wakeup_pairs::{RankedWakeupPairs, WakeupPair},
};

/// A waker and a wakee, with the waits that followed.
#[derive(Serialize)]
pub(super) struct WakeupPairDocument<'a> {
    #[serde(serialize_with = "key")]
    waker: &'a [KeyPart],
    #[serde(serialize_with = "key")]
    wakee: &'a [KeyPart],
    #[serde(flatten)]
    sum: TimeSumDocument,
    p50_ns: u64,
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
pub(super) struct WakeupPairsRestDocument {
    sum_ns: u128,
    waits: u64,
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
