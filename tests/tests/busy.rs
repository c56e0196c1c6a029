//! Runs every command that streams events while both CPUs wake and switch tasks as fast as they can:
//! each command ends, soon after its window, and accounts for every wakeup.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read},
    process::{Command, Stdio},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use wakelat_tests::{
    clock::now_ns,
    grace_periods::GracePeriodThread,
    machine, once, procfs,
    report::JsonTerms,
    suite::{Case, Skip, TestOutcome},
    task::{Policy, TaskPlacement},
    wakelat::{RunOutput, Wakelat, command},
    workload::{Messaging, Performance, PingPong, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    once![
        a_busy_machine_is_measured_with_samples,
        a_busy_machine_is_explained,
        a_busy_machine_is_traced,
        a_busy_machine_is_traced_with_every_switch,
        a_busy_machine_is_recorded,
        a_busy_machine_is_aggregated_in_the_kernel,
        records_of_two_cpus_come_in_the_order_of_time,
        each_command_ends_soon_after_its_window_on_an_overloaded_machine,
        a_signal_is_noticed_before_a_full_ring_buffer_is_read,
    ]
}

/// Two tasks on each of two CPUs that hand a byte to and fro without a pause.
fn busy_pairs() -> Result<[Staged; 2], Skip> {
    // Takes about a second in an emulator, less elsewhere.
    let rounds = 1000;
    let pair = |cpu| {
        let place = TaskPlacement::other(cpu);
        Workload::PingPong(PingPong { rounds, ping: place, pong: place, patient: false, sleep_after_ns: 0 }).stage()
    };
    Ok(machine::two_cpus()?.map(pair))
}

/// Runs wakelat on the pairs, both of which perform at once.
fn measured(arguments: &[&str]) -> Result<(RunOutput, [Performance; 2]), Skip> {
    measured_by(command(&[arguments, &["--comm", "wl-p?ng"]].concat()))
}

/// Runs this command on the pairs.
fn measured_by(command: Command) -> Result<(RunOutput, [Performance; 2]), Skip> {
    let pairs = busy_pairs()?;
    let wakelat = Wakelat::measuring(command);
    let performers = pairs.map(|mut pair| std::thread::spawn(move || (pair.perform(), pair)));
    let performed = performers.map(|performer| performer.join().expect("the load performs"));
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    // Only now, because the exit of a task is a wakeup, too.
    let performances = performed.map(|(performance, _pair)| performance);
    Ok((ended, performances))
}

/// Runs a command that needs the ring buffer: it accounts for every wakeup, or wakelat refuses it
/// because the kernel's ring buffer would freeze the machine.
fn streams(arguments: &[&str]) -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        let refused = Wakelat::start(command(arguments)).end();
        refused.assert_refused(1, &["ring buffer", "PREEMPT_RT"]);
        return Ok(());
    }
    let (ended, performances) = measured(arguments)?;
    assert_every_wakeup_accounted_for(&ended, &performances);
    Ok(())
}

/// Asserts that each block of a task is one wakeup in the coverage: measured, or counted as lost.
fn assert_every_wakeup_accounted_for(ended: &RunOutput, performances: &[Performance; 2]) {
    assert!(ended.status.success(), "{ended:#?}");
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
    let last = documents.map(|document| document.expect("each line is JSON")).last().expect("a document at the end");
    let terms: JsonTerms = serde_json::from_value(last["coverage"].clone()).expect("the document has a coverage");
    assert_accounted(&terms, performances);
}

fn assert_accounted(terms: &JsonTerms, performances: &[Performance; 2]) {
    let blocked: u64 = performances.iter().map(Performance::blocked).sum();
    let untraced: u64 = performances.iter().map(|performance| performance.untraced).sum();
    let accounted =
        terms.measured + terms.task_table_full + terms.ring_buffer_full + terms.invalid + terms.missed_switch;
    println!("\n  {blocked} wakeups, {terms:?}");
    assert!((blocked.saturating_sub(untraced)..=blocked).contains(&accounted), "{blocked} wakeups: {terms:?}");
    assert!(terms.measured > 0, "{terms:?}");
}

fn a_busy_machine_is_measured_with_samples() -> TestOutcome {
    streams(&["hist", "--json", "--mode", "samples"])
}

fn a_busy_machine_is_explained() -> TestOutcome {
    streams(&["why", "--json"])
}

