//! The context of a wait: its waker, its container, what a kworker in its way did; and its components as columns.

use std::{
    collections::BTreeMap,
    process::Child,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached, attached_typed,
    cgroup::{Hierarchy, TestCgroup},
    machine,
    procfs::TaskStats,
    suite::{Case, Skip, TestOutcome},
    task::{Policy, TaskPlacement, name, pin},
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, ForkWorkload, PingPong, Sleeper, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let typed = attached_typed![
        wakeup_pairs_contain_every_wakeup_once,
        the_components_of_each_wait_add_up,
        a_kworker_in_the_way_is_named_with_its_function,
        without_workqueue_collection_no_kworker_has_work_items,
        a_fork_storm_in_the_way_is_a_burst_of_its_parent,
        a_few_forks_in_the_way_are_no_storm,
        a_task_in_a_pid_namespace_is_shown_with_its_tid_there,
    ];
    typed.into_iter().chain(attached![all_cgroups_of_a_container_are_one_group]).collect()
}

const ROUNDS: u64 = 500;

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS))
}

/// Starts a command with `--json` and `arguments`, and returns once it measures.
fn measuring(attach: AttachCase, arguments: &[&str]) -> Wakelat {
    let mut all = vec![arguments[0], "--json", "--attach", attach.name()];
    all.extend(&arguments[1..]);
    Wakelat::measuring(command(&all))
}

/// Stops wakelat as Ctrl-C does, and returns the documents that it wrote.
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

fn wakeup_pairs_contain_every_wakeup_once(attach: AttachCase) -> TestOutcome {
    let mut staged = ping_pong().stage();
    let why = measuring(attach, &["why", "--comm", "wl-p*", "--class", "wakeup", "--by", "tid"]);
    let performance = staged.perform();
    let document = documents(why).remove(0);
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    let rest = &document["wakeup_pairs_rest"];
    for (ours, all) in [("waits", "count"), ("sum_ns", "sum_ns")] {
        let paired: u64 = list(&document["wakeup_pairs"]).iter().map(|pair| number(&pair[ours])).sum();
        let of_classes: u64 = list(&document["classes"]).iter().map(|class| number(&class[all])).sum();
        assert_eq!(paired + number(&rest[ours]), of_classes, "{document}");
    }
    for (waker, wakee) in [("wl-ping", "wl-pong"), ("wl-pong", "wl-ping")] {
        let is = |side: &Value, name: &str| side["comm"] == name && side["tid"] == staged.tid(name);
        let pair =
            list(&document["wakeup_pairs"]).iter().find(|pair| is(&pair["waker"], waker) && is(&pair["wakee"], wakee));
        let pair = pair.unwrap_or_else(|| panic!("`{waker}` never woke `{wakee}`: {document}"));
        let waits = number(&pair["waits"]);
        assert!(waits + performance.untraced >= ROUNDS, "{waits} of {ROUNDS}: {pair}");
        assert!(waits <= performance.wakeups[wakee], "{pair}, {performance:?}");
        assert_percentiles_fit_the_sum(pair);
        let longest_ns = performance.reported.waits_ns.iter().max().expect("rounds");
        assert!(number(&pair["max_ns"]) <= *longest_ns, "user space saw {longest_ns} ns: {pair}");
    }
    Ok(())
}

/// Asserts that the percentiles fit the exact sum: waits above a percentile are not shorter, and waits
/// up to it are not longer. A percentile may read up to 1/31 too high.
fn assert_percentiles_fit_the_sum(pair: &Value) {
    let [waits, sum_ns, max_ns] = ["waits", "sum_ns", "max_ns"].map(|name| number(&pair[name]));
    let [p50_ns, p99_ns] = ["p50_ns", "p99_ns"].map(|name| number(&pair[name]));
    let [to_p50, to_p99] = [50, 99].map(|percent| (waits * percent).div_ceil(100));
    let least_ns = ((to_p99 - to_p50) * p50_ns + (waits - to_p99) * p99_ns) / 32 * 31;
    let most_ns = to_p50 * p50_ns + (to_p99 - to_p50) * p99_ns + (waits - to_p99) * max_ns;
    assert!((least_ns..=most_ns).contains(&sum_ns), "{sum_ns} is not within {least_ns}..={most_ns}: {pair}");
    assert!(p99_ns <= max_ns, "{pair}");
}

