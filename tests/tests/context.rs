//! What stands around a wait: who woke the task, in which container it is, what a kworker in its way did; and its parts as columns.

use std::{
    collections::BTreeMap,
    process::Child,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached, attached_typed,
    cgroup::Hierarchy,
    machine,
    procfs::TaskStats,
    suite::{self, Skip, TestOutcome},
    task::{Policy, TaskPlacement, name, pin},
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, ForkWorkload, PingPong, Sleeper, Workload, until},
};

fn main() {
    let typed = attached_typed![
        who_wakes_whom_has_every_wakeup_once,
        the_parts_of_each_line_add_up,
        a_kworker_in_the_way_is_named_with_its_function,
        without_works_no_kworker_has_any,
        many_new_tasks_in_the_way_are_a_storm_of_whoever_made_them,
        few_new_tasks_are_no_storm,
        a_task_in_a_pid_namespace_is_shown_with_its_number_there,
    ];
    suite::main(typed.into_iter().chain(attached![all_cgroups_of_a_container_are_one_group]));
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

fn who_wakes_whom_has_every_wakeup_once(attach: AttachCase) -> TestOutcome {
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
        assert_percentiles_fit_the_sum(pair);
        let longest_ns = performance.reported.waits_ns.iter().max().expect("rounds");
        assert!(number(&pair["max_ns"]) <= *longest_ns, "userspace saw {longest_ns} ns: {pair}");
    }
    Ok(())
}

/// Asserts that as many waits are as long as the percentiles say as fits their exact sum: those above a percentile are not shorter, and
/// those up to it are not longer. A percentile may read up to a 31st too high.
fn assert_percentiles_fit_the_sum(pair: &Value) {
    let [waits, sum_ns, max_ns] = ["waits", "sum_ns", "max_ns"].map(|name| number(&pair[name]));
    let [p50_ns, p99_ns] = ["p50_ns", "p99_ns"].map(|name| number(&pair[name]));
    let [to_p50, to_p99] = [50, 99].map(|percent| (waits * percent).div_ceil(100));
    let least_ns = ((to_p99 - to_p50) * p50_ns + (waits - to_p99) * p99_ns) / 32 * 31;
    let most_ns = to_p50 * p50_ns + (to_p99 - to_p50) * p99_ns + (waits - to_p99) * max_ns;
    assert!((least_ns..=most_ns).contains(&sum_ns), "{sum_ns} is not within {least_ns}..={most_ns}: {pair}");
    assert!(p99_ns <= max_ns, "{pair}");
}

fn the_parts_of_each_line_add_up(attach: AttachCase) -> TestOutcome {
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
        // Behind the hog it waits with whoever else on this machine is of its class, and for the hypervisor.
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
    assert_eq!(count, number(&report["coverage"]["delivered"]), "{report}");
    assert!(count <= performance.wakeups() && count + performance.untraced >= 2 * ROUNDS, "{count} of {performance:?}");
    Ok(())
}

/// A shell that is the first process of a PID namespace, and waits for one child after the other. Gone when it is dropped.
struct Contained(Child);

impl Contained {
    fn begin() -> Result<Self, Skip> {
        let line = ["--pid", "--fork", "--kill-child", "sh", "-c", "while :; do /bin/true; done"];
        let child = std::process::Command::new("unshare").args(line).spawn();
        child.map(Self).map_err(|error| Skip::because(format!("no `unshare` of util-linux: {error}")))
    }

    /// The shell's number outside.
    fn tid(&self) -> u32 {
        let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id()));
        let first = || children().ok()?.split_whitespace().next()?.parse().ok();
        until("there is a process in the namespace", || first().is_some());
        first().expect("it stays")
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }
}

fn a_task_in_a_pid_namespace_is_shown_with_its_number_there(attach: AttachCase) -> TestOutcome {
    let contained = Contained::begin()?;
    let tid = contained.tid();
    let why = measuring(attach, &["why", "--tid", &tid.to_string(), "--parts", "tasks"]);
    let before = TaskStats::of(tid).voluntary;
    until("it has waited for some children", || TaskStats::of(tid).voluntary > before + 20);
    let document = documents(why).remove(0);
    let link = std::fs::read_link(format!("/proc/{tid}/ns/pid")).expect("it is still there");
    let worst = list(&document["worst"]);
    assert!(!worst.is_empty(), "{document}");
    for wait in worst {
        assert_eq!((number(&wait["tid"]), number(&wait["ns_tid"])), (tid.into(), 1), "{wait}");
        assert_eq!(format!("pid:[{}]", wait["pid_ns"]), link.to_str().expect("a name"), "{wait}");
    }
    Ok(())
}

/// Tasks that always want their CPU, one on each, until it is dropped. Of the ordinary policy: where a machine is busy, one of
/// `SCHED_IDLE` waits for longer than what `why` remembers of a CPU.
struct Spinners<'a> {
    over: &'a AtomicBool,
    /// How often each has looked whether it is over.
    turns: &'a [AtomicU64],
}

impl<'a> Spinners<'a> {
    fn begin<'scope>(
        over: &'a AtomicBool,
        turns: &'a [AtomicU64],
        scope: &'scope std::thread::Scope<'scope, 'a>,
    ) -> Self {
        for (cpu, turns) in machine::cpus().into_iter().zip(turns) {
            scope.spawn(move || {
                name("wl-spinner");
                pin(0, cpu);
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                }
            });
        }
        Self { over, turns }
    }

    /// Waits until each has had its CPU: no wait of before goes on.
    fn until_each_has_run(&self) {
        for turns in self.turns {
            let before = turns.load(SeqCst);
            until("a spinner has run", || turns.load(SeqCst) > before + 1);
        }
    }
}

