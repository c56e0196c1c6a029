//! Who woke whom.

use serde::Serialize;

use super::SumDocument;
use crate::{
    aggregate::rank::Percentile,
    report::KeyPart,
    sink::document::key,
    why::wakers::{Ranking, Waking},
};

/// A pair of waker and wakee.
#[derive(Serialize)]
pub(super) struct WakingDocument<'a> {
    #[serde(serialize_with = "key")]
    waker: &'a [KeyPart],
    #[serde(serialize_with = "key")]
    wakee: &'a [KeyPart],
    #[serde(flatten)]
    sum: SumDocument,
    p50_ns: u64,
    p99_ns: u64,
}

impl<'a> WakingDocument<'a> {
    pub(super) fn new(pair: &'a Waking) -> Self {
        let waits = &pair.waits;
        Self {
            waker: &pair.waker,
            wakee: &pair.wakee,
            sum: SumDocument { sum_ns: waits.ns, max_ns: waits.max_ns, waits: waits.count },
            p50_ns: waits.percentile_ns(Percentile::P50),
            p99_ns: waits.percentile_ns(Percentile::P99),
        }
    }
}

/// The waits of woken tasks that are in no pair written.
#[derive(Serialize)]
pub(super) struct RestDocument {
    sum_ns: u128,
    waits: u64,
    error_ns: u128,
}

impl RestDocument {
    pub(super) fn new(ranking: &Ranking) -> Self {
        let written = |of: fn(&Waking) -> u128| ranking.pairs.iter().map(of).sum::<u128>();
        let waits = written(|pair| pair.waits.count.into());
        Self {
            sum_ns: ranking.all.ns - written(|pair| pair.waits.ns),
            waits: ranking.all.count - u64::try_from(waits).unwrap_or(ranking.all.count),
            error_ns: ranking.error_ns,
        }
    }
}
