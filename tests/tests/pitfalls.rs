//! Traps that other tools fell into, on a real kernel. The numbers are those of docs/semantics.md.

use nix::sys::signal::Signal;
use wakelat_tests::{
    attached, attached_typed,
    clock::now_ns,
    compare::{assert_kernels_own_account, assert_one_wakeup_for_each_block, assert_within_user_times},
    idle::Idling,
    machine,
    report::JsonReport,
    suite::{Case, Skip, TestOutcome},
    switches::JsonSwitch,
    sysctl::Sysctl,
    task::{Policy, TaskPlacement},
    wakelat::{AttachCase, Wakelat, command},
    workload::{
        BehindHog, CrossWake, ForkWorkload, MigrationWorkload, Performance, PingPong, SignalStorm, Sleeper, ThreadPair,
        WakeRace, WokenTwice, Workload,
    },
};

const ALL_CLASSES: &str = "wakeup,new,preempted";
const SLEEP_AFTER_NS: u64 = 1_000_000_000;

pub fn cases() -> Vec<Case> {
    let typed = attached_typed![
        t06_a_second_wakeup_does_not_restart_the_clock_of_a_waiting_task,
        t22_starvation_has_its_full_length,
    ];
    typed
        .into_iter()
        .chain(attached![
            t01_t02_t06_a_task_preempted_on_its_way_to_sleep_waits_from_then_on,
            t03_t05_a_signal_on_the_way_to_sleep_starts_no_wait,
            t05_an_unpaced_ping_pong_leaves_no_stale_wait,
            t05_a_timer_that_expires_before_its_task_sleeps_starts_no_wait,
            t07_delivery_and_latency_are_separate,
            t10_a_reused_pid_is_another_task,
            t11_the_idle_task_never_waits,
            t12_no_wait_ends_before_it_began_on_another_cpu,
            t16_a_second_set_of_programs_does_not_affect_the_first,
            t23_a_wait_belongs_to_the_cpu_on_which_it_ends,
            threads_of_one_process_keep_their_own_ids_and_names,
        ])
        .collect()
}

/// Measures one performance of `load` by thread: all classes of the tasks whose names begin with `wl-`.
fn measure(attach: AttachCase, load: Workload) -> (JsonReport, Performance) {
    let mut staged = load.stage();
    let wakelat =
        Wakelat::hist(attach, &["--by", "tid", "--comm", "wl-*", "--class", ALL_CLASSES, "--ring-size", "16M"]);
    let performance = staged.perform();
    (wakelat.report(), performance)
}

fn t01_t02_t06_a_task_preempted_on_its_way_to_sleep_waits_from_then_on(attach: AttachCase) -> TestOutcome {
    let rounds = if machine::is_emulated() { 1000 } else { 2500 };
    let cpus = [machine::cpus()[0], machine::one_cpu()];
    let race = WakeRace { rounds, cpus, preemptor: true, sleep_after_ns: 1_000_000 };
    let (report, performance) = measure(attach, Workload::WakeRace(race));
    println!("\n  {:?}", report.coverage.wakeups);
    // A preemption taken for a sleep would be a missing wait with its time; a wakeup that restarts the
    // clock of a waiting task makes its wait shorter than run_delay.
    assert_kernels_own_account(&report, &performance);
    assert!(report.count("preempted") > 0, "{report:?}");
    report.assert_nothing_lost(&performance);
    Ok(())
}

fn t06_a_second_wakeup_does_not_restart_the_clock_of_a_waiting_task(attach: AttachCase) -> TestOutcome {
    if machine::is_emulated() {
        return Err(Skip::because("needs CPUs that run at the same time"));
    }
    // How long it takes to wake a task differs by far more than ten times between machines, and from one hour to the next.
    for sweep_ns in (0..8).map(|doublings| 4_000 << doublings) {
        if wakes_a_waiting_task(attach, WokenTwice { rounds: 3000, cpus: machine::two_cpus()?, sweep_ns }) {
            return Ok(());
        }
    }
    panic!("no waiting task was woken");
}

