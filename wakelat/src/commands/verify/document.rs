//! A verification as a JSON document: `wakelat.verify/1`.

use serde_json::{Map, Value as Json, json};
use wakelat_common::Class;

use super::{
    compare::{Comparison, Mismatch},
    evaluation::Verification,
    paired_waits::WaitTally,
    side::SideCounts,
};
use wakelat_tracefs::hist_trigger::HistogramTotals;

/// Renders the document; times are integers in ns.
pub fn of(verification: &Verification) -> Json {
    let rules = &verification.rules;
    let classes: Map<String, Json> =
        Class::ALL.into_iter().map(|class| (class.name().to_owned(), tally(rules.of(class)))).collect();
    let tables = verification.tables.as_ref().map(|[starts, ends, latencies]| {
        json!({ "starts": totals(starts), "ends": totals(ends), "latencies": totals(latencies) })
    });
    let checks: Vec<Json> = verification
        .checks
        .iter()
        .map(|check| {
            let numbers: Map<String, Json> =
                check.numbers.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
            json!({ "name": check.name, "outcome": check.outcome.name(), "found": check.found, "numbers": numbers })
        })
        .collect();
    json!({
        "schema": "wakelat.verify/1",
        "kernel": verification.kernel,
        "duration_ns": verification.duration_ns,
        "from": verification.from.name(),
        "verdict": verification.verdict().name(),
        "not_compared": verification.comparison.as_ref().err().map(|why| {
            json!({ "reason": why.name(), "text": why.to_string() })
        }),
        "comparison": verification.comparison.as_ref().ok().map(comparison),
        "switching_ns": verification.switching_ns,
        "tables": tables,
        "rules": {
            "classes": classes,
            "already_running": rules.already_running,
            "already_queued": rules.already_queued,
            "bogus": tally(&rules.bogus),
            "restarted": tally(&rules.restarted),
            "unknown": tally(&rules.unknown),
            "held_up": tally(&rules.held_up),
        },
        "checks": checks,
    })
}

fn comparison(comparison: &Comparison) -> Json {
    let side = |side: &SideCounts| {
        json!({
            "count": side.count(),
            "sum_ns": side.sum_ns.map(|sum| u64::try_from(sum).unwrap_or(u64::MAX)),
            "hits": side.totals.hits,
            "entries": side.totals.entries,
            "dropped": side.totals.dropped,
        })
    };
    let buckets: Vec<Json> = comparison
        .rows
        .iter()
        .map(|row| {
            json!({
                "from_ns": row.range.0,
                "last_ns": row.range.1,
                "wakelat": row.bpf,
                "trigger": row.trigger,
                "moved": i64::try_from(row.moved).unwrap_or(i64::MAX),
                "explained": row.explained,
            })
        })
        .collect();
    let reasons: Vec<String> = comparison.mismatches.iter().map(Mismatch::to_string).collect();
    json!({
        "wakelat": side(&comparison.bpf),
        "trigger": side(&comparison.trigger),
        "buckets": buckets,
        "distance": comparison.distance,
        "clock_ns": comparison.clock_ns,
        "tolerated_waits": comparison.tolerance.waits,
        "held_up": comparison.tolerance.held_up,
        "agree": comparison.agrees(),
        "reasons": reasons,
    })
}

fn tally(tally: &WaitTally) -> Json {
    json!({
        "count": tally.count,
        "sum_ns": u64::try_from(tally.sum_ns).unwrap_or(u64::MAX),
        "max_ns": tally.max_ns,
    })
}

fn totals(totals: &HistogramTotals) -> Json {
    json!({ "hits": totals.hits, "entries": totals.entries, "dropped": totals.dropped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify::evaluation::{NotCompared, tests::rich};
    use wakelat_core::render::output_page::{all_paths, documented};

    #[test]
    fn every_field_is_documented_and_every_documented_field_is_written() {
        let mut written = all_paths(&of(&rich()));
        written.extend(all_paths(&of(&Verification { comparison: Err(NotCompared::NoHistTriggers), ..rich() })));
        assert_eq!(documented("Verification: `wakelat.verify/1`"), written);
    }

    #[test]
    fn a_verification_without_triggers_has_its_reason() {
        let document = of(&Verification { comparison: Err(NotCompared::Denied("/t".into())), ..rich() });
        assert_eq!((&document["verdict"], &document["comparison"]), (&json!("not_compared"), &Json::Null));
        assert_eq!(document["not_compared"]["reason"], "tracefs_closed");
        assert_eq!(of(&rich())["not_compared"], Json::Null);
    }
}
