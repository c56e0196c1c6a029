//! What `wakelat why --json` says, and what must be in it.

use std::collections::HashMap;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    machine,
    wakelat::{AttachCase, Wakelat, command},
    workload::{Performance, TimeBounds},
};

/// Pieces of time of a CPU that wakelat keeps (docs/why.md): a wait behind more switches is unexplained as far as it reaches back.
const KEPT: u64 = 65_000;

/// A running `wakelat why --json`, and the machine's switches before it.
pub struct WhyRun {
    wakelat: Wakelat,
    switches: u64,
}

/// Starts `wakelat why --json` with `arguments`, and returns once it measures.
///
/// # Panics
/// If it does not come so far.
pub fn why(attach: AttachCase, arguments: &[&str]) -> WhyRun {
    let ring_size = machine::ring_size();
    let mut all = vec!["why", "--json", "--ring-size", &ring_size, "--attach", attach.name()];
    all.extend(arguments);
    let switches = machine::switches();
    WhyRun { wakelat: Wakelat::measuring(command(&all)), switches }
}

/// Ends it as Ctrl-C does: what it says. Checks that nothing was lost and that parts add up, everywhere.
///
/// # Panics
/// If it is not so.
pub fn document(why: WhyRun) -> Value {
    let wakelat = why.wakelat;
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    assert_eq!(document["schema"], "wakelat.why/1");
    assert_eq!(document["timeline"]["lost"], 0, "{}", document["timeline"]);
    assert_eq!(document["coverage"]["events_lost"], 0, "{}", document["coverage"]);
    for part in ["classes", "groups"] {
        for group in list(&document[part]) {
            let sum: u64 = list(&group["parts"]).iter().map(|part| number(&part["sum_ns"])).sum();
            assert_eq!(sum, number(&group["sum_ns"]), "the parts do not add up: {group}");
        }
    }
    for wait in list(&document["worst"]) {
        let sum: u64 = list(&wait["shares"]).iter().map(|share| number(&share["ns"])).sum();
        assert_eq!(sum, number(&wait["latency_ns"]), "the shares do not add up: {wait}");
    }
    document
}

/// The same, and then what it says of `class`, of which hardly anything may be unexplained, but where other tasks of the machine switch
/// so often that a wait is longer than what is kept.
///
/// # Panics
/// If it is not so.
pub fn ended(why: WhyRun, class: &str) -> Value {
    let switches = machine::switches() - why.switches;
    let document = document(why);
    let class = list(&document["classes"]).iter().find(|of| of["class"] == class);
    let class = class.unwrap_or_else(|| panic!("nothing in {document}")).clone();
    let all_ns = number(&class["sum_ns"]);
    let out_of_reach_ns = if switches > KEPT { culprit(&class, "unexplained", "reach") } else { 0 };
    let unexplained_ns = component(&class, "unexplained") - out_of_reach_ns;
    println!("\n  unexplained: {unexplained_ns} of {all_ns} ns, and {out_of_reach_ns} ns out of reach");
    assert!(unexplained_ns * 50 <= all_ns, "{unexplained_ns} of {all_ns} ns are unexplained: {}", class["parts"]);
    class
}

/// The elements of an array.
///
/// # Panics
/// If it is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// A number: not negative, whole.
///
/// # Panics
/// If it is none.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The ns of one part; 0 where there is none.
pub fn component(class: &Value, name: &str) -> u64 {
    list(&class["parts"]).iter().find(|part| part["part"] == name).map_or(0, |part| number(&part["sum_ns"]))
}

/// How many waits have a share of one part.
pub fn waits_with(class: &Value, name: &str) -> u64 {
    list(&class["parts"]).iter().find(|part| part["part"] == name).map_or(0, |part| number(&part["waits"]))
}

/// The ns of all that is called `name` in one part.
pub fn culprit(class: &Value, part: &str, name: &str) -> u64 {
    let its = list(&class["culprits"]).iter().filter(|one| one["part"] == part && one["name"] == name);
    its.map(|one| number(&one["sum_ns"])).sum()
}