/// Whether the load woke a task that waited already. Each wait of a task that is still runnable must begin when it
/// leaves its CPU, to the ns, however often it is woken meanwhile.
fn wakes_a_waiting_task(attach: AttachCase, load: WokenTwice) -> bool {
    let mut staged = Workload::WokenTwice(load).stage();
    let target = staged.tid("wl-target");
    let arguments = ["trace", "--all", "--json", "--attach", attach.name(), "--tid", &target.to_string()];
    let trace = Wakelat::measuring(command(&[&arguments[..], &["--ring-size", "64M"]].concat()));
    let of_waits = Wakelat::hist(attach, &["--tid", &target.to_string(), "--class", ALL_CLASSES]);
    staged.perform();
    let report = of_waits.report();
    trace.signal(Signal::SIGINT);
    let ended = trace.end();
    assert!(ended.status.success(), "{ended:#?}");
    let terms = report.coverage.wakeups;
    println!("\n  {terms:?}");
    let switches = JsonSwitch::parse_all(&ended.stdout);
    let preempted = switches.iter().filter(|switch| switch.class.as_deref() == Some("preempted"));
    let (mut waits, mut wrong) = (0, Vec::new());
    for switch in preempted.filter(|switch| switch.off_cpu_ns.is_some()) {
        waits += 1;
        if switch.off_cpu_ns != switch.latency_ns {
            wrong.push(switch);
        }
    }
    println!("  {waits} waits from where the CPU was left");
    assert!(waits >= terms.already_queued, "{waits} waits, {terms:?}");
    assert!(wrong.is_empty(), "{} of {waits}, the first {:?}", wrong.len(), wrong.first());
    terms.already_queued > 0
}

fn t03_t05_a_signal_on_the_way_to_sleep_starts_no_wait(attach: AttachCase) -> TestOutcome {
    // On a busy machine about one signal in a hundred sleeps meets the target on its way: both tasks
    // must have their CPUs.
    const STORMS: usize = 10;
    let cpus = machine::two_cpus()?;
    for _ in 0..STORMS {
        let (report, performance) =
            measure(attach, Workload::SignalStorm(SignalStorm { rounds: 1000, cpus, sleep_after_ns: SLEEP_AFTER_NS }));
        let terms = report.coverage.wakeups;
        println!("\n  {terms:?}");
        assert_kernels_own_account(&report, &performance);
        assert_no_stale_wait(&report, &performance);
        if terms.already_running > 0 {
            return Ok(());
        }
    }
    panic!("no running task was woken in {STORMS} storms");
}

fn t05_an_unpaced_ping_pong_leaves_no_stale_wait(attach: AttachCase) -> TestOutcome {
    let [first, last] = machine::two_cpus()?;
    let load = PingPong {
        rounds: if machine::is_emulated() { 2000 } else { 10_000 },
        ping: TaskPlacement::other(first),
        pong: TaskPlacement::other(last),
        patient: false,
        sleep_after_ns: SLEEP_AFTER_NS,
    };
    let (report, performance) = measure(attach, Workload::PingPong(load));
    println!("\n  {:?}", report.coverage.wakeups);
    assert_one_wakeup_for_each_block(&report, &performance);
    assert_no_stale_wait(&report, &performance);
    Ok(())
}

fn t05_a_timer_that_expires_before_its_task_sleeps_starts_no_wait(attach: AttachCase) -> TestOutcome {
    // Each timer has expired when it is started: its interrupt finds the task on the CPU, in a sleeping state.
    const ROUNDS: u64 = 10_000;
    let place = TaskPlacement { cpu: Some(machine::one_cpu()), policy: Policy::Fifo(1) };
    let (report, performance) = measure(attach, Workload::Sleeper(Sleeper { rounds: ROUNDS, sleep_ns: 0, place }));
    let terms = report.coverage.wakeups;
    let slept = performance.reported.waits_ns.len() as u64;
    println!("\n  slept {slept} times, {terms:?}");
    assert_eq!(terms.already_running, ROUNDS - slept);
    assert_one_wakeup_for_each_block(&report, &performance);
    assert_kernels_own_account(&report, &performance);
    Ok(())
}

/// Asserts that no task has a wakeup wait as long as the load's final sleep, as a stale pending wait would
/// cause. A wait that the kernel knows as well is real: other tasks may keep a task from its CPU for longer.
fn assert_no_stale_wait(report: &JsonReport, performance: &Performance) {
    report.assert_nothing_lost(performance);
    for (tid, stats) in &performance.task_stats {
        let longest_ns =
            report.with("tid", *tid).filter(|group| group.class == "wakeup").map(|group| group.max_ns).max();
        let known_ns = stats.run_delay_ns + SLEEP_AFTER_NS / 2;
        assert!(longest_ns.is_none_or(|ns| ns < known_ns), "task {tid}: a wait of {longest_ns:?} ns, {stats:?}");
    }
}