fn a_busy_machine_is_traced() -> TestOutcome {
    streams(&["trace", "--json"])
}

fn a_busy_machine_is_traced_with_every_switch() -> TestOutcome {
    streams(&["trace", "--all", "--json"])
}

fn a_busy_machine_is_recorded() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("busy.wakelat");
    let file = file.to_str().expect("a path");
    let record = ["record", "-o", file];
    if machine::ring_buffer_may_sleep() {
        return streams(&record);
    }
    let (ended, performances) = measured(&record)?;
    assert!(ended.status.success(), "{ended:#?}");
    let shown = Wakelat::start(command(&["why", "--json", "-i", file])).end();
    assert_every_wakeup_accounted_for(&shown, &performances);
    Ok(())
}

/// Without the ring buffer: the remaining mode if the ring buffer is refused.
fn a_busy_machine_is_aggregated_in_the_kernel() -> TestOutcome {
    // With groups, both CPUs also insert elements and empty the freelist of a hash map.
    for groups in [&[][..], &["--by", "tid,comm"], &["--by", "tid,comm", "--group-memory", "1"]] {
        let (ended, performances) = measured(&[&["hist", "--json", "--mode", "aggregate"], groups].concat())?;
        assert_every_wakeup_accounted_for(&ended, &performances);
    }
    Ok(())
}

