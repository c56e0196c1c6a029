//! The whole report of a timerlat run against the tracer's records.

use std::collections::BTreeMap;

use serde_json::Value;
use wakelat_tests::{
    from_each_source,
    suite::{Case, TestOutcome},
    tracer::{self, ParsedTrace, run},
};

pub fn cases() -> Vec<Case> {
    from_each_source![the_report_matches_the_records]
}

fn the_report_matches_the_records(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    let (ended, trace) = run("timerlat", &["--source", source, "-p", "10ms", "-d", "995ms"]);
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).expect("a document");
    assert_figures(&document, &trace);
    assert_explained(&document);
    Ok(())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("`{value}` is no number"))
}

/// Asserts that every figure of every distribution matches the recorded latencies.
fn assert_figures(document: &Value, trace: &ParsedTrace) {
    let mut recorded: BTreeMap<(Option<u64>, &str), Vec<u64>> = BTreeMap::new();
    for (_, latency) in &trace.latencies {
        let context = if latency.context == "user-ret" { "user" } else { &latency.context };
        for cpu in [None, Some(u64::from(latency.cpu))] {
            recorded.entry((cpu, context)).or_default().push(latency.latency_ns);
        }
    }
    let cpus = document["cpus"].as_array().expect("a list");
    for of in cpus.iter().chain([&document["all"]]) {
        for context in ["irq", "thread", "user"] {
            let mut latencies = recorded.remove(&(of["cpu"].as_u64(), context)).unwrap_or_default();
            latencies.sort_unstable();
            let (found, count) = (&of[context], latencies.len() as u64);
            let is = |field: &str, expected: u64| assert_eq!(number(&found[field]), expected, "{field}: {found:#}");
            is("count", count);
            is("sum_ns", latencies.iter().sum());
            is("min_ns", latencies.first().copied().unwrap_or(0));
            is("max_ns", latencies.last().copied().unwrap_or(0));
            is("avg_ns", latencies.iter().sum::<u64>().checked_div(count).unwrap_or(0));
            for (percent, value) in found["percentiles_ns"].as_object().expect("by percent") {
                // The smallest latency that this share does not exceed, to three significant digits.
                let rank = (percent.parse::<f64>().expect("a number") / 100.0 * count as f64).ceil() as usize;
                let exact = latencies.get(rank.max(1) - 1).copied().unwrap_or(0);
                assert!(number(value).abs_diff(exact) <= exact / 1000 + 1, "{percent}: {exact} ns: {found:#}");
            }
            let buckets = found["buckets"].as_array().expect("a list");
            for bucket in buckets {
                let within = number(&bucket["from_ns"])..number(&bucket["to_ns"]);
                let expected = latencies.iter().filter(|latency| within.contains(latency)).count() as u64;
                assert_eq!(number(&bucket["count"]), expected, "{bucket}: {latencies:?}");
            }
        }
    }
    assert!(recorded.is_empty(), "recorded, but not in the report: {recorded:?}");
}

/// Asserts that the shares cover all activations, and add up to their latencies.
fn assert_explained(document: &Value) {
    let explained = &document["explained"];
    let shares = explained["shares"].as_array().expect("a list");
    let sum: u64 = shares.iter().map(|share| number(&share["sum_ns"])).sum();
    assert_eq!(sum, number(&explained["sum_ns"]), "{explained:#}");
    for one in document["activations"].as_array().expect("a list") {
        let sum: u64 = one["shares"].as_array().expect("a list").iter().map(|share| number(&share["ns"])).sum();
        assert_eq!(sum, number(&one["latency_ns"]), "{one:#}");
    }
    let coverage = &document["coverage"];
    let activations: u64 =
        ["complete", "without_irq", "without_thread"].map(|field| number(&coverage[field])).iter().sum();
    assert_eq!(number(&explained["activations"]), activations, "{coverage:#}");
}
