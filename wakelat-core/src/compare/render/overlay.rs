//! The distributions of both arms over each other: a row per power of two.

use std::collections::BTreeMap;

use super::super::latencies::LatencyCounts;
use crate::render::{Style, units};

/// The most columns of a bar, and the columns before it.
const WIDTH: usize = 40;
const BEFORE: usize = 12;

/// The share of waits of an arm by power of two.
fn shares(latencies: &LatencyCounts) -> BTreeMap<u32, f64> {
    let all = latencies.count().max(1) as f64;
    let mut shares = BTreeMap::new();
    for (ns, count) in latencies.iter() {
        *shares.entry(ns.max(1).ilog2()).or_default() += count as f64 / all;
    }
    shares
}

/// The rows of both distributions, each with its lower end and a bar: what both have, and what only one has.
pub fn rows(arms: &[LatencyCounts; 2], style: &Style) -> Vec<(String, String)> {
    let [base, new] = [shares(&arms[0]), shares(&arms[1])];
    let octaves = || base.keys().chain(new.keys()).copied();
    let (Some(first), Some(last)) = (octaves().min(), octaves().max()) else { return Vec::new() };
    let of = |shares: &BTreeMap<u32, f64>, octave| shares.get(&octave).copied().unwrap_or(0.0);
    let largest = base.values().chain(new.values()).copied().fold(0.0, f64::max);
    let width = style.columns().saturating_sub(BEFORE).min(WIDTH);
    let columns = |share: f64| {
        let columns = (share / largest * width as f64).round() as usize;
        // A bar that is not empty is seen.
        if share > 0.0 { columns.max(1) } else { 0 }
    };
    let row = |octave: u32| {
        let [before, after] = [columns(of(&base, octave)), columns(of(&new, octave))];
        let both = before.min(after);
        let bar = style.pick("█", "#").repeat(both);
        let rest = if before > after { style.pick("░", "-") } else { "+" };
        (units::bound(1 << octave, style.unicode), format!("{bar}{}", rest.repeat(before.max(after) - both)))
    };
    (first..=last).map(row).collect()
}
