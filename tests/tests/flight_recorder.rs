//! The flight recorder keeps the last seconds, and writes them when something happens.

use std::{fs, path::Path, thread, time::Duration};

use nix::{
    sys::signal::Signal,
    time::{ClockId, clock_gettime, clock_settime},
};
use serde_json::Value;
use wakelat_tests::{
    machine, once,
    skip::Skip,
    suite::{Case, TestOutcome},
    task::Policy,
    wakelat::{Wakelat, command},
    why::check,
    workload::{BehindHog, Messaging, Workload},
};

pub fn cases() -> Vec<Case> {
    once![
        a_file_has_the_long_wait_with_its_cause_and_the_seconds_before,
        a_file_has_its_trigger_also_if_more_is_recorded_after_it_than_before,
        each_long_wait_among_many_events_has_its_file_with_its_cause,
        a_request_writes_a_file_and_another_process_gets_no_signal,
        a_failing_check_writes_a_file,
        only_the_last_files_are_kept,
        a_run_without_a_trigger_leaves_nothing,
        a_file_has_the_times_of_a_wall_clock_that_was_set_meanwhile,
    ]
}

/// A flight recorder in `directory`, which measures.
fn recorder(directory: &Path, arguments: &[&str]) -> Wakelat {
    let mut command = command(&["record", "--after", "0", "-o", "incident.wakelat"]);
    command.args(arguments).current_dir(directory);
    Wakelat::measuring(command)
}

/// Makes `wl-sleeper` wait `rounds` times for `spin_ns` each, behind `wl-hog`. Returns how long the hog ran at least in each
/// of them: ns. Meanwhile the hypervisor may take its CPU, and the kernel gives ordinary tasks a part of each second
/// (`sched_rt_runtime_us`, the fair server).
fn wait_behind_hog(rounds: u64, spin_ns: u64, sleeper: Policy) -> u64 {
    let load = BehindHog { rounds, spin_ns, cpu: machine::one_cpu(), sleeper };
    let performance = Workload::BehindHog(load).stage().perform();
    performance.reported.took["wl-hog"].iter().map(|took| took.least_ns).min().expect("a round")
}

fn files(directory: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut files: Vec<_> = fs::read_dir(directory).expect("a directory").flatten().map(name).collect();
    files.sort();
    files
}

fn why(directory: &Path, file: &str, arguments: &[&str]) -> Value {
    let shown = command(&["why", "--json", "--strict", "-q", "-i", file])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("wakelat");
    assert!(shown.status.success(), "{shown:?}");
    let document = serde_json::from_slice(&shown.stdout).expect("a document");
    check(&document);
    document
}

fn ends_well(recorder: Wakelat) -> String {
    recorder.signal(Signal::SIGINT);
    let ended = recorder.end();
    assert!(ended.status.success(), "{ended:#?}");
    ended.stderr
}

/// The length of the wait that a file is about.
const PLANTED_NS: u64 = 100_000_000;

/// Checks that the longest wait is one behind the hog, for the `ran_ns` that it ran at least.
fn assert_begins_with_planted(document: &Value, ran_ns: u64) {
    let worst = &document["worst"][0];
    let latency_ns = worst["latency_ns"].as_u64().expect("a length");
    assert!(latency_ns >= PLANTED_NS, "{worst}");
    assert_eq!(worst["comm"], "wl-sleeper");
    let behind_hog = worst["shares"].as_array().expect("shares").iter().filter(|share| share["name"] == "wl-hog");
    let behind_hog: u64 = behind_hog.map(|share| share["ns"].as_u64().expect("a time")).sum();
    assert!(behind_hog > 0 && behind_hog >= ran_ns * 9 / 10, "the hog ran for {ran_ns} ns: {worst}");
}

