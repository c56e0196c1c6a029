//! The output of `wakelat why --json`, and checks of it.

use std::collections::HashMap;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    machine,
    wakelat::{AttachCase, Wakelat, command},
    workload::{Performance, TimeBounds},
};

/// Number of intervals of a CPU's time that wakelat keeps (docs/why.md). A wait with more switches is
/// unexplained before the oldest one kept.
const KEPT: u64 = 65_000;

/// A running `wakelat why --json`, and the number of the machine's switches before it.
pub struct WhyRun {
    wakelat: Wakelat,
    switches: u64,
}

/// Starts `wakelat why --json` with `arguments`, and returns once it measures.
pub fn why(attach: AttachCase, arguments: &[&str]) -> WhyRun {
    let ring_size = machine::ring_size();
    let mut all = vec!["why", "--json", "--ring-size", &ring_size, "--attach", attach.name()];
    all.extend(arguments);
    let switches = machine::switches();
    WhyRun { wakelat: Wakelat::measuring(command(&all)), switches }
}

/// Ends the run as Ctrl-C does, and returns its document. Checks that nothing was lost and that all
/// components add up.
pub fn document(why: WhyRun) -> Value {
    let wakelat = why.wakelat;
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    assert_eq!(document["schema"], "wakelat.why/1");
    check(&document);
    document
}

/// Checks that nothing was lost, and that the components of all groups and of the longest waits add up.
pub fn check(document: &Value) {
    assert_eq!(document["timeline"]["lost"], 0, "{}", document["timeline"]);
    assert_eq!(document["coverage"]["events_lost"], 0, "{}", document["coverage"]);
    for list_name in ["classes", "groups"] {
        for group in list(&document[list_name]) {
            let sum: u64 = list(&group["components"]).iter().map(|one| number(&one["sum_ns"])).sum();
            assert_eq!(sum, number(&group["sum_ns"]), "the components do not add up: {group}");
        }
    }
    for wait in list(&document["worst"]) {
        let sum: u64 = list(&wait["shares"]).iter().map(|share| number(&share["ns"])).sum();
        assert_eq!(sum, number(&wait["latency_ns"]), "the shares do not add up: {wait}");
    }
}

/// Ends the run as Ctrl-C does, and returns its results for `class`. Hardly anything of them may be
/// unexplained, unless other tasks of the machine switch so often that a wait is longer than what is kept.
pub fn ended(why: WhyRun, class: &str) -> Value {
    let switches = machine::switches() - why.switches;
    let document = document(why);
    let class = list(&document["classes"]).iter().find(|of| of["class"] == class);
    let class = class.unwrap_or_else(|| panic!("nothing in {document}")).clone();
    let all_ns = number(&class["sum_ns"]);
    let out_of_reach_ns = if switches > KEPT { culprit(&class, "unexplained", "history_limit") } else { 0 };
    let unexplained_ns = component(&class, "unexplained") - out_of_reach_ns;
    println!("\n  unexplained: {unexplained_ns} of {all_ns} ns, and {out_of_reach_ns} ns out of reach");
    assert!(unexplained_ns * 50 <= all_ns, "{unexplained_ns} of {all_ns} ns are unexplained: {}", class["components"]);
    class
}

/// The elements of an array.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// A non-negative whole number.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Sum of one component: ns; 0 if the class has none of it.
pub fn component(class: &Value, name: &str) -> u64 {
    list(&class["components"]).iter().find(|one| one["component"] == name).map_or(0, |one| number(&one["sum_ns"]))
}

/// Number of waits that one component is part of.
pub fn waits_with(class: &Value, name: &str) -> u64 {
    list(&class["components"]).iter().find(|one| one["component"] == name).map_or(0, |one| number(&one["waits"]))
}

/// Sum over the culprits called `name` in one component: ns.
pub fn culprit(class: &Value, component: &str, name: &str) -> u64 {
    let its = list(&class["culprits"]).iter().filter(|one| one["component"] == component && one["name"] == name);
    its.map(|one| number(&one["sum_ns"])).sum()
}