fn the_components_of_each_wait_add_up(attach: AttachCase) -> TestOutcome {
    let cpu = machine::one_cpu();
    let load = BehindHog { rounds: 60, spin_ns: 3_000_000, cpu, sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let trace = measuring(attach, &["trace", "--breakdown", "--from", "waking", "--tid", &tid]);
    let performance = staged.perform();
    let documents = documents(trace);
    let (report, waits) = documents.split_last().expect("a report");
    assert_eq!(number(&report["coverage"]["measured"]), waits.len() as u64, "{report}");
    assert!(waits.len() as u64 + performance.untraced >= performance.wakeups["wl-sleeper"], "{}", waits.len());
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        let components = wait["components"].as_object().unwrap_or_else(|| panic!("no components: {wait}"));
        let sum: u64 = components.values().map(number).sum();
        assert_eq!(sum, number(&wait["latency_ns"]), "{wait}");
        components.iter().for_each(|(component, ns)| *sums.entry(component).or_default() += number(ns));
    }
    let all_ns: u64 = sums.values().sum();
    println!("\n  {sums:?}");
    if machine::has_own_time() {
        // Behind the hog, the task waits for other tasks of its own class on this machine, and for the hypervisor.
        assert!(sums["higher"] * 100 >= (all_ns - sums["same"] - sums["stolen"]) * 95, "{sums:?}");
    } else {
        assert!(sums["higher"] > 0, "{sums:?}");
    }
    Ok(())
}

fn all_cgroups_of_a_container_are_one_group(attach: AttachCase) -> TestOutcome {
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let hierarchy = Hierarchy::find()?;
    let pod = hierarchy.group(&format!("pod{}.slice", UID.replace('-', "_")));
    let container = pod.child(&format!("cri-containerd-{}.scope", "3f4e5d6c7b8a9012".repeat(4)));
    let child = container.child("init.scope");
    let mut staged = ping_pong().stage();
    container.add_process(staged.tid("wl-ping"));
    child.add_process(staged.tid("wl-pong"));
    let hist = measuring(attach, &["hist", "--by", "container", "--comm", "wl-p*"]);
    let performance = staged.perform();
    let report = documents(hist).remove(0);
    drop(staged);
    let groups = list(&report["groups"]);
    assert_eq!(groups.len(), 1, "{report}");
    assert_eq!(groups[0]["key"], serde_json::json!({"container": "3f4e5d6c7b8a", "pod": UID}), "{report}");
    let count = number(&groups[0]["count"]);
    assert_eq!(count, number(&report["coverage"]["measured"]), "{report}");
    assert!(count <= performance.wakeups() && count + performance.untraced >= 2 * ROUNDS, "{count} of {performance:?}");
    Ok(())
}

/// A shell that is the first process of a PID namespace, and waits for one child after the other.
/// Dropping it kills it.
struct Contained(Child);

impl Contained {
    fn begin() -> Result<Self, Skip> {
        let line = ["--pid", "--fork", "--kill-child", "sh", "-c", "while :; do /bin/true; done"];
        let child = std::process::Command::new("unshare").args(line).spawn();
        child.map(Self).map_err(|error| Skip::because(format!("no `unshare` of util-linux: {error}")))
    }

    /// TID of the shell in the initial namespace.
    fn tid(&self) -> u32 {
        let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id()));
        let first = || children().ok()?.split_whitespace().next()?.parse().ok();
        until("there is a process in the namespace", || first().is_some());
        first().expect("the shell keeps running")
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        self.0.kill().expect("the child has not been reaped");
        self.0.wait().expect("the child has not been reaped");
    }
}

