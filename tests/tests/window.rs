//! A window has the requested length, whatever keeps wakelat from ending it: a stopped reader, a
//! blocked output.

use std::{
    fs,
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use nix::{
    sys::{
        resource::{Resource, setrlimit},
        signal::{SigHandler, Signal, signal},
        stat::Mode,
    },
    unistd::mkfifo,
};
use serde_json::Value;
use wakelat_tests::{
    accounted_waits::switch_ins,
    attached_every_mode, attached_typed, documents, machine, once, procfs,
    report::{JsonReport, JsonWait},
    suite::{Case, Skip, TestOutcome},
    task::TaskPlacement,
    uninterruptible_sleeps::UninterruptibleSleeps,
    wakelat::{AttachCase, RunOutput, Wakelat, command},
    workload::{Performance, PingPong, Sleeper, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let counted = attached_every_mode![
        a_reader_that_is_stopped_counts_nothing_after_the_end,
        by_the_queue_clock_a_stopped_reader_counts_nothing_after_the_end,
        intervals_that_ended_while_the_reader_was_stopped_are_skipped_and_counted,
        a_window_ends_without_a_grace_period_on_busy_cpus,
        a_short_window_after_a_warm_up_has_its_length,
        a_run_that_ends_in_its_warm_up_has_no_waits,
    ];
    let others = attached_typed![
        events_after_the_end_are_in_no_output,
        the_programs_end_with_the_window_while_the_output_is_blocked,
        waits_that_a_blocked_output_has_no_room_for_are_counted,
        a_recording_whose_reader_has_gone_is_a_failure,
    ];
    let once = once![
        a_signal_that_was_ignored_at_the_start_ends_nothing,
        a_run_that_fails_before_it_measures_leaves_no_file,
        a_signal_ends_a_run_that_waits_for_a_reader,
        too_little_memory_is_an_error_that_names_the_limit,
        the_reader_has_a_real_time_priority_if_that_delays_no_other_task,
        a_window_shorter_than_the_first_pause_is_reported_as_a_pause,
    ];
    counted.into_iter().chain(others).chain(once).collect()
}

/// The requested window: ns.
const WINDOW_NS: u64 = 200_000_000;
/// How long the sleeper of [`sleeper`] sleeps: ns.
const SLEEP_NS: u64 = 500_000;
/// Maximum number of wakeups of the sleeper in a window, plus one at each end.
const MOST_IN_WINDOW: u64 = WINDOW_NS / SLEEP_NS + 2;

/// A sleeper that runs for at least three times the window.
fn sleeper(window_ns: u64) -> Workload {
    Workload::Sleeper(Sleeper {
        rounds: 3 * window_ns / SLEEP_NS,
        sleep_ns: SLEEP_NS,
        place: TaskPlacement::fifo(machine::one_cpu()),
    })
}

/// Starts `command`, stops it once it measures, and continues it when a sleeper has been woken
/// throughout its window and long after.
fn stopped_over_its_end(command: Command) -> (RunOutput, Performance) {
    let mut staged = sleeper(WINDOW_NS).stage();
    let wakelat = Wakelat::measuring(command);
    wakelat.stall();
    let performance = staged.perform();
    assert!(performance.duration_ns > 2 * WINDOW_NS, "{performance:?}");
    wakelat.signal(Signal::SIGCONT);
    (wakelat.end(), performance)
}

/// The reader needs longer than this window for what is left of the warm-up.
fn a_short_window_after_a_warm_up_has_its_length(attach: AttachCase) -> TestOutcome {
    const SHORT_NS: u64 = 10_000_000;
    let mut line = vec!["hist", "--json", "--comm", "wl-sleeper", "--warm-up", "300ms", "-d", "10ms"];
    line.extend(attach.arguments());
    // A hypervisor can have the CPU for as long.
    for _ in 0..3 {
        let mut staged = sleeper(WINDOW_NS).stage();
        let wakelat = Wakelat::measuring(command(&line));
        let performance = staged.perform();
        let ended = wakelat.end();
        let [report] = &ended.reports()[..] else { panic!("{ended:#?}") };
        let terms = report.coverage.wakeups;
        assert_eq!(report.duration_ns, SHORT_NS);
        assert!(terms.measured <= SHORT_NS / SLEEP_NS + 2, "{terms:?}, {performance:?}");
        if terms.measured > 0 {
            return Ok(());
        }
    }
    panic!("no wait was measured");
}

fn a_run_that_ends_in_its_warm_up_has_no_waits(attach: AttachCase) -> TestOutcome {
    let mut line = vec!["hist", "--json", "--warm-up", "60s"];
    line.extend(attach.arguments());
    let mut staged = sleeper(WINDOW_NS).stage();
    let wakelat = Wakelat::measuring(command(&line));
    staged.perform();
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    let [report] = &ended.reports()[..] else { panic!("{ended:#?}") };
    assert_eq!((report.duration_ns, report.coverage.wakeups.measured, report.groups.len()), (0, 0, 0), "{ended:#?}");
    assert!(ended.stderr.contains("the run ended before its warm-up did"), "{ended:#?}");
    Ok(())
}

fn a_reader_that_is_stopped_counts_nothing_after_the_end(attach: AttachCase) -> TestOutcome {
    assert_nothing_after_the_end(attach, &[], |report| report.coverage.wakeups.measured);
    Ok(())
}

fn by_the_queue_clock_a_stopped_reader_counts_nothing_after_the_end(attach: AttachCase) -> TestOutcome {
    let queued = ["--from", "queued", "--class", "wakeup"];
    assert_nothing_after_the_end(attach, &queued, |report| switch_ins(report).measured);
    Ok(())
}

/// Asserts that `hist` with `arguments`, stopped over the end of its window, has no wait after it. `measured`: the
/// number of waits in a report.
fn assert_nothing_after_the_end(attach: AttachCase, arguments: &[&str], measured: impl FnOnce(&JsonReport) -> u64) {
    let all = ["hist", "--json", "--comm", "wl-sleeper", "-d", "200ms"];
    let line = [&all[..], arguments, attach.arguments()].concat();
    let (ended, performance) = stopped_over_its_end(command(&line));
    let [report] = &ended.reports()[..] else { panic!("{ended:#?}") };
    assert_eq!((report.duration_ns, report.requested_ns), (WINDOW_NS, Some(WINDOW_NS)));
    let measured = measured(report);
    assert!((1..=MOST_IN_WINDOW).contains(&measured), "{measured}: {:?}, {performance:?}", report.coverage);
    let end_unix_ns = report.start_unix_ns + WINDOW_NS;
    let latest = report.groups.iter().filter_map(|group| group.max_at_unix_ns).max();
    assert!(latest.is_some_and(|latest| latest < end_unix_ns), "{latest:?}, {end_unix_ns}");
}

fn events_after_the_end_are_in_no_output(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    for command_line in [
        &["trace", "--json", "--comm", "wl-sleeper"][..],
        &["trace", "--all", "--json", "--comm", "wl-sleeper"],
        &["why", "--json", "--comm", "wl-sleeper"],
        &["record", "--comm", "wl-sleeper", "-o", file],
    ] {
        let line = [command_line, &["-d", "200ms", "--attach", attach.name()]].concat();
        let (mut ended, performance) = stopped_over_its_end(command(&line));
        assert!(ended.status.success(), "{ended:#?}");
        if command_line[0] == "record" {
            let shown = command(&["why", "--json", "-i", file]).output().expect("wakelat");
            ended.stdout = String::from_utf8(shown.stdout).expect("JSON");
        }
        let documents: Vec<Value> =
            serde_json::Deserializer::from_str(&ended.stdout).into_iter().map(|document| document.unwrap()).collect();
        let report = documents.last().expect("a report");
        assert_eq!(report["duration_ns"], WINDOW_NS, "{line:?}: {report}");
        let delivered = report["coverage"]["measured"].as_u64().expect("a number");
        assert!((1..=MOST_IN_WINDOW).contains(&delivered), "{line:?}: {delivered}, {performance:?}");
        let end_unix_ns = report["start_unix_ns"].as_u64().expect("a number") + WINDOW_NS;
        let instants = documents.iter().filter_map(|document| document["at_unix_ns"].as_u64());
        let late = instants.filter(|at_unix_ns| *at_unix_ns >= end_unix_ns).count();
        assert_eq!(late, 0, "{line:?}: of {} documents", documents.len());
    }
    Ok(())
}

fn intervals_that_ended_while_the_reader_was_stopped_are_skipped_and_counted(attach: AttachCase) -> TestOutcome {
    let mut line = vec!["hist", "--json", "--comm", "wl-sleeper"];
    line.extend(attach.arguments());
    line.extend(["100ms", "1000"]);
    let mut staged = sleeper(WINDOW_NS).stage();
    let wakelat = Wakelat::measuring(command(&line));
    wakelat.stall();
    let performance = staged.perform();
    wakelat.signal(Signal::SIGCONT);
    let reports: Vec<JsonReport> = wakelat.reports();
    let long = reports.iter().max_by_key(|report| report.duration_ns).expect("a report");
    let (skipped, duration_ns) = (long.skipped_intervals, long.duration_ns);
    println!("\n  {duration_ns} ns with {skipped} skipped, of {} reports", reports.len());
    // It covers the whole stop: less than an interval was reported before, and no part of it is reported twice.
    assert!(duration_ns + 200_000_000 > performance.duration_ns, "{duration_ns}, {performance:?}");
    assert!(skipped >= duration_ns / 100_000_000 - 2, "{skipped} skipped in {duration_ns} ns");
    let intervals: u64 = reports.iter().map(|report| 1 + report.skipped_intervals).sum();
    let whole_ns: u64 = reports.iter().map(|report| report.duration_ns).sum();
    assert!(intervals <= whole_ns / 100_000_000 + 2, "{intervals} intervals in {whole_ns} ns");
    Ok(())
}

/// Where each CPU switches all the time. A host that takes a CPU away can keep it from that at the end of a window: then
/// there is another one.
fn a_window_ends_without_a_grace_period_on_busy_cpus(attach: AttachCase) -> TestOutcome {
    const WINDOWS: usize = 4;
    // Much longer than the window, which ends soon after the loads have begun, and not more: grace periods, for which
    // starting and ending wakelat waits, can last as long as such a load.
    const ROUNDS: u64 = 50_000;
    if machine::is_emulated() {
        return Err(Skip::because("needs a machine that is not emulated"));
    }
    let mut sleeps = Vec::new();
    for _ in 0..WINDOWS {
        let loads = machine::cpus().into_iter().map(|cpu| {
            let place = TaskPlacement::other(cpu);
            PingPong { ping: place, pong: place, ..PingPong::on_one(cpu, ROUNDS) }
        });
        let mut loads: Vec<Staged> = loads.map(|load| Workload::PingPong(load).stage()).collect();
        let wakelat = Wakelat::hist(attach, &["--comm", "wl-p?ng"]);
        let recorded = UninterruptibleSleeps::start(wakelat.pid())?;
        loads.iter_mut().for_each(Staged::begin);
        until("the loads run", || {
            loads.iter().all(|load| procfs::TaskStats::of(load.tid("wl-ping")).voluntary > ROUNDS / 100)
        });
        wakelat.signal(Signal::SIGINT);
        let reports = wakelat.end().reports();
        loads.iter_mut().for_each(|load| drop(load.await_outcome()));
        sleeps.push(recorded.before_output());
        assert!(reports[0].groups.iter().any(|group| group.count > 0), "{:?}", reports[0].coverage);
        if sleeps.contains(&0) {
            break;
        }
    }
    println!("\n  uninterruptible sleeps before the reports: {sleeps:?}");
    assert!(sleeps.contains(&0), "{sleeps:?}");
    Ok(())
}

/// Whether a process has BPF programs, or links that keep them attached.
fn has_programs(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("wakelat is running");
    let links = open.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    links.into_iter().any(|to| to.to_string_lossy().contains("bpf"))
}

fn the_programs_end_with_the_window_while_the_output_is_blocked(attach: AttachCase) -> TestOutcome {
    // More than a pipe has room for (64 KiB), also if the load begins late: a wait takes some 400 bytes.
    const LONG_NS: u64 = 600_000_000;
    let mut staged = sleeper(LONG_NS).stage();
    let line = ["trace", "--json", "--comm", "wl-sleeper", "--attach", attach.name(), "-d", "600ms"];
    let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat");
    let mut output = child.stdout.take().expect("a pipe");
    let mut wakelat = Wakelat::from_child(child);
    wakelat.until_measuring();
    let performance = staged.perform();
    // No byte has been read yet.
    until("the programs are gone", || !has_programs(wakelat.pid()));
    let mut written = String::new();
    output.read_to_string(&mut written).expect("UTF-8");
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    documents::assert_valid(&written);
    assert!(written.len() > 1 << 16, "{} bytes do not block a pipe", written.len());
    let waits = JsonWait::parse_all(&written);
    let report: Value = written.lines().last().map(|line| serde_json::from_str(line).unwrap()).expect("a report");
    assert_eq!(report["duration_ns"], LONG_NS, "{report}");
    let (not_written, lost) = (&report["not_written"], &report["coverage"]["ring_buffer_full"]);
    assert_eq!((not_written, lost), (&Value::from(0), &Value::from(0)), "{report}");
    assert_eq!(report["coverage"]["measured"], waits.len(), "{report}");
    assert!(waits.len() as u64 + performance.untraced > 1, "{performance:?}");
    Ok(())
}

fn waits_that_a_blocked_output_has_no_room_for_are_counted(attach: AttachCase) -> TestOutcome {
    /// Size of the queue of output to be written (`CAPACITY` in wakelat/src/session/writer.rs), and
    /// length of the shortest line of a wait: bytes.
    const QUEUE: u64 = 32 << 20;
    const SHORTEST: u64 = 300;
    let place = TaskPlacement::other(machine::one_cpu());
    // Two waits in each round, and three times as many as the queue has room for: some may find no room
    // in the ring buffer either.
    let rounds = 3 * QUEUE / SHORTEST / 2;
    let load = PingPong { ping: place, pong: place, ..PingPong::on_one(machine::one_cpu(), rounds) };
    let mut staged = Workload::PingPong(load).stage();
    let ring_size = machine::ring_size();
    let line = ["trace", "--json", "--comm", "wl-p?ng", "--attach", attach.name(), "--ring-size", &ring_size];
    let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat");
    let mut output = child.stdout.take().expect("a pipe");
    let mut wakelat = Wakelat::from_child(child);
    wakelat.until_measuring();
    staged.begin();
    staged.await_outcome();
    wakelat.signal(Signal::SIGINT);
    // No byte is read until the window has ended.
    until("the programs are gone", || !has_programs(wakelat.pid()));
    let mut written = String::new();
    output.read_to_string(&mut written).expect("UTF-8");
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let report: Value = written.lines().last().map(|line| serde_json::from_str(line).unwrap()).expect("a report");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report}"));
    let (not_written, delivered) = (number(&report["not_written"]), number(&report["coverage"]["measured"]));
    println!("\n  {delivered} waits, {not_written} not written");
    assert!(written.len() as u64 >= QUEUE && not_written > 0, "{} bytes, {report}", written.len());
    assert_eq!(JsonWait::parse_all(&written).len() as u64 + not_written, delivered, "{report}");
    Ok(())
}

fn a_recording_whose_reader_has_gone_is_a_failure(attach: AttachCase) -> TestOutcome {
    let mut child = command(&["record", "--attach", attach.name(), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wakelat");
    let mut start = [0; 10];
    child.stdout.take().expect("a pipe").read_exact(&mut start).expect("a recording");
    Wakelat::from_child(child).end().assert_refused(1, &["recording"]);
    Ok(())
}

fn a_signal_that_was_ignored_at_the_start_ends_nothing() -> TestOutcome {
    let mut staged = sleeper(WINDOW_NS).stage();
    let mut line = command(&["hist", "--json", "--comm", "wl-sleeper"]);
    let ignore = || {
        // SAFETY: installs no handler.
        unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }.map(drop).map_err(std::io::Error::from)
    };
    // SAFETY: one system call between fork and exec, no allocation.
    unsafe { line.pre_exec(ignore) };
    let wakelat = Wakelat::measuring(line);
    wakelat.signal(Signal::SIGHUP);
    let performance = staged.perform();
    let terms = wakelat.report().coverage.wakeups;
    terms.assert_complete(performance.wakeups(), &performance);
    Ok(())
}

fn a_run_that_fails_before_it_measures_leaves_no_file() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.json");
    // Fewer descriptors than the event loop needs, and fewer than there are maps.
    for limit in [8, 20] {
        let mut line = command(&["hist", "--json", "-o", file.to_str().expect("a path")]);
        let few = move || setrlimit(Resource::RLIMIT_NOFILE, limit, limit).map_err(std::io::Error::from);
        // SAFETY: one system call between fork and exec, no allocation.
        unsafe { line.pre_exec(few) };
        Wakelat::start(line).end().assert_refused(1, &["error", "Too many open files", "`ulimit -n 1024`"]);
        assert!(!Path::new(&file).exists());
    }
    Ok(())
}

/// There is no result that the first signal could end the run with.
fn a_signal_ends_a_run_that_waits_for_a_reader() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    for kind in [Signal::SIGINT, Signal::SIGTERM] {
        let mut wakelat = Wakelat::start(command(&["hist", "-o", fifo.to_str().expect("a path")]));
        wakelat.until_says("waiting for a reader of ");
        wakelat.signal(kind);
        let ended = wakelat.end();
        assert_eq!(ended.killed_by(), Some(kind as i32), "{ended:?}");
    }
    Ok(())
}

