//! What stands around a wait: who woke the task, in which container it is, what a kworker in its way did; and its parts as columns.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached, attached_typed,
    cgroup::Hierarchy,
    machine,
    suite::{self, Outcome, Skip},
    task::{Place, Policy, name, pin},
    wakelat::{Attach, Wakelat, command},
    workload::{BehindHog, Forks, PingPong, Workload},
};

fn main() {
    let typed = attached_typed![
        who_wakes_whom_has_every_wakeup_once,
        the_parts_of_each_line_add_up,
        a_kworker_in_the_way_is_named_with_its_function,
        without_works_no_kworker_has_any,
        many_new_tasks_in_the_way_are_a_storm_of_whoever_made_them,
        few_new_tasks_are_no_storm,
    ];
    suite::main(typed.into_iter().chain(attached![all_cgroups_of_a_container_are_one_group]));
}

const ROUNDS: u64 = 500;

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS))
}

/// Starts a command with `--json` and `arguments`, and returns once it measures.
fn measuring(attach: Attach, arguments: &[&str]) -> Wakelat {
    let mut all = vec![arguments[0], "--json", "--attach", attach.name()];
    all.extend(&arguments[1..]);
    Wakelat::measuring(command(&all))
}

/// Ends it as Ctrl-C does: the documents that it wrote.
fn documents(wakelat: Wakelat) -> Vec<Value> {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let parsed = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    ended.stdout.lines().map(parsed).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn who_wakes_whom_has_every_wakeup_once(attach: Attach) -> Outcome {
    let mut staged = ping_pong().stage();
    let why = measuring(attach, &["why", "--comm", "wl-p*", "--class", "wakeup", "--by", "tid"]);
    let performance = staged.perform();
    let document = documents(why).remove(0);
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    let rest = &document["wakings_rest"];
    for (ours, all) in [("waits", "count"), ("sum_ns", "sum_ns")] {
        let paired: u64 = list(&document["wakings"]).iter().map(|pair| number(&pair[ours])).sum();
        let of_classes: u64 = list(&document["classes"]).iter().map(|class| number(&class[all])).sum();
        assert_eq!(paired + number(&rest[ours]), of_classes, "{document}");
    }
    for (waker, wakee) in [("wl-ping", "wl-pong"), ("wl-pong", "wl-ping")] {
        let is = |side: &Value, name: &str| side["comm"] == name && side["tid"] == staged.tid(name);
        let pair =
            list(&document["wakings"]).iter().find(|pair| is(&pair["waker"], waker) && is(&pair["wakee"], wakee));
        let pair = pair.unwrap_or_else(|| panic!("`{waker}` never woke `{wakee}`: {document}"));
        let waits = number(&pair["waits"]);
        assert!(waits + performance.untraced >= ROUNDS, "{waits} of {ROUNDS}: {pair}");
        assert!(waits <= performance.wakeups[wakee], "{pair}, {performance:?}");
        assert!(number(&pair["p50_ns"]) <= number(&pair["p99_ns"]), "{pair}");
        assert!(number(&pair["p99_ns"]) <= number(&pair["max_ns"]), "{pair}");
    }
    Ok(())
}

fn the_parts_of_each_line_add_up(attach: Attach) -> Outcome {
    let cpu = machine::one_cpu();
    let load = BehindHog { rounds: 60, spin_ns: 3_000_000, cpu, sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let trace = measuring(attach, &["trace", "--parts", "--from", "waking", "--tid", &tid]);
    let performance = staged.perform();
    let documents = documents(trace);
    let (report, waits) = documents.split_last().expect("a report");
    assert_eq!(number(&report["coverage"]["delivered"]), waits.len() as u64, "{report}");
    assert!(waits.len() as u64 + performance.untraced >= performance.wakeups["wl-sleeper"], "{}", waits.len());
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        let parts = wait["parts"].as_object().unwrap_or_else(|| panic!("no parts: {wait}"));
        let sum: u64 = parts.values().map(number).sum();
        assert_eq!(sum, number(&wait["latency_ns"]), "{wait}");
        parts.iter().for_each(|(part, ns)| *sums.entry(part).or_default() += number(ns));
    }
    let all_ns: u64 = sums.values().sum();
    println!("\n  {sums:?}");
    if machine::has_own_time() {
        // Behind the hog it waits with whoever else on this machine is of its class.
        assert!(sums["higher"] * 100 >= (all_ns - sums["same"]) * 95, "{sums:?}");
    } else {
        assert!(sums["higher"] > 0, "{sums:?}");
    }
    Ok(())
}

fn all_cgroups_of_a_container_are_one_group(attach: Attach) -> Outcome {
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let hierarchy = Hierarchy::find()?;
    let pod = hierarchy.group(&format!("pod{}.slice", UID.replace('-', "_")));
    let container = pod.child(&format!("cri-containerd-{}.scope", "3f4e5d6c7b8a9012".repeat(4)));
    let child = container.child("init.scope");
    let mut staged = ping_pong().stage();
    container.take_in(staged.tid("wl-ping"));
    child.take_in(staged.tid("wl-pong"));
    let hist = measuring(attach, &["hist", "--by", "container", "--comm", "wl-p*"]);
    let performance = staged.perform();
    let report = documents(hist).remove(0);
    drop(staged);
    let groups = list(&report["groups"]);
    assert_eq!(groups.len(), 1, "{report}");
    assert_eq!(groups[0]["key"], serde_json::json!({"container": "3f4e5d6c7b8a", "pod": UID}), "{report}");
    let count = number(&groups[0]["count"]);
    assert_eq!(count, number(&report["coverage"]["delivered"]), "{report}");
    assert!((2 * ROUNDS..=performance.wakeups()).contains(&(count + performance.untraced)), "{count}: {performance:?}");
    Ok(())
}

/// Tasks that any other keeps from the CPU, one on each, until it is dropped.
struct Idlers<'a>(&'a AtomicBool);