fn a_task_in_a_pid_namespace_is_shown_with_its_tid_there(attach: AttachCase) -> TestOutcome {
    let contained = Contained::begin()?;
    let tid = contained.tid();
    let why = measuring(attach, &["why", "--tid", &tid.to_string(), "--collect", "none"]);
    let before = TaskStats::of(tid).voluntary;
    until("the shell has waited for some children", || TaskStats::of(tid).voluntary > before + 20);
    let document = documents(why).remove(0);
    let link = std::fs::read_link(format!("/proc/{tid}/ns/pid")).expect("the shell is still running");
    let worst = list(&document["worst"]);
    assert!(!worst.is_empty(), "{document}");
    for wait in worst {
        assert_eq!((number(&wait["tid"]), number(&wait["ns_tid"])), (tid.into(), 1), "{wait}");
        assert_eq!(format!("pid:[{}]", wait["pid_ns"]), link.to_str().expect("a name"), "{wait}");
    }
    Ok(())
}

/// Tasks that always want to run, one on each CPU, until this is dropped. They have the ordinary policy:
/// on a busy machine, a `SCHED_IDLE` task waits longer than the history that `why` keeps of a CPU.
struct Spinners<'a> {
    over: &'a AtomicBool,
    /// Number of loop iterations of each task.
    loops: &'a [AtomicU64],
}

impl<'a> Spinners<'a> {
    fn begin<'scope>(
        over: &'a AtomicBool,
        loops: &'a [AtomicU64],
        scope: &'scope std::thread::Scope<'scope, 'a>,
    ) -> Self {
        for (cpu, loops) in machine::cpus().into_iter().zip(loops) {
            scope.spawn(move || {
                name("wl-spinner");
                pin(0, cpu);
                while !over.load(SeqCst) {
                    loops.fetch_add(1, SeqCst);
                }
            });
        }
        Self { over, loops }
    }

    /// Waits until each task has run: no earlier wait is still pending.
    fn until_each_has_run(&self) {
        for loops in self.loops {
            let before = loops.load(SeqCst);
            until("a spinner has run", || loops.load(SeqCst) > before + 1);
        }
    }
}

impl Drop for Spinners<'_> {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

/// Number of removed cgroups below `parent` that the kernel has not freed yet.
fn dying(parent: &TestCgroup) -> u64 {
    let stat = std::fs::read_to_string(parent.path().join("cgroup.stat")).expect("every cgroup has this");
    let dying = stat.lines().find_map(|line| line.strip_prefix("nr_dying_descendants ")?.parse().ok());
    dying.unwrap_or_else(|| panic!("no dying cgroups in {stat}"))
}

