//! Planted causes: `why` names each first, with the share that is its due, and its parts add up.

use serde_json::Value;
use wakelat_tests::{
    attached_typed, machine,
    quota::Limited,
    suite::{self, Outcome},
    task::Policy,
    wakelat::{Attach, Wakelat, command},
    workload::{BehindHog, Hogs, Workload, until},
};

fn main() {
    suite::main(attached_typed![
        a_hog_of_a_higher_class_has_the_wait_behind_it,
        a_task_above_all_others_waits_for_none_of_them,
        a_group_out_of_quota_is_told_apart_from_one_that_queues,
    ]);
}

/// Starts `wakelat why --json` with `arguments`, and returns once it measures.
fn why(attach: Attach, arguments: &[&str]) -> Wakelat {
    let mut all = vec!["why", "--json", "--attach", attach.name()];
    all.extend(arguments);
    Wakelat::measuring(command(&all))
}

/// Ends it as Ctrl-C does: what it says of `class`. Checks that nothing was lost and that parts add up, everywhere.
fn ended(why: Wakelat, class: &str) -> Value {
    why.signal(nix::sys::signal::Signal::SIGINT);
    let ended = why.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error} in {ended:?}"));
    assert_eq!(document["schema"], "wakelat.why/1");
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    assert_eq!(document["coverage"]["events_lost"], 0, "{document}");
    for part in ["classes", "groups"] {
        for group in document[part].as_array().expect("a list") {
            let sum: u64 = group["parts"].as_array().expect("a list").iter().map(|part| number(&part["sum_ns"])).sum();
            assert_eq!(sum, number(&group["sum_ns"]), "the parts do not add up: {group}");
        }
    }
    for wait in document["worst"].as_array().expect("a list") {
        let sum: u64 = wait["shares"].as_array().expect("a list").iter().map(|share| number(&share["ns"])).sum();
        assert_eq!(sum, number(&wait["latency_ns"]), "the shares do not add up: {wait}");
    }
    let classes = document["classes"].as_array().expect("a list");
    classes.iter().find(|of| of["class"] == class).unwrap_or_else(|| panic!("no `{class}` in {document}")).clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The ns of one part; 0 where there is none.
fn part(class: &Value, name: &str) -> u64 {
    let parts = class["parts"].as_array().expect("a list");
    parts.iter().find(|part| part["part"] == name).map_or(0, |part| number(&part["sum_ns"]))
}

/// Asserts that `of_ns` is `percent` of `all_ns` at least. Where an emulator keeps to the host's time, which it shares with
/// whoever else runs there, lengths say nothing.
fn assert_at_least(percent: u64, of_ns: u64, all_ns: u64, class: &Value) {
    if machine::has_own_time() {
        assert!(of_ns * 100 >= all_ns * percent, "{of_ns} of {all_ns} ns are less than {percent} %: {class}");
    }
}

fn behind_hog() -> Workload {
    let cpu = machine::one_cpu();
    Workload::BehindHog(BehindHog { rounds: 60, spin_ns: 3_000_000, cpu, sleeper: Policy::Other })
}

fn a_hog_of_a_higher_class_has_the_wait_behind_it(attach: Attach) -> Outcome {
    let mut staged = behind_hog().stage();
    let why = why(attach, &["--tid", &staged.tid("wl-sleeper").to_string(), "--class", "wakeup"]);
    let performance = staged.perform();
    let wakeups = ended(why, "wakeup");
    assert_eq!(wakeups["parts"][0]["part"], "higher", "{wakeups}");
    assert_eq!(wakeups["culprits"][0]["name"], "wl-hog", "{wakeups}");
    assert!(number(&wakeups["count"]) <= performance.wakeups(), "{wakeups}");
    let all_ns = number(&wakeups["sum_ns"]);
    // Behind the hog it waits with whoever else on this machine is of its class.
    assert_at_least(95, part(&wakeups, "higher"), all_ns - part(&wakeups, "same"), &wakeups);
    assert_at_least(98, all_ns - part(&wakeups, "unexplained"), all_ns, &wakeups);
    Ok(())
}

fn a_task_above_all_others_waits_for_none_of_them(attach: Attach) -> Outcome {
    let mut staged = behind_hog().stage();
    let why = why(attach, &["--tid", &staged.tid("wl-hog").to_string(), "--class", "wakeup"]);
    staged.perform();
    let wakeups = ended(why, "wakeup");
    assert_eq!(part(&wakeups, "throttled"), 0, "{wakeups}");
    for culprit in wakeups["culprits"].as_array().expect("a list") {
        assert!(culprit["part"] == "lower" || culprit["name"] != "wl-sleeper", "{culprit} in {wakeups}");
    }
    Ok(())
}

fn a_group_out_of_quota_is_told_apart_from_one_that_queues(attach: Attach) -> Outcome {
    let limited = Limited::to_percent(10)?;
    let mut staged = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    limited.take_in(staged.pid());
    let why = why(attach, &["--comm", "wl-hog", "--class", "preempted"]);
    staged.begin();
    until("the group has been out of quota often enough", || limited.throttled().0 >= 60);
    // Now each of its waits has an end.
    limited.lift();
    let (_, by_kernel_ns) = limited.throttled();
    let preempted = ended(why, "preempted");
    drop(staged);
    let by_why_ns = part(&preempted, "throttled");
    println!("\n  throttled: {by_why_ns} ns by wakelat, {by_kernel_ns} by cpu.stat");
    assert!(by_why_ns.abs_diff(by_kernel_ns) * 20 <= by_kernel_ns, "{by_why_ns} of {by_kernel_ns}: {preempted}");
    Ok(())
}