impl<'a> Idlers<'a> {
    fn begin<'scope>(over: &'a AtomicBool, scope: &'scope std::thread::Scope<'scope, 'a>) -> Self {
        for cpu in machine::cpus() {
            scope.spawn(move || {
                name("wl-idle");
                pin(0, cpu);
                let parameters = libc::sched_param { sched_priority: 0 };
                // SAFETY: the structure is valid for the call and is only read.
                assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) }, 0);
                while !over.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Idlers<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// What `why` says of the waits of such tasks while `load` is performed.
fn beside(attach: Attach, parts: &str, load: impl FnOnce()) -> Value {
    let over = AtomicBool::new(false);
    let document = std::thread::scope(|scope| {
        let _idlers = Idlers::begin(&over, scope);
        let why = measuring(attach, &["why", "--comm", "wl-idle", "--class", "preempted", "--parts", parts]);
        load();
        documents(why).remove(0)
    });
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    document
}

/// The workers that were in the way while cgroups were made and removed. It is works that free a cgroup:
/// `css_release_work_fn`, `css_free_rwork_fn` (kernel/cgroup/cgroup.c).
fn beside_removed_cgroups(attach: Attach, parts: &str) -> Result<Vec<Value>, Skip> {
    let hierarchy = Hierarchy::find()?;
    let document = beside(attach, parts, || (0..200).for_each(|_| drop(hierarchy.group("short"))));
    let is_worker =
        |one: &&Value| one["kind"] == "task" && one["name"].as_str().is_some_and(|name| name.starts_with("kworker/"));
    Ok(list(&document["antagonists"]).iter().filter(is_worker).cloned().collect())
}

fn a_kworker_in_the_way_is_named_with_its_function(attach: Attach) -> Outcome {
    let workers = beside_removed_cgroups(attach, "works")?;
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in &workers {
        let works = list(&worker["works"]);
        let sum: u64 = works.iter().map(|work| number(&work["sum_ns"])).sum();
        assert!(sum <= number(&worker["sum_ns"]), "more than it had: {worker}");
        for work in works {
            let function = work["function"].as_str().unwrap_or_else(|| panic!("no name: {work}"));
            *functions.entry(function).or_default() += number(&work["sum_ns"]);
        }
    }
    println!("\n  {functions:?}");
    for function in ["css_release_work_fn", "css_free_rwork_fn"] {
        assert!(functions.contains_key(function), "no `{function}`: {workers:?}");
    }
    Ok(())
}

fn without_works_no_kworker_has_any(attach: Attach) -> Outcome {
    let workers = beside_removed_cgroups(attach, "tasks")?;
    assert!(!workers.is_empty());
    assert!(workers.iter().all(|worker| list(&worker["works"]).is_empty()), "{workers:?}");
    Ok(())
}

/// The storms that `why` finds where so many tasks are made, one after the other, each of which runs for a millisecond.
fn storms(attach: Attach, children: u64) -> Value {
    let place = Place::other(machine::one_cpu());
    let mut staged = Workload::Forks(Forks { children, run_ns: 1_000_000, place }).stage();
    beside(attach, "forks", || _ = staged.perform())["storms"].clone()
}

fn many_new_tasks_in_the_way_are_a_storm_of_whoever_made_them(attach: Attach) -> Outcome {
    const CHILDREN: u64 = 300;
    let storms = storms(attach, CHILDREN);
    println!("\n  {storms}");
    let storm = &storms[0];
    assert_eq!(storm["comm"], "wl-forker", "{storms}");
    assert_eq!((number(&storm["tasks"]), number(&storm["programs"])), (CHILDREN, 0), "{storms}");
    assert!(number(&storm["sum_ns"]) <= number(&storm["of_ns"]), "{storms}");
    if machine::has_own_time() {
        // Each child runs that long and keeps one of them from its CPU, which is the child's unless it is interrupted.
        assert!(number(&storm["sum_ns"]) * 10 >= CHILDREN * 1_000_000 * 8, "{storms}");
    }
    Ok(())
}

fn few_new_tasks_are_no_storm(attach: Attach) -> Outcome {
    let storms = storms(attach, 10);
    assert!(list(&storms).iter().all(|storm| storm["comm"] != "wl-forker"), "{storms}");
    Ok(())
}