/// The workers' shares of waits that were pending while cgroups were created and removed. A work item
/// frees a cgroup: `css_release_work_fn` (kernel/cgroup/cgroup.c).
fn beside_removed_cgroups(attach: AttachCase, collect: &str) -> Result<Vec<Value>, Skip> {
    let hierarchy = Hierarchy::find()?;
    let (over, loops) = (AtomicBool::new(false), machine::cpus().iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let document = std::thread::scope(|scope| {
        let spinners = Spinners::begin(&over, &loops, scope);
        let why = measuring(
            attach,
            // Room for all events, also if the reader gets no CPU meanwhile.
            &[
                &["why", "--comm", "wl-spinner", "--class", "preempted"][..],
                &["--collect", collect, "--worst", "1000", "--ring-size", "128M"],
            ]
            .concat(),
        );
        // From here on, a wait for a CPU is seen from its beginning.
        spinners.until_each_has_run();
        let parent = hierarchy.group("parent");
        (0..200).for_each(|_| drop(parent.child("short")));
        until("the cgroups are freed", || dying(&parent) == 0);
        spinners.until_each_has_run();
        documents(why).remove(0)
    });
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    let is_worker =
        |one: &&Value| one["kind"] == "task" && one["name"].as_str().is_some_and(|name| name.starts_with("kworker/"));
    for worker in list(&document["interferers"]).iter().filter(is_worker) {
        let sum: u64 = list(&worker["work_items"]).iter().map(|work| number(&work["sum_ns"])).sum();
        assert!(sum <= number(&worker["sum_ns"]), "work items exceed the worker's time: {worker}");
    }
    // The hundred that took most of all waits, and all that took any part of the thousand longest: a
    // busy machine has many others.
    let shares = list(&document["worst"]).iter().flat_map(|wait| list(&wait["shares"]));
    Ok(shares.chain(list(&document["interferers"])).filter(is_worker).cloned().collect())
}

fn a_kworker_in_the_way_is_named_with_its_function(attach: AttachCase) -> TestOutcome {
    let workers = beside_removed_cgroups(attach, "workqueue")?;
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in &workers {
        let work_items = list(&worker["work_items"]);
        let sum: u64 = work_items.iter().map(|work| number(&work["sum_ns"])).sum();
        let worker_ns = worker.get("ns").unwrap_or(&worker["sum_ns"]);
        assert!(sum <= number(worker_ns), "work items exceed the worker's time: {worker}");
        for work in work_items {
            let function = work["function"].as_str().unwrap_or_else(|| panic!("no name: {work}"));
            *functions.entry(function).or_default() += number(&work["sum_ns"]);
        }
    }
    println!("\n  {functions:?}");
    assert!(functions.contains_key("css_release_work_fn"), "{functions:?} of {} workers", workers.len());
    Ok(())
}

fn without_workqueue_collection_no_kworker_has_work_items(attach: AttachCase) -> TestOutcome {
    let workers = beside_removed_cgroups(attach, "none")?;
    assert!(!workers.is_empty());
    assert!(workers.iter().all(|worker| list(&worker["work_items"]).is_empty()), "{workers:?}");
    Ok(())
}

/// The fork bursts that `why` finds in the waits of a task, while a task above it forks `children`, one
/// after the other, each of which runs for a millisecond.
fn fork_bursts(attach: AttachCase, children: u64) -> Value {
    let cpu = machine::one_cpu();
    let below = TaskPlacement { cpu: Some(cpu), policy: Policy::Fifo(5) };
    let mut forks =
        Workload::Forks(ForkWorkload { children, run_ns: 1_000_000, place: TaskPlacement::fifo(cpu) }).stage();
    let mut sleeper = Workload::Sleeper(Sleeper { rounds: 1_000_000, sleep_ns: 1_000_000, place: below }).stage();
    let tid = sleeper.tid("wl-sleeper");
    // The forker may take the CPU from the sleeper, too.
    let why =
        measuring(attach, &["why", "--tid", &tid.to_string(), "--class", "wakeup,preempted", "--collect", "fork"]);
    let slept = || TaskStats::of(tid).voluntary;
    let until_it_runs = || {
        let before = slept();
        until("the task below has run", || slept() > before + 1);
    };
    sleeper.begin();
    until_it_runs();
    forks.perform();
    until_it_runs();
    let document = documents(why).remove(0);
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    document["fork_bursts"].clone()
}

fn a_fork_storm_in_the_way_is_a_burst_of_its_parent(attach: AttachCase) -> TestOutcome {
    const CHILDREN: u64 = 300;
    let bursts = fork_bursts(attach, CHILDREN);
    println!("\n  {bursts}");
    let burst = &bursts[0];
    assert_eq!(burst["comm"], "wl-forker", "{bursts}");
    assert_eq!((number(&burst["tasks"]), number(&burst["execs"])), (CHILDREN, 0), "{bursts}");
    assert!(number(&burst["sum_ns"]) <= number(&burst["of_ns"]), "{bursts}");
    assert!(number(&burst["sum_ns"]) > 0, "{bursts}");
    if machine::has_own_time() {
        // The rest is the forker itself, which needs time to fork them.
        assert!(number(&burst["sum_ns"]) * 2 >= number(&burst["of_ns"]), "{bursts}");
    }
    Ok(())
}

fn a_few_forks_in_the_way_are_no_storm(attach: AttachCase) -> TestOutcome {
    let bursts = fork_bursts(attach, 10);
    assert!(list(&bursts).iter().all(|burst| burst["comm"] != "wl-forker"), "{bursts}");
    Ok(())
}
