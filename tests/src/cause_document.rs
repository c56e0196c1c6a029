//! The output of `wakelat why --mode aggregate --json`, and checks of it.

use nix::sys::signal::Signal;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    machine::{self, STAT_UNIT_NS},
    report::JsonSwitchIns,
    wakelat::{AttachCase, Wakelat, command},
    why::{list, number},
    workload::Performance,
};

/// Starts `wakelat why --mode aggregate --json` with `arguments`, and returns once it measures.
pub fn counted(attach: AttachCase, arguments: &[&str]) -> Wakelat {
    let all = ["why", "--mode", "aggregate", "--json", "--attach", attach.name()];
    Wakelat::measuring(command(&[&all[..], arguments].concat()))
}

/// Ends the run as Ctrl-C does, and returns its document. Checks that all causes, pairs and buckets add up, that each wait
/// that was measured is divided, and that no time is `untracked_group` as long as the kernel's tables have room for groups:
/// what a division leaves out would be there.
pub fn document(wakelat: Wakelat) -> Value {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    assert_eq!(document["schema"], "wakelat.why-causes/1");
    for waits in std::iter::once(&document).chain(list(&document["groups"])) {
        let sum: u64 = list(&waits["causes"]).iter().map(|one| number(&one["sum_ns"])).sum();
        assert_eq!(sum, number(&waits["sum_ns"]), "the causes do not add up: {waits}");
        assert_buckets(waits);
    }
    assert_eq!(document["waits"], document["coverage"]["switch_ins"]["measured"], "{document}");
    let has_room = !list(&document["groups"]).iter().any(|group| group["group"].is_null());
    assert!(!has_room || cause(&document, "untracked_group") == 0, "time is missing: {document}");
    let of_pairs = list(&document["pairs"]).iter().map(|pair| number(&pair["sum_ns"])).sum::<u64>();
    let of_groups: u64 = ["own_group", "other_groups", "system", "kernel_threads", "higher"]
        .map(|name| cause(&document, name))
        .iter()
        .sum();
    assert_eq!(of_pairs + number(&document["pairs_rest"]["sum_ns"]), of_groups, "the pairs do not add up: {document}");
    document
}

/// Asserts that the buckets hold all of these waits, and that the sum and the longest of them lie within their bounds.
fn assert_buckets(waits: &Value) {
    let buckets = list(&waits["buckets"]).iter();
    let buckets: Vec<_> = buckets.map(|one| ["from_ns", "to_ns", "count"].map(|field| number(&one[field]))).collect();
    let (mut count, mut least_ns, mut above_ns) = (0u64, 0u64, 0u64);
    for [from_ns, to_ns, waits] in &buckets {
        (count, least_ns, above_ns) = (count + waits, least_ns + from_ns * waits, above_ns + to_ns * waits);
    }
    let (sum_ns, max_ns) = (number(&waits["sum_ns"]), number(&waits["max_ns"]));
    assert_eq!(count, number(&waits["waits"]), "the buckets do not add up: {waits}");
    assert!((least_ns..=above_ns).contains(&sum_ns), "{least_ns} to {above_ns} ns: {waits}");
    assert!(buckets.last().is_none_or(|[from_ns, to_ns, _]| (*from_ns..*to_ns).contains(&max_ns)), "{waits}");
}

/// The time of a cause: ns.
pub fn cause(document: &Value, name: &str) -> u64 {
    list(&document["causes"]).iter().find(|one| one["cause"] == name).map_or(0, |one| number(&one["sum_ns"]))
}

/// The time that tasks waited for `running`, for this cause: ns.
pub fn waited_for(document: &Value, cause: &str, running: &str) -> u64 {
    let of = list(&document["pairs"]).iter().filter(|pair| pair["cause"] == cause && pair["running"] == running);
    of.map(|pair| number(&pair["sum_ns"])).sum()
}

/// Asserts that `cause` has the most time of all causes, and `running`, for that cause, the most of all pairs. Only
/// steal time and unseen switches may have more, and only as much as the kernel's account of the performance confirms.
pub fn assert_first_cause(document: &Value, cause: &str, running: &str, performance: &Performance) {
    let is_confirmed = |one: &Value| match one["cause"].as_str() {
        Some("stolen") => number(&one["sum_ns"]) <= performance.stolen_ns + 2 * STAT_UNIT_NS,
        Some("unseen") => number(&one["waits"]) <= performance.untraced,
        _ => false,
    };
    let first = list(&document["causes"]).iter().find(|one| !is_confirmed(one));
    assert_eq!(first.map(|one| &one["cause"]), Some(&cause.into()), "{document}");
    let first = &document["pairs"][0];
    assert_eq!((&first["cause"], &first["running"]), (&cause.into(), &running.into()), "{document}");
}

/// The value of `why --collect` with which both modes separate the same causes: time in interrupts that this kernel
/// does not count belongs to the tasks in both.
pub fn collected_alike() -> &'static str {
    if machine::has_member("prev_irq_time") { "irq,idle,throttling" } else { "idle,throttling" }
}

/// Whether the document says that this kernel does not count the time of a cause.
pub fn is_not_separated(document: &Value, cause: &str) -> bool {
    list(&document["not_separated"]).iter().any(|name| name == cause)
}

/// The coverage of the waits.
pub fn switch_ins(document: &Value) -> JsonSwitchIns {
    JsonSwitchIns::deserialize(&document["coverage"]["switch_ins"])
        .unwrap_or_else(|error| panic!("{error} in {document}"))
}