fn t07_delivery_and_latency_are_separate(attach: AttachCase) -> TestOutcome {
    let mut staged = Workload::PingPong(PingPong::across(machine::two_cpus()?, 500)).stage();
    let latency = Wakelat::hist(attach, &["--comm", "wl-pong", "--from", "wakeup"]);
    let both = Wakelat::hist(attach, &["--comm", "wl-pong", "--from", "waking"]);
    let performance = staged.perform();
    let (latency, both) = (latency.report(), both.report());
    latency.coverage.wakeups.assert_complete(performance.wakeups["wl-pong"], &performance);
    both.coverage.wakeups.assert_complete(performance.wakeups["wl-pong"], &performance);
    // Each wait from `sched_waking` encloses the same wait from `sched_wakeup`, and both lie within the user's.
    println!("\n  {} ns from wakeup, {} ns from waking", latency.sum_ns(), both.sum_ns());
    assert!(latency.sum_ns() < both.sum_ns());
    let to_pong: Vec<u64> = performance.reported.waits_ns.iter().step_by(2).copied().collect();
    assert_within_user_times(&both, &performance, &to_pong, performance.wakeups["wl-pong"]);
    Ok(())
}

fn t10_a_reused_pid_is_another_task(attach: AttachCase) -> TestOutcome {
    let loadavg = std::fs::read_to_string("/proc/loadavg").expect("procfs is mounted");
    let tasks = loadavg.split_whitespace().nth(3).and_then(|word| word.split_once('/')?.1.parse::<u64>().ok());
    // Small enough to be used up, with room for what other programs start meanwhile.
    let pid_max = 1000 + 2 * tasks.expect("the number of tasks in /proc/loadavg");
    let children = pid_max + pid_max / 4;
    let mut staged =
        Workload::Forks(ForkWorkload { children, run_ns: 0, place: TaskPlacement::other(machine::one_cpu()) }).stage();
    let wakelat = Wakelat::hist(attach, &["--by", "tid", "--class", ALL_CLASSES, "--comm", "wl-forker"]);
    let restored = Sysctl::set("kernel/pid_max", pid_max);
    let performance = staged.perform();
    drop(restored);
    let report = wakelat.report();
    report.assert_nothing_lost(&performance);
    let terms = report.coverage.wakeups;
    assert!((children - performance.untraced.min(children)..=children).contains(&report.count("new")), "{terms:?}");
    assert!(report.of_class("new").any(|group| group.count > 1), "no pid was used twice");
    assert!(report.max_ns() <= performance.duration_ns, "{report:?}");
    Ok(())
}

fn t11_the_idle_task_never_waits(attach: AttachCase) -> TestOutcome {
    let idling = Idling::start();
    let wakelat = Wakelat::hist(attach, &["--by", "tid", "--class", ALL_CLASSES]);
    // Between two of these times, the idle task leaves its CPU and comes back: a wait, if it could wait.
    idling.until(machine::one_cpu(), 3);
    let report = wakelat.report();
    assert!(report.coverage.wakeups.measured > 0, "{report:?}");
    assert_eq!(report.with("tid", 0).count(), 0, "the idle task");
    // Nothing waits longer than the machine has been up: a difference that wrapped is near 2^64.
    assert!(report.max_ns() < now_ns(), "{} ns", report.max_ns());
    Ok(())
}

fn t12_no_wait_ends_before_it_began_on_another_cpu(attach: AttachCase) -> TestOutcome {
    let rounds = if machine::is_emulated() { 200 } else { 2000 };
    let (report, performance) =
        measure(attach, Workload::Migration(MigrationWorkload { rounds, cpus: machine::two_cpus()? }));
    assert_one_wakeup_for_each_block(&report, &performance);
    assert!(report.max_ns() <= performance.duration_ns, "{report:?}");
    report.assert_nothing_lost(&performance);
    Ok(())
}

fn t16_a_second_set_of_programs_does_not_affect_the_first(attach: AttachCase) -> TestOutcome {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 2000)).stage();
    // On the same tracepoints, of either kind, and with another reader on their classic side if perf is in use.
    let first = Wakelat::hist(attach, &["--comm", "wl-p?ng"]);
    let others = AttachCase::TYPES.map(|attach| Wakelat::hist(attach, &["--comm", "wl-p?ng"]));
    let performance = staged.perform();
    for wakelat in others.into_iter().chain([first]) {
        let coverage = wakelat.report().coverage;
        // The kernel counts everything that it skipped, of these tasks or others; apart from that, the
        // wakeups are complete.
        println!("\n  missed {:?}", coverage.missed);
        let (terms, wakeups) = (coverage.wakeups, performance.wakeups());
        let unseen = coverage.missed.unwrap_or(0) + performance.untraced;
        assert!(unseen < wakeups, "{coverage:?}");
        assert!((wakeups - unseen..=wakeups).contains(&terms.measured), "{coverage:?}");
        assert!(terms.missed_switch <= unseen, "{coverage:?}");
        assert_eq!(terms.task_table_full + terms.ring_buffer_full + terms.invalid, 0, "{coverage:?}");
    }
    Ok(())
}

