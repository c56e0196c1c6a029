//! Which parts of a report are a golden file, and how the others are checked. Pure.
//!
//! Any change of the programs shifts each latency by some ns, so a golden file with latencies would be
//! regenerated at every change, without a review. Keys, classes, counts and coverage are
//! stable: they are the file. Every latency in the report is compared with the recorded waits instead,
//! within the difference that two clock readings explain.

use serde_json::{Value, json};

use crate::{
    replay,
    report::{JsonGroup, JsonReport},
};

/// The report without latencies and without other activity of the machine (the filtered wakeups): a
/// line for each group and one for the coverage.
pub fn text(report: &JsonReport) -> String {
    let group = |group: &JsonGroup| json!({ "key": group.key, "class": group.class, "count": group.count });
    let mut lines: Vec<Value> = report.groups.iter().map(group).collect();
    let terms = report.coverage.wakeups;
    lines.push(json!({
        "wanted": terms.selected(), "measured": terms.measured, "already_running": terms.already_running,
        "already_queued": terms.already_queued, "task_table_full": terms.task_table_full, "ring_buffer_full": terms.ring_buffer_full,
        "invalid": terms.invalid, "missed_switch": terms.missed_switch, "still_waiting": terms.still_waiting, "missed": report.coverage.missed,
    }));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Asserts that every figure of `group` matches the recorded waits, each of which may be `exact_ns`
/// longer or shorter.
pub fn assert_recorded(group: &JsonGroup, waits: &[&replay::ReplayWait], exact_ns: u64) {
    let mut recorded: Vec<u64> = waits.iter().map(|wait| wait.latency_ns).collect();
    recorded.sort_unstable();
    let count = recorded.len() as u64;
    assert_eq!(group.count, count, "{group:?}");
    let near = |what: &str, figure_ns: u64, recorded_ns: u64, allowed_ns: u64| {
        assert!(
            figure_ns.abs_diff(recorded_ns) <= allowed_ns,
            "{what}: {figure_ns}, recorded {recorded_ns}: {group:?}"
        );
    };
    near("sum", group.sum_ns, recorded.iter().sum(), exact_ns * count);
    near("minimum", group.min_ns, recorded[0], exact_ns);
    near("maximum", group.max_ns, recorded[recorded.len() - 1], exact_ns);
    for (percent, value_ns) in &group.percentiles_ns {
        // The smallest value that this share of the waits does not exceed, to three significant digits.
        let rank = (percent.parse::<f64>().expect("a number") / 100.0 * count as f64).ceil() as usize;
        near(percent, *value_ns, recorded[rank.max(1) - 1], exact_ns + value_ns / 1000 + 1);
    }
    let below = |edge_ns: u64| recorded.partition_point(|latency_ns| *latency_ns < edge_ns) as u64;
    let mut seen = 0;
    for bucket in &group.buckets {
        seen += bucket.count;
        let (fewest, most) =
            (below(bucket.to_ns.saturating_sub(exact_ns)), below(bucket.to_ns.saturating_add(exact_ns)));
        assert!((fewest..=most).contains(&seen), "{seen} below {} ns, recorded {fewest} to {most}", bucket.to_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::JsonBucket;

    fn wait(latency_ns: u64) -> replay::ReplayWait {
        replay::ReplayWait { tid: 7, class: "wakeup", at_ns: 1, latency_ns, delivery_ns: None, waker: None, cpu: 0 }
    }

    fn group() -> JsonGroup {
        JsonGroup {
            key: [("comm".to_owned(), json!("a"))].into(),
            class: "wakeup".to_owned(),
            count: 2,
            sum_ns: 302,
            min_ns: 101,
            max_ns: 201,
            max_at_unix_ns: None,
            run_ns: None,
            worst: Vec::new(),
            percentile_intervals_ns: None,
            percentiles_ns: [("50".to_owned(), 101), ("99".to_owned(), 201)].into(),
            buckets: [(96, 104), (200, 208)].map(|(from_ns, to_ns)| JsonBucket { from_ns, to_ns, count: 1 }).into(),
        }
    }

    fn check(group: &JsonGroup) {
        assert_recorded(group, &[&wait(200), &wait(100)], 2);
    }

    #[test]
    fn figures_within_the_clock_difference_match() {
        check(&group());
    }

    #[test]
    #[should_panic(expected = "maximum")]
    fn a_wrong_figure_is_found() {
        check(&JsonGroup { max_ns: 203, ..group() });
    }

    #[test]
    #[should_panic(expected = "below 116 ns")]
    fn a_wrong_bucket_is_found() {
        let mut group = group();
        group.buckets[0] = JsonBucket { from_ns: 112, to_ns: 116, count: 2 };
        check(&group);
    }
}
