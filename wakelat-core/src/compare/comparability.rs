//! Whether runs can be compared: what differs between their conditions, and what forbids the comparison.

use super::{
    metric::short,
    run::{ComparedRun, Conditions},
};

/// Why runs cannot be compared: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotComparable(pub String);

impl std::fmt::Display for NotComparable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NotComparable {}

/// A condition of a run in words, if it is known.
type Property = fn(&Conditions) -> Option<String>;

/// More than this share of lost waits is reported, and this difference of the overhead.
const MUCH_LOST: f64 = 0.001;
/// With more than this share of lost waits, the others show little about all: waits are lost when there are most.
const TOO_MUCH_LOST: f64 = 0.1;
const MUCH_OVERHEAD: f64 = 0.01;

/// What differs between the runs and may explain a change, in words.
///
/// # Errors
/// If the runs were measured in ways that forbid a comparison.
pub fn check(base: &[ComparedRun], new: &[ComparedRun]) -> Result<Vec<String>, NotComparable> {
    let all = || base.iter().chain(new);
    let Some(first) = base.first().filter(|_| !new.is_empty()) else {
        return Err(NotComparable("an arm has no run; give at least one file for each".to_owned()));
    };
    if let Some(empty) = all().find(|run| run.count() == 0) {
        return Err(NotComparable(format!("{} has no wait of the requested groups", empty.name)));
    }
    let forbids: [(&str, Property, &str); 4] = [
        ("measures latency from", |run| Some(format!("`{}`", run.from)), "record both arms with the same `--from`"),
        (
            "has the classes",
            |run| run.classes.as_ref().map(|classes| classes.join(", ")),
            "record both arms with the same `--class`, or select a common one",
        ),
        (
            "has waits from",
            |run| Some(run.threshold_ns.map_or("0 ns".to_owned(), short)),
            "use the same `--threshold` for both arms",
        ),
        ("was measured with", |run| Some(sampling(run.sampled_one_in)), "measure both arms without `--max-overhead`"),
    ];
    for (what, of, remedy) in forbids {
        let its = of(&first.conditions);
        for other in all() {
            if let (Some(its), Some(others)) = (&its, of(&other.conditions))
                && *its != others
            {
                let why = format!("{} {what} {its}, and {} {what} {others}", first.name, other.name);
                return Err(NotComparable(format!("{why}; {remedy}")));
            }
        }
    }
    // Percentiles and sums would be of tasks of different weights.
    if let Some(run) = all().find(|run| run.conditions.sampled_one_in.is_some_and(|[least, most]| least != most)) {
        let of = sampling(run.conditions.sampled_one_in);
        return Err(NotComparable(format!("{} was measured with {of}; measure it without `--max-overhead`", run.name)));
    }
    let lost_too_much = |run: &&ComparedRun| {
        let [lost, of] = run.conditions.lost;
        lost as f64 > of as f64 * TOO_MUCH_LOST
    };
    if let Some(run) = all().find(lost_too_much) {
        let [lost, of] = run.conditions.lost;
        return Err(NotComparable(format!(
            "{} has lost {lost} of {of} waits; record it again with a larger `--ring-size`, `--rt-priority` or a filter",
            run.name
        )));
    }
    Ok(differences(base, new))
}

/// Which tasks were measured, in words.
fn sampling(one_in: Option<[u32; 2]>) -> String {
    match one_in {
        None => "all tasks".to_owned(),
        Some([1, 1]) => "pauses".to_owned(),
        Some([least, most]) if least == most => format!("one task in {least}"),
        Some([least, most]) => format!("one task in {least} to {most}"),
    }
}

fn differences(base: &[ComparedRun], new: &[ComparedRun]) -> Vec<String> {
    let mut notes = Vec::new();
    let properties: [(&str, Property); 6] = [
        ("kernel", |run| Some(run.kernel.clone())),
        ("host", |run| run.host.clone()),
        ("scheduler", |run| run.scheduler.clone()),
        ("online CPUs", |run| run.cpus.clone()),
        ("collected events", |run| run.collected.clone()),
        ("precision", |run| Some(if run.is_by_bucket { "3.2 % (buckets)" } else { "0.1 % (single waits)" }.to_owned())),
    ];
    for (name, of) in properties {
        let values = |runs: &[ComparedRun]| {
            let mut values: Vec<String> = runs.iter().filter_map(|run| of(&run.conditions)).collect();
            values.sort();
            values.dedup();
            values
        };
        let (before, after) = (values(base), values(new));
        if before != after && !before.is_empty() && !after.is_empty() {
            notes.push(format!("{name} differs: {} (base), {} (new)", before.join(" and "), after.join(" and ")));
        } else if before.len() > 1 {
            notes.push(format!("{name} differs within an arm: {}", before.join(" and ")));
        }
    }
    for run in base.iter().chain(new) {
        let [lost, of] = run.conditions.lost;
        if lost as f64 > of as f64 * MUCH_LOST {
            notes.push(format!("{} has lost {lost} of {of} waits", run.name));
        }
    }
    let overhead = |runs: &[ComparedRun]| {
        let known: Vec<f64> = runs.iter().filter_map(|run| run.conditions.overhead).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    if let (Some(before), Some(after)) = (overhead(base), overhead(new))
        && (before - after).abs() > MUCH_OVERHEAD
    {
        let [before, after] = [before, after].map(|share| format!("{:.1} %", share * 100.0));
        notes.push(format!("overhead of measuring differs: {before} (base), {after} (new) of all CPU time"));
    }
    notes
}