/// Twenty tasks keep all CPUs busy with messages, so that the seconds before the wait are hundreds of thousands of events,
/// and an ordinary reader would not always get a CPU in time.
fn each_long_wait_among_many_events_has_its_file_with_its_cause() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let mut messaging = Workload::Messaging(Messaging { groups: 1, fan: 10, messages: usize::MAX / 1_000 }).stage();
    let arguments = ["--last", "2s", "--threshold", "90ms", "--comm", "wl-sleeper", "--file-interval", "0"];
    let mut recorder = recorder(directory.path(), &[&arguments[..], &["--rt-priority", "1"]].concat());
    messaging.begin();
    // Above the messages: only the hog keeps it waiting.
    for number in 1..=3 {
        let ran_ns = wait_behind_hog(1, PLANTED_NS, Policy::Fifo(5));
        let file = format!("incident-{number}.wakelat");
        recorder.until_says(&format!("{file}`"));
        let document = why(directory.path(), &file, &[]);
        assert_begins_with_planted(&document, ran_ns);
        assert_eq!(document["interferers"][0]["name"], "wl-hog", "{document}");
    }
    drop(messaging);
    ends_well(recorder);
    Ok(())
}

fn a_file_has_the_long_wait_with_its_cause_and_the_seconds_before() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    // On a busy machine, an earlier wait can be as long; its file must not take the place of this one.
    let arguments = ["--last", "2s", "--threshold", "60ms", "--comm", "wl-sleeper", "--file-interval", "0"];
    let recorder = recorder(directory.path(), &arguments);
    // More than is kept.
    wait_behind_hog(1_300, 3_000_000, Policy::Other);
    // The machine may hide the switch that ends one of them.
    let ran_ns = wait_behind_hog(3, PLANTED_NS, Policy::Other);
    let said = ends_well(recorder);
    let (_, last) = said.rsplit_once("wrote `").expect("a file");
    let document = why(directory.path(), last.split('`').next().expect("a path"), &[]);
    assert_begins_with_planted(&document, ran_ns);
    let duration_ns = document["duration_ns"].as_u64().expect("a length");
    assert!((2_000_000_000..10_000_000_000).contains(&duration_ns), "{duration_ns}");
    let count: u64 =
        document["classes"].as_array().expect("classes").iter().map(|class| class["count"].as_u64().unwrap_or(0)).sum();
    // All of them, and not those before.
    assert!((20..1_250).contains(&count), "{count} in {duration_ns} ns");
    Ok(())
}

fn a_file_has_its_trigger_also_if_more_is_recorded_after_it_than_before() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = command(&["record", "--last", "500ms", "--after", "2s", "-o", "incident.wakelat"]);
    // One file, whatever other waits there are.
    command
        .args(["--threshold", "60ms", "--comm", "wl-sleeper", "--file-interval", "1h"])
        .current_dir(directory.path());
    let mut recorder = Wakelat::measuring(command);
    // The machine may hide the switch that ends one of them.
    wait_behind_hog(3, PLANTED_NS, Policy::Other);
    recorder.until_says("because of a wait of ");
    ends_well(recorder);
    let document = why(directory.path(), "incident-1.wakelat", &["--class", "wakeup", "--threshold", "60ms"]);
    let count = document["classes"][0]["count"].as_u64().expect("a count");
    assert!(count >= 1, "{document}");
    let duration_ns = document["duration_ns"].as_u64().expect("a length");
    assert!(duration_ns >= 2_000_000_000, "{duration_ns}");
    Ok(())
}

fn a_request_writes_a_file_and_another_process_gets_no_signal() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let mut recorder = recorder(directory.path(), &["--last", "5s", "--file-interval", "1h"]);
    let dump = |pid: u32| command(&["dump", &pid.to_string()]).output().expect("wakelat");
    wait_behind_hog(5, 1_000_000, Policy::Other);
    assert!(dump(recorder.pid()).status.success());
    recorder.until_says("because of SIGUSR1");
    let again = dump(recorder.pid());
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && said.contains("or why it writes none"), "{said}");
    recorder.until_says("SIGUSR1 ignored: the last file is ");
    assert_eq!(files(directory.path()), ["incident-1.wakelat"]);
    let document = why(directory.path(), "incident-1.wakelat", &["--comm", "wl-sleeper"]);
    let count = document["classes"][0]["count"].as_u64().expect("a count");
    assert!((5..20).contains(&count), "{document}");
    let mut other = Wakelat::start(command(&["hist", "-d", "60s"]));
    other.until_measuring();
    for pid in [std::process::id(), other.pid()] {
        let refused = dump(pid);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("is not a flight recorder"), "{said}");
    }
    ends_well(other);
    ends_well(recorder);
    Ok(())
}