/// Asserts that of what the load and the machine's interrupts do, `name` in this part takes the longest. Other tasks of the machine,
/// which may have the CPU for any time, are left out.
///
/// # Panics
/// If it is not so.
pub fn assert_first(class: &Value, part: &str, name: &str) {
    let is_foreign = |one: &Value| one["kind"] == "task" && !one["name"].as_str().is_some_and(|n| n.starts_with("wl-"));
    let mut longest = HashMap::<(&str, &str), u64>::new();
    for one in list(&class["culprits"]).iter().filter(|one| !is_foreign(one)) {
        let (part, name) = (one["part"].as_str().expect("a word"), one["name"].as_str().unwrap_or("-"));
        *longest.entry((part, name)).or_default() += number(&one["sum_ns"]);
    }
    let first = longest.iter().max_by_key(|(_, ns)| **ns).map(|(first, _)| *first);
    assert_eq!(first, Some((part, name)), "{longest:?} in {}", class["parts"]);
}

/// Asserts that of the tasks that had the CPU in turn, the one is first that had it longest by its own clock, where the clocks tell
/// which that is: a hypervisor may have made the shorter one the longer.
///
/// # Panics
/// If it is not so.
pub fn assert_longest_first(class: &Value, part: &str, performance: &Performance) {
    let due = |name: &String| due(class, performance, name);
    let longest = performance.reported.took.keys().max_by_key(|name| due(name).least_ns).expect("somebody had the CPU");
    let mut others = performance.reported.took.keys().filter(|name| *name != longest);
    if others.all(|other| due(other).most_ns < due(longest).least_ns) {
        assert_first(class, part, longest);
    }
}

/// How long the cause `name` took in the waits that were found.
///
/// # Panics
/// If the load has no such cause.
pub fn due(class: &Value, performance: &Performance, name: &str) -> TimeBounds {
    TimeBounds::any(number(&class["count"]), &performance.reported.took[name])
}

/// Asserts that `found_ns` is what the load says of it, but for 5 %. What the hypervisor took from a task while it had the CPU
/// passed on the load's clock as well, and is a part of its own here. Where an emulator keeps to the host's time, which it
/// shares with whatever else runs there, the ends of a cause, for which the load has no clock, may take any time.
///
/// # Panics
/// If it is not so.
pub fn assert_due(what: &str, found_ns: u64, due: TimeBounds, class: &Value) {
    let TimeBounds { least_ns, most_ns } = due;
    let stolen_ns = component(class, "stolen");
    println!(
        "\n  {what}: {found_ns} ns by wakelat, and {stolen_ns} ns stolen; {least_ns} to {most_ns} by its own clock"
    );
    assert!(found_ns > 0, "{what} has nothing: {}", class["parts"]);
    assert!((found_ns + stolen_ns) * 20 >= least_ns * 19, "{what} has {found_ns} ns, not {due:?}: {}", class["parts"]);
    if machine::has_own_time() {
        assert!(found_ns * 20 <= most_ns * 21, "{what} has {found_ns} ns, not {due:?}: {}", class["parts"]);
    }
}

/// Asserts that of causes that were not planted there is nothing, or, of such as every machine has, hardly anything.
///
/// # Panics
/// If it is not so.
pub fn assert_not_planted(class: &Value, planted: &str) {
    for part_ in ["throttled", "rt_throttled"] {
        assert_eq!(component(class, part_), 0, "{class}");
    }
    if machine::has_own_time() {
        let all_ns = number(&class["sum_ns"]);
        for part_ in ["idle", "irq", "softirq"].into_iter().filter(|part| *part != planted) {
            let found_ns = component(class, part_);
            assert!(found_ns * 20 <= all_ns, "{found_ns} of {all_ns} ns are `{part_}`: {class}");
        }
    }
}