fn too_little_memory_is_an_error_that_names_the_limit() -> TestOutcome {
    const STEP: u64 = 16 << 20;
    for arguments in [&["hist"][..], &["why", "--ring-size", "16M"]] {
        let ended_within = |limit: u64| {
            let mut line = command(&[arguments, &["--json", "-d", "1ms"]].concat());
            let room = move || setrlimit(Resource::RLIMIT_AS, limit, limit).map_err(std::io::Error::from);
            // SAFETY: one system call between fork and exec, no allocation.
            unsafe { line.pre_exec(room) };
            Wakelat::start(line).end()
        };
        let mut ends = (1..=10).rev().map(|steps| ended_within(steps * STEP));
        assert!(ends.next().is_some_and(|ended| ended.status.success()), "{arguments:?} fails with 160 MiB");
        // How much a run takes depends on what happens in its window: a lower limit may be enough for the next run. At
        // the lowest limits, there may be no room for the binary itself.
        let refused: Vec<_> = ends.filter(|ended| !ended.status.success()).take(2).collect();
        assert_eq!(refused.len(), 2, "a process takes memory");
        refused.iter().for_each(|ended| ended.assert_refused(1, &["ulimit -v"]));
    }
    Ok(())
}

fn the_reader_has_a_real_time_priority_if_that_delays_no_other_task() -> TestOutcome {
    if !machine::throttles_real_time() {
        return Err(Skip::because("real-time tasks are not throttled here"));
    }
    let samples = ["--mode", "samples"];
    for (arguments, priority) in [
        (&[][..], 1),
        (&["--rt-priority", "0"], 0),
        (&["--rt-priority", "7"], 7),
        // It would occupy a CPU while it reads.
        (&samples, 0),
        (&[&samples[..], &["--rt-priority", "7"]].concat(), 7),
    ] {
        let wakelat = Wakelat::measuring(command(&[&["hist", "--json"], arguments].concat()));
        assert_eq!(procfs::rt_priority(wakelat.pid()), priority, "{arguments:?}");
        wakelat.report();
    }
    Ok(())
}

fn a_window_shorter_than_the_first_pause_is_reported_as_a_pause() -> TestOutcome {
    let arguments = ["hist", "-d", "100ms", "--max-overhead", "0.1%"];
    let run = |format: &[&str]| Wakelat::measuring(command(&[&arguments[..], format].concat())).end();
    let text = run(&[]).stdout;
    assert!(text.starts_with("no wakeup was measured: wakelat paused for the whole window"), "{text}");
    let report: Value = serde_json::from_str(&run(&["--json"]).stdout).expect("JSON");
    assert_eq!(report["sampling"]["measured_ns"], 0, "{report}");
    assert!(report["duration_ns"].as_u64() > Some(0), "{report}");
    Ok(())
}