fn a_failing_check_writes_a_file() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let mut recorder = recorder(directory.path(), &["--last", "5s", "--check", "test ! -e broken"]);
    fs::write(directory.path().join("broken"), "").expect("a file");
    recorder.until_says("because of `test ! -e broken`: exit status: 1");
    ends_well(recorder);
    why(directory.path(), "incident-1.wakelat", &[]);
    Ok(())
}

fn only_the_last_files_are_kept() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["--last", "1s", "--file-interval", "0", "--max-files", "2", "--threshold", "20ms"];
    let mut recorder = recorder(directory.path(), &arguments);
    for number in 1..=3 {
        // The machine may hide the switch that ends one of them.
        wait_behind_hog(3, 25_000_000, Policy::Other);
        recorder.until_says(&format!("incident-{number}.wakelat`"));
    }
    ends_well(recorder);
    let files = files(directory.path());
    assert!(files.len() == 2 && !files.contains(&"incident-1.wakelat".to_owned()), "{files:?}");
    files.iter().for_each(|file| _ = why(directory.path(), file, &[]));
    Ok(())
}

fn a_run_without_a_trigger_leaves_nothing() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    ends_well(recorder(directory.path(), &["--last", "5s", "--threshold", "1h"]));
    assert_eq!(files(directory.path()), Vec::<String>::new());
    Ok(())
}

/// Sets the wall clock to `change` of its time.
fn set_wall_clock(change: impl FnOnce(Duration) -> Duration) {
    let set = clock_settime(ClockId::CLOCK_REALTIME, change(wall_clock()).into());
    set.expect("root may set the clock");
}

/// The time since 1970-01-01 UTC.
fn wall_clock() -> Duration {
    clock_gettime(ClockId::CLOCK_REALTIME).expect("every kernel has CLOCK_REALTIME").into()
}

/// The wall clock is an hour ahead as long as this exists.
struct HourAhead;

impl HourAhead {
    const HOUR: Duration = Duration::from_secs(3_600);

    fn new() -> Self {
        set_wall_clock(|now| now + Self::HOUR);
        Self
    }
}

impl Drop for HourAhead {
    fn drop(&mut self) {
        set_wall_clock(|now| now - Self::HOUR);
    }
}

fn a_file_has_the_times_of_a_wall_clock_that_was_set_meanwhile() -> TestOutcome {
    const MINUTE_NS: u64 = 60_000_000_000;
    if !machine::is_test_guest() {
        return Err(Skip::because("would set the clock of this machine"));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut recorder = recorder(directory.path(), &["--last", "5s"]);
    let _ahead = HourAhead::new();
    // The recorder reads the clock twice a second, and nothing outside shows that it has.
    thread::sleep(Duration::from_secs(2));
    wait_behind_hog(5, 1_000_000, Policy::Other);
    recorder.signal(Signal::SIGUSR1);
    recorder.until_says("because of SIGUSR1");
    let now_ns = wall_clock().as_nanos() as u64;
    ends_well(recorder);
    let shown = command(&["trace", "--json", "-q", "--comm", "wl-sleeper", "-i", "incident-1.wakelat"])
        .current_dir(directory.path())
        .output()
        .expect("wakelat");
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).expect("UTF-8");
    let waits: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a wait")).collect();
    assert!(waits.len() >= 5, "{text}");
    let document = why(directory.path(), "incident-1.wakelat", &[]);
    let times = waits.iter().map(|wait| &wait["at_unix_ns"]).chain([&document["start_unix_ns"]]);
    for at_unix_ns in times {
        let at_ns = at_unix_ns.as_u64().expect("a time");
        assert!(at_ns.abs_diff(now_ns) < MINUTE_NS, "{at_ns} is not about {now_ns}");
    }
    Ok(())
}
