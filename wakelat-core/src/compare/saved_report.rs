//! Runs from the JSON reports of `hist --json`: a document per interval.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    latencies::LatencyCounts,
    run::{ComparedRun, GroupName},
};

/// The fields of `wakelat.report/1` that a comparison needs.
#[derive(Deserialize)]
struct SavedReport {
    schema: String,
    kernel: String,
    duration_ns: u64,
    from: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    groups: Vec<SavedGroup>,
    #[serde(default)]
    groups_left_out: u64,
    #[serde(default)]
    threshold: Option<SavedThreshold>,
    #[serde(default)]
    overhead: Option<SavedOverhead>,
    #[serde(default)]
    sampling: Option<SavedSampling>,
    #[serde(default)]
    coverage: Value,
}

#[derive(Deserialize)]
struct SavedGroup {
    #[serde(default)]
    key: BTreeMap<String, Value>,
    class: String,
    sum_ns: u128,
    max_ns: u64,
    buckets: Vec<SavedBucket>,
}

#[derive(Deserialize)]
struct SavedBucket {
    from_ns: u64,
    count: u64,
}

#[derive(Deserialize)]
struct SavedThreshold {
    threshold_ns: u64,
}

#[derive(Deserialize)]
struct SavedOverhead {
    cpus: u32,
    tool_ns: u64,
    programs_ns: u64,
}

#[derive(Deserialize)]
struct SavedSampling {
    one_in_least: u32,
    one_in_most: u32,
    measured_ns: u64,
}

/// The run whose reports `text` has. `name` is that of its file.
///
/// # Errors
/// If the text is not made of such reports, in words.
pub fn run(name: &str, text: &str) -> Result<ComparedRun, String> {
    let mut run = ComparedRun { name: name.to_owned(), ..ComparedRun::default() };
    let mut cost = [0.0; 2];
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for document in documents {
        let document = document.map_err(|error| format!("not JSON: {error}"))?;
        let schema = document["schema"].as_str().unwrap_or("no schema").to_owned();
        if schema != "wakelat.report/1" {
            let why = if schema.starts_with("wakelat.why") { ", which has no distributions" } else { "" };
            return Err(format!("`{schema}`{why}; expected reports of `hist --json`, or a recording"));
        }
        let report: SavedReport =
            serde_json::from_value(document).map_err(|error| format!("not a `{schema}`: {error}"))?;
        add(&mut run, &report, &mut cost)?;
    }
    if run.intervals_ns.is_empty() {
        return Err("no report in it; expected reports of `hist --json`, or a recording".to_owned());
    }
    run.conditions.overhead = (cost[1] > 0.0).then(|| cost[0] / cost[1]);
    Ok(run)
}

fn add(run: &mut ComparedRun, report: &SavedReport, cost: &mut [f64; 2]) -> Result<(), String> {
    let conditions = &mut run.conditions;
    if !run.intervals_ns.is_empty() && conditions.from != report.from {
        return Err(format!("its reports measure latency from `{}` and from `{}`", conditions.from, report.from));
    }
    let threshold_ns = report.threshold.as_ref().map(|threshold| threshold.threshold_ns);
    if !run.intervals_ns.is_empty() && conditions.threshold_ns != threshold_ns {
        return Err("its reports have different thresholds".to_owned());
    }
    // The groups must add up to the class.
    if report.groups_left_out > 0 {
        return Err("groups are left out of its report; expected reports of `hist --json`".to_owned());
    }
    if report.groups.iter().any(|group| group.key.contains_key("component")) {
        return Err("its groups are components of waits; expected reports without `--by component`".to_owned());
    }
    debug_assert_eq!(report.schema, "wakelat.report/1");
    (conditions.kernel, conditions.from) = (report.kernel.clone(), report.from.clone());
    conditions.threshold_ns = threshold_ns;
    if let Some(sampling) = &report.sampling {
        conditions.add_sampling([sampling.one_in_least, sampling.one_in_most]);
    }
    conditions.is_by_bucket |= report.mode == "aggregate" || !report.groups.is_empty();
    // Of wakeups; the other two are `null` if they were not measured.
    let coverage = &report.coverage;
    for terms in [coverage, &coverage["preemptions"], &coverage["switch_ins"]] {
        let term = |name: &str| terms[name].as_u64().unwrap_or(0);
        let sum = |names: &[&str]| names.iter().fold(0, |sum: u64, name| sum.saturating_add(term(name)));
        let lost = sum(&["task_table_full", "ring_buffer_full", "invalid", "missed_switch"]);
        conditions.add_losses(lost, sum(&["measured", "filtered"]));
    }
    if let Some(overhead) = &report.overhead {
        cost[0] += (overhead.tool_ns + overhead.programs_ns) as f64;
        cost[1] += report.duration_ns as f64 * f64::from(overhead.cpus);
    }
    let duration_ns = report.sampling.as_ref().map_or(report.duration_ns, |sampling| sampling.measured_ns);
    let number = run.begin_interval(duration_ns);
    for group in &report.groups {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let key = group.key.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let name = GroupName { class: group.class.clone(), key };
        let mut latencies = LatencyCounts::default();
        group.buckets.iter().for_each(|bucket| latencies.record(bucket.from_ns, bucket.count));
        run.add_waits(number, &name, &latencies, (group.sum_ns, group.max_ns));
    }
    Ok(())
}
