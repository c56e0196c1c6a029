//! The page of a comparison: the verdict, both arms of each group side by side with the intervals of their changes and
//! their distributions, the causes that changed, and whether all of this can be trusted.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;

use super::{HtmlSource, page::HtmlPage};
use crate::{
    compare::{
        comparison::{ArmComparison, GroupComparison},
        latencies::LatencyCounts,
        render::{self, labels},
        run::ComparedRun,
    },
    render::octave_bins,
};

const PAGE: HtmlPage = HtmlPage {
    title: "wakelat comparison",
    heading: "Did tasks wait longer for a CPU?",
    sections: &[
        ("verdict", "Verdict"),
        ("overview", "All groups"),
        ("groups", "Changes of each group"),
        ("trust", "Can this be trusted?"),
    ],
    script: include_str!("comparison.js"),
};

/// A run of an arm, and where its waits come from.
#[derive(Clone, Debug, Serialize)]
pub struct HtmlRun {
    source: HtmlSource,
    waits: u64,
    duration_ns: u64,
    /// Lost waits, and waits that were to be measured.
    lost: [u64; 2],
    /// The share of all CPU time that measuring took: 0 to 1, if it is known.
    overhead: Option<f64>,
    /// The event from which latency is measured.
    from: String,
}

/// The figures of the page that are not in the JSON document of `diff`.
#[derive(Serialize)]
struct PageDocument<'a> {
    version: &'static str,
    /// The verdict in words, and the one that its colour shows.
    verdict: String,
    outcome: &'static str,
    reasons: Vec<String>,
    runs_needed: Option<String>,
    method: String,
    groups: Vec<GroupDocument>,
    /// The runs of base and new.
    runs: &'a [Vec<HtmlRun>; 2],
}

#[derive(Serialize)]
struct GroupDocument {
    name: String,
    /// Number of the bin, and its waits in base and new.
    bins: Vec<(u32, u64, u64)>,
}

impl HtmlRun {
    /// A run whose waits come from `source`.
    pub fn new(run: &ComparedRun, source: HtmlSource) -> Self {
        Self {
            source,
            waits: run.count(),
            duration_ns: run.duration_ns() as u64,
            lost: run.conditions.lost,
            overhead: run.conditions.overhead,
            from: run.conditions.from.clone(),
        }
    }
}

/// Writes the page of a comparison. `runs`: of base and of new.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(comparison: &ArmComparison, runs: &[Vec<HtmlRun>; 2], out: &mut dyn Write) -> io::Result<()> {
    let document = PageDocument {
        version: env!("CARGO_PKG_VERSION"),
        verdict: labels::verdict(comparison),
        outcome: comparison.verdict.name(),
        reasons: labels::reasons(comparison, true),
        runs_needed: labels::runs_needed(comparison),
        method: labels::method(comparison),
        groups: comparison.groups.iter().map(GroupDocument::new).collect(),
        runs,
    };
    let (page, diff) = (serde_json::to_string(&document)?, render::json(comparison)?);
    PAGE.write(&format!("{{\"page\":{page},\"diff\":{}}}", diff.trim()), out)
}

impl GroupDocument {
    fn new(group: &GroupComparison) -> Self {
        let mut bins: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for (arm, latencies) in group.latencies.iter().enumerate() {
            for (ns, count) in LatencyCounts::iter(latencies) {
                bins.entry(octave_bins::bin(ns)).or_default()[arm] += count;
            }
        }
        let bins = bins.into_iter().map(|(bin, [base, new])| (bin, base, new)).collect();
        Self { name: group.name.to_string(), bins }
    }
}