/// Each CPU sends its records through a ring buffer of its own.
fn records_of_two_cpus_come_in_the_order_of_time() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the kernel's ring buffer would freeze the machine"));
    }
    let size = machine::ring_size();
    let mut command = command(&["trace", "--json", "--comm", "wl-p?ng", "--ring-size", &size]);
    command.env("RUST_LOG", "wakelat::collect=info");
    let (ended, performances) = measured_by(command)?;
    assert_every_wakeup_accounted_for(&ended, &performances);
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
    let (mut by_cpu, mut first_ns, mut latest_ns, mut behind) = (BTreeMap::<u64, u64>::new(), u64::MAX, 0, 0);
    for document in documents.map(|document| document.expect("each line is JSON")) {
        let Some(at_ns) = document["at_ns"].as_u64() else {
            assert_eq!(document["coverage"]["ring_buffer_full"], 0, "{document}");
            continue;
        };
        *by_cpu.entry(document["cpu"].as_u64().expect("a CPU")).or_default() += 1;
        behind += u64::from(at_ns < latest_ns);
        (first_ns, latest_ns) = (first_ns.min(at_ns), latest_ns.max(at_ns));
    }
    // A hypervisor may take the CPU from a program for longer than wakelat holds later records back: from one program
    // on each CPU for each time that wakelat reads the ring buffers. It does so every 20 ms, once the first wait has
    // ended and at the end; none of the ring buffers becomes a quarter full.
    let reads = (latest_ns - first_ns) / 20_000_000 + 2;
    let late = ended.stderr.lines().find_map(|line| {
        let (before, _) = line.split_once(" records came from the ring buffers after later ones")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    println!("\n  waits by CPU: {by_cpu:?}; {behind} behind a later one, {late:?} reported");
    assert!(by_cpu.len() >= 2, "{by_cpu:?}");
    assert!(behind <= late.unwrap_or(0), "{behind} waits behind a later one, {late:?} reported");
    assert!(behind <= reads * by_cpu.len() as u64, "{behind} waits behind a later one in {reads} reads");
    Ok(())
}

/// Reads the output of a command to its end. Returns the last line, and when the output was closed: ns of
/// CLOCK_MONOTONIC.
fn last_line(output: impl Read) -> (String, u64) {
    // The load below would keep an ordinary thread from its CPU.
    TaskPlacement { cpu: None, policy: Policy::Fifo(1) }.take();
    let (mut lines, mut line, mut last) = (BufReader::with_capacity(1 << 20, output), String::new(), String::new());
    while lines.read_line(&mut line).expect("text") > 0 {
        std::mem::swap(&mut line, &mut last);
        line.clear();
    }
    (last, now_ns())
}

/// What the wall clock is ahead of CLOCK_MONOTONIC: ns.
fn unix_offset_ns() -> i64 {
    let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos();
    unix_ns as i64 - now_ns() as i64
}

fn each_command_ends_soon_after_its_window_on_an_overloaded_machine() -> TestOutcome {
    /// Long enough to fill the ring buffers: ns.
    const WINDOW_NS: u64 = 2_000_000_000;
    /// How much longer a window may be, and how long after it the command may end: ns.
    const LONGER_NS: u64 = 50_000_000;
    const AFTER_NS: i64 = 3_000_000_000;
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the kernel's ring buffer would freeze the machine"));
    }
    if machine::is_emulated() || cfg!(debug_assertions) && std::env::var_os("WAKELAT").is_none() {
        return Err(Skip::because("an unoptimized reader takes longer for what is left: use --release"));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("busy.wakelat");
    let file = file.to_str().expect("a path");
    // Detaching waits for grace periods, whose thread would have its turn after 400 tasks.
    let _soon = GracePeriodThread::real_time();
    // As `perf bench sched messaging -g 10`, but without an end.
    let load = Messaging { groups: 10, fan: 20, messages: usize::MAX / 1_000 };
    for view in [&["hist", "--json"][..], &["why", "--json"], &["trace", "--json"], &["record", "-o", file]] {
        let mut messaging = Workload::Messaging(load.clone()).stage();
        let mut line = command(&[view, &["-d", "2"]].concat());
        let mut child = line.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat can be run");
        let output = child.stdout.take().expect("piped");
        let reader = thread::spawn(move || last_line(output));
        let mut wakelat = Wakelat::from_child(child);
        wakelat.until_measuring();
        messaging.begin();
        let ended = wakelat.end();
        drop(messaging);
        let (mut last, closed_at_ns) = reader.join().expect("only reads");
        assert!(ended.status.success(), "{view:?}: {ended:#?}");
        if view[0] == "record" {
            last = Wakelat::start(command(&["hist", "--json", "-q", "-i", file])).end().stdout;
        }
        let report: Value = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{view:?}: {error}: {last}"));
        let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"));
        let (start_unix_ns, duration_ns) = (number("start_unix_ns"), number("duration_ns"));
        let after_ns = closed_at_ns as i64 + unix_offset_ns() - (start_unix_ns + duration_ns) as i64;
        println!("\n  {view:?}: {duration_ns} ns, {after_ns} ns until the end; {}", report["coverage"]);
        assert!((WINDOW_NS..=WINDOW_NS + LONGER_NS).contains(&duration_ns), "{view:?}: {duration_ns} ns");
        assert!((0..AFTER_NS).contains(&after_ns), "{view:?} ended {after_ns} ns after its window");
        assert!(report["coverage"]["measured"].as_u64().is_some_and(|waits| waits > 0), "{view:?}: {report}");
    }
    Ok(())
}

/// The reader has its turn among all tasks until it notices the signal, which takes long on an overloaded machine.
fn a_signal_is_noticed_before_a_full_ring_buffer_is_read() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the kernel's ring buffer would freeze the machine"));
    }
    if !machine::throttles_real_time() {
        return Err(Skip::because("no reader has a real-time priority by default here"));
    }
    let [loaded, observing] = machine::two_cpus()?;
    let wakelat = Wakelat::measuring(command(&["why", "--json"]));
    wakelat.stall();
    Workload::PingPong(PingPong::on_one(loaded, 50_000)).stage().perform();
    let reader = wakelat.pid();
    let before_ns = procfs::ran_ns(reader);
    wakelat.signal(Signal::SIGCONT);
    // Only that long: what the reader waits for at its end may need this CPU.
    let observer = thread::spawn(move || {
        TaskPlacement::fifo(observing).take();
        until("the reader reads", || procfs::ran_ns(reader) > before_ns + 1_000_000);
        kill(Pid::from_raw(reader as i32), Signal::SIGINT).expect("wakelat is running");
        let signalled_ns = procfs::ran_ns(reader);
        until("the reader has a real-time priority", || procfs::rt_priority(reader) > 0);
        [signalled_ns, procfs::ran_ns(reader)]
    });
    let [signalled_ns, noticed_ns] = observer.join().expect("only reads");
    until("the reader has ended", || procfs::state(reader) == Some('Z'));
    let ended_ns = procfs::ran_ns(reader);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let (until_noticed_ns, until_ended_ns) = (noticed_ns - signalled_ns, ended_ns - signalled_ns);
    println!("  of {until_ended_ns} ns, the reader took {until_noticed_ns} ns to notice the signal");
    assert!(until_noticed_ns * 4 < until_ended_ns, "{until_noticed_ns} of {until_ended_ns} ns");
    Ok(())
}