fn t22_starvation_has_its_full_length(attach: AttachCase) -> TestOutcome {
    machine::two_cpus()?;
    // More ns than 32 bits hold, except in an emulator, where that takes minutes.
    let seconds = if machine::is_emulated() { 3 } else { 5 };
    let spin_ns = seconds * 1_000_000_000;
    // Both are real-time, because the kernel lets ordinary tasks run occasionally behind a real-time one.
    let load = BehindHog { rounds: 1, spin_ns, cpu: machine::one_cpu(), sleeper: Policy::Fifo(5) };
    let mut staged = Workload::BehindHog(load).stage();
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-sleeper"]);
    let performance = staged.perform();
    let report = wakelat.report();
    assert_eq!(report.coverage.wakeups.measured, 1);
    assert!((spin_ns..=performance.reported.waits_ns[0]).contains(&report.max_ns()), "{report:?}");
    assert_within_user_times(&report, &performance, &performance.reported.waits_ns, performance.wakeups());
    Ok(())
}

fn t23_a_wait_belongs_to_the_cpu_on_which_it_ends(attach: AttachCase) -> TestOutcome {
    let cpus = machine::two_cpus()?;
    let rounds = 500;
    let mut staged = Workload::CrossWake(CrossWake { rounds, cpus }).stage();
    let arguments = ["trace", "--json", "--attach", attach.name(), "--comm", "wl-wakee", "--threshold", "1ns"];
    let wakelat = Wakelat::measuring(command(&arguments));
    let performance = staged.perform();
    let waits = wakelat.waits();
    let unseen = rounds as usize - waits.len();
    assert!(unseen as u64 <= performance.untraced, "{unseen} of {rounds} not found");
    let mut skipped = 0;
    for (index, wait) in waits.iter().enumerate() {
        // The task moves to and fro, so after an unseen wait it is one step ahead.
        if wait.cpu != cpus[(index + skipped + 1) % 2] as u32 {
            skipped += 1;
        }
        assert!(skipped <= unseen, "{index}: {wait:?}");
        // The CPU of `sched_waking` is the one on which the task ran before: never the one on which it runs here.
        let round = index + skipped;
        let (from, to) = (cpus[round % 2] as u32, cpus[(round + 1) % 2] as u32);
        assert_eq!((wait.prev_cpu, wait.cpu), (Some(from), to), "round {round}: {wait:?}");
        assert_eq!((wait.tid, wait.waker_tid), (staged.tid("wl-wakee"), Some(staged.tid("wl-waker"))), "{wait:?}");
        assert!(wait.delivery_ns.is_some(), "{wait:?}");
    }
    Ok(())
}

fn threads_of_one_process_keep_their_own_ids_and_names(attach: AttachCase) -> TestOutcome {
    let rounds = 300;
    let mut staged = Workload::ThreadPair(ThreadPair { rounds, cpu: machine::one_cpu() }).stage();
    let [process, waker, wakee] = ["wl-pair", "wl-thread-waker", "wl-thread-wakee"].map(|name| staged.tid(name));
    let arguments = ["trace", "--json", "--attach", attach.name(), "--pid", &process.to_string()];
    let trace = Wakelat::measuring(command(&arguments));
    // Matches the untruncated name: a name cut to 14 bytes would not match.
    let by_name = Wakelat::hist(attach, &["--comm", "wl-thread-wakee", "--by", "comm,pid"]);
    let performance = staged.perform();
    let (waits, report) = (trace.waits(), by_name.report());
    report.coverage.wakeups.assert_complete(performance.wakeups["wl-thread-wakee"], &performance);
    for group in &report.groups {
        assert_eq!((&group.key["comm"], &group.key["pid"]), (&"wl-thread-wakee".into(), &process.into()), "{group:?}");
    }
    for (tid, by) in [(wakee, waker), (waker, wakee)] {
        let of_thread: Vec<_> = waits.iter().filter(|wait| wait.tid == tid && wait.waker_tid == Some(by)).collect();
        assert!(of_thread.len() as u64 + performance.untraced >= rounds, "{tid} woken by {by}: {}", of_thread.len());
        assert!(of_thread.iter().all(|wait| wait.pid == Some(process)), "{:?}", of_thread.first());
    }
    Ok(())
}