impl Drop for Spinners<'_> {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

/// How many removed cgroups the kernel has not freed yet.
fn dying(hierarchy: &Hierarchy) -> u64 {
    let stat = std::fs::read_to_string(hierarchy.root().join("cgroup.stat")).expect("every hierarchy has this");
    let dying = stat.lines().find_map(|line| line.strip_prefix("nr_dying_descendants ")?.parse().ok());
    dying.unwrap_or_else(|| panic!("no dying cgroups in {stat}"))
}

/// What workers had of waits that went on while cgroups were made and removed. It is a work that frees a cgroup:
/// `css_release_work_fn` (kernel/cgroup/cgroup.c).
fn beside_removed_cgroups(attach: AttachCase, parts: &str) -> Result<Vec<Value>, Skip> {
    let hierarchy = Hierarchy::find()?;
    let (over, turns) = (AtomicBool::new(false), machine::cpus().iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let document = std::thread::scope(|scope| {
        let spinners = Spinners::begin(&over, &turns, scope);
        let why = measuring(
            attach,
            &["why", "--comm", "wl-spinner", "--class", "preempted", "--parts", parts, "--worst", "1000"],
        );
        // What keeps one from its CPU from here on is a wait that is seen from its beginning.
        spinners.until_each_has_run();
        let dying = || dying(&hierarchy);
        let before = dying();
        (0..200).for_each(|_| drop(hierarchy.group("short")));
        until("the cgroups are freed", || dying() <= before);
        spinners.until_each_has_run();
        documents(why).remove(0)
    });
    assert_eq!(document["timeline"]["lost"], 0, "{document}");
    let is_worker =
        |one: &&Value| one["kind"] == "task" && one["name"].as_str().is_some_and(|name| name.starts_with("kworker/"));
    for worker in list(&document["antagonists"]).iter().filter(is_worker) {
        let sum: u64 = list(&worker["works"]).iter().map(|work| number(&work["sum_ns"])).sum();
        assert!(sum <= number(&worker["sum_ns"]), "more than it had: {worker}");
    }
    // The hundred that had most of all waits, and all that had any of the thousand longest: a busy machine has many others.
    let shares = list(&document["worst"]).iter().flat_map(|wait| list(&wait["shares"]));
    Ok(shares.chain(list(&document["antagonists"])).filter(is_worker).cloned().collect())
}

fn a_kworker_in_the_way_is_named_with_its_function(attach: AttachCase) -> TestOutcome {
    let workers = beside_removed_cgroups(attach, "works")?;
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in &workers {
        let works = list(&worker["works"]);
        let sum: u64 = works.iter().map(|work| number(&work["sum_ns"])).sum();
        let had = worker.get("ns").unwrap_or(&worker["sum_ns"]);
        assert!(sum <= number(had), "more than it had: {worker}");
        for work in works {
            let function = work["function"].as_str().unwrap_or_else(|| panic!("no name: {work}"));
            *functions.entry(function).or_default() += number(&work["sum_ns"]);
        }
    }
    println!("\n  {functions:?}");
    assert!(functions.contains_key("css_release_work_fn"), "{functions:?} of {} workers", workers.len());
    Ok(())
}

fn without_works_no_kworker_has_any(attach: AttachCase) -> TestOutcome {
    let workers = beside_removed_cgroups(attach, "tasks")?;
    assert!(!workers.is_empty());
    assert!(workers.iter().all(|worker| list(&worker["works"]).is_empty()), "{workers:?}");
    Ok(())
}

/// The storms that `why` finds in the waits of a task, where above it so many others are made, one after the other, each of
/// which runs for a millisecond.
fn fork_bursts(attach: AttachCase, children: u64) -> Value {
    let cpu = machine::one_cpu();
    let below = TaskPlacement { cpu: Some(cpu), policy: Policy::Fifo(5) };
    let mut forks =
        Workload::Forks(ForkWorkload { children, run_ns: 1_000_000, place: TaskPlacement::fifo(cpu) }).stage();
    let mut sleeper = Workload::Sleeper(Sleeper { rounds: 1_000_000, sleep_ns: 1_000_000, place: below }).stage();
    let tid = sleeper.tid("wl-sleeper");
    let why = measuring(attach, &["why", "--tid", &tid.to_string(), "--class", "wakeup", "--parts", "forks"]);
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
    document["storms"].clone()
}

fn many_new_tasks_in_the_way_are_a_storm_of_whoever_made_them(attach: AttachCase) -> TestOutcome {
    const CHILDREN: u64 = 300;
    let storms = fork_bursts(attach, CHILDREN);
    println!("\n  {storms}");
    let storm = &storms[0];
    assert_eq!(storm["comm"], "wl-forker", "{storms}");
    assert_eq!((number(&storm["tasks"]), number(&storm["programs"])), (CHILDREN, 0), "{storms}");
    assert!(number(&storm["sum_ns"]) <= number(&storm["of_ns"]), "{storms}");
    assert!(number(&storm["sum_ns"]) > 0, "{storms}");
    if machine::has_own_time() {
        // The rest is the forker itself, which takes as long as it takes to make them.
        assert!(number(&storm["sum_ns"]) * 2 >= number(&storm["of_ns"]), "{storms}");
    }
    Ok(())
}

fn few_new_tasks_are_no_storm(attach: AttachCase) -> TestOutcome {
    let storms = fork_bursts(attach, 10);
    assert!(list(&storms).iter().all(|storm| storm["comm"] != "wl-forker"), "{storms}");
    Ok(())
}