/// Asserts that of everything that the load and the machine's interrupts do, `name` in this component
/// takes longest. Other tasks of the machine, which may run for any time, are left out.
pub fn assert_first(class: &Value, component: &str, name: &str) {
    let is_foreign = |one: &Value| one["kind"] == "task" && !one["name"].as_str().is_some_and(|n| n.starts_with("wl-"));
    let mut longest = HashMap::<(&str, &str), u64>::new();
    for one in list(&class["culprits"]).iter().filter(|one| !is_foreign(one)) {
        let (component, name) = (one["component"].as_str().expect("a word"), one["name"].as_str().unwrap_or("-"));
        *longest.entry((component, name)).or_default() += number(&one["sum_ns"]);
    }
    let first = longest.iter().max_by_key(|(_, ns)| **ns).map(|(first, _)| *first);
    assert_eq!(first, Some((component, name)), "{longest:?} in {}", class["components"]);
}

/// Asserts that of the tasks that ran in turn, the one that ran longest by its own clock is first, if
/// the clocks decide which one that is: a hypervisor may have made the shorter one the longer.
pub fn assert_longest_first(class: &Value, component: &str, performance: &Performance) {
    let due = |name: &String| due(class, performance, name);
    let longest = performance.reported.took.keys().max_by_key(|name| due(name).least_ns).expect("a task had the CPU");
    let mut others = performance.reported.took.keys().filter(|name| *name != longest);
    if others.all(|other| due(other).most_ns < due(longest).least_ns) {
        assert_first(class, component, longest);
    }
}

/// How long the cause `name` took in the waits that were found.
pub fn due(class: &Value, performance: &Performance, name: &str) -> TimeBounds {
    TimeBounds::any(number(&class["count"]), &performance.reported.took[name])
}

/// Asserts that `found_ns` is what the load reports: at least, less 1 % for a task of the load, whose own clock starts and
/// stops within its slices, and less 5 % for interrupts, whose tracepoints exclude the entry and the exit, and in an
/// emulator, where switches take long; and at most 5 % more, because what a task does between its own clock's end and its
/// switch-out takes longer on a loaded machine. Time that the hypervisor took from a task while it had the CPU passed on
/// the load's clock as well, and is a component of its own here. If an emulator follows the host's time, which it shares
/// with other programs of the host, the ends of a cause, which the load cannot time, may take any time.
pub fn assert_due(what: &str, found_ns: u64, due: TimeBounds, class: &Value) {
    let percent = if what.starts_with("wl-") && !machine::is_emulated() { 1 } else { 5 };
    let TimeBounds { least_ns, most_ns } = due;
    let stolen_ns = component(class, "stolen");
    println!(
        "\n  {what}: {found_ns} ns by wakelat, and {stolen_ns} ns stolen; {least_ns} to {most_ns} by its own clock"
    );
    assert!(found_ns > 0, "{what} has nothing: {}", class["components"]);
    assert!(
        (found_ns + stolen_ns) * 100 >= least_ns * (100 - percent),
        "{what} has {found_ns} ns, not {due:?}: {}",
        class["components"]
    );
    if machine::has_own_time() {
        assert!(found_ns * 100 <= most_ns * 105, "{what} has {found_ns} ns, not {due:?}: {}", class["components"]);
    }
}

/// Asserts that causes that were not planted are absent, or nearly so if every machine has them.
pub fn assert_not_planted(class: &Value, planted: &str) {
    for name in ["throttled", "rt_throttled"] {
        assert_eq!(component(class, name), 0, "{class}");
    }
    if machine::has_own_time() {
        let all_ns = number(&class["sum_ns"]);
        for name in ["idle", "irq", "softirq"].into_iter().filter(|name| *name != planted) {
            let found_ns = component(class, name);
            assert!(found_ns * 20 <= all_ns, "{found_ns} of {all_ns} ns are `{name}`: {class}");
        }
    }
}
