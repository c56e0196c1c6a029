//! A verification for programs: `wakelat.verify/1`.

use serde_json::{Map, Value as Json, json};
use wakelat_common::Class;

use super::{show, summary::Verification, waits::Tally};
use crate::{hist_trigger::Totals, report::From};

/// The document; integers in ns.
pub fn of(verification: &Verification) -> Json {
    let rules = &verification.rules;
    let classes: Map<String, Json> = Class::ALL
        .into_iter()
        .map(|class| (class.name().to_owned(), tally(&rules.own.classes[class as usize])))
        .collect();
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
        "from": match verification.from {
            From::Wakeup => "wakeup",
            From::Waking => "waking",
        },
        "agree": verification.agrees(),
        "comparison": verification.comparison.as_ref().map(show::document),
        "no_triggers": verification.no_triggers,
        "switching_ns": verification.switching_ns,
        "tables": tables,
        "rules": {
            "classes": classes,
            "woken_running": rules.woken_running,
            "woken_waiting": rules.woken_waiting,
            "bogus": tally(&rules.own.bogus),
            "restarted": tally(&rules.own.restarted),
            "unknown": tally(&rules.own.unknown),
        },
        "checks": checks,
    })
}

fn tally(tally: &Tally) -> Json {
    json!({
        "count": tally.count,
        "sum_ns": u64::try_from(tally.sum_ns).unwrap_or(u64::MAX),
        "max_ns": tally.max_ns,
    })
}

fn totals(totals: &Totals) -> Json {
    json!({ "hits": totals.hits, "entries": totals.entries, "dropped": totals.dropped })
}
