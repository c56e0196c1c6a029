//! `serve --capture`: a condition on the waits of a cgroup causes a recording, which has the cause of these waits.

use std::{
    fs::{self, File},
    io,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rustix::thread::CapabilitySet;
use serde_json::Value;
use wakelat_sandbox::Launcher;
use wakelat_tests::{
    cgroup::Hierarchy,
    http::{MetricSamples, get},
    inside::{call, outcomes, parent, print, run_inside},
    machine, once,
    privileges::{SETS, for_maps, for_real_time, own, status},
    suite::{Case, Skip, TestOutcome},
    task::Policy,
    wakelat::{Wakelat, command},
    why::{check, list, number},
    workload::{BehindHog, Messaging, Workload, until},
};

/// Runs [`try_calls_of_a_launcher`] instead of the tests.
pub const INSIDE: &str = "--inside-the-launcher";

pub fn cases() -> Vec<Case> {
    once![
        a_condition_that_holds_has_a_recording_with_the_cause,
        a_recording_ends_with_the_service_and_is_whole,
        a_recording_ends_when_there_is_no_more_room_for_it,
        a_condition_that_does_not_hold_has_no_recording,
        the_metrics_show_that_the_capture_process_has_ended,
        the_capture_process_and_its_recordings_keep_only_what_they_need,
        a_process_that_starts_programs_writes_only_in_its_directory,
    ]
}

/// A running service with captures.
struct Service {
    wakelat: Wakelat,
    directory: tempfile::TempDir,
}

impl Service {
    /// Starts the service without a limit of its overhead, so that it measures all the time.
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let listen = format!("unix:{}", directory.path().join("socket").display());
        let captures = directory.path().join("captures").display().to_string();
        let all = ["serve", "--listen", &listen, "--max-overhead", "none", "--capture-dir", &captures];
        Self { wakelat: Wakelat::measuring(command(&[&all[..], arguments].concat())), directory }
    }

    fn captures(&self) -> PathBuf {
        self.directory.path().join("captures")
    }

    fn metrics(&self) -> MetricSamples {
        let socket = self.directory.path().join("socket");
        // A request has the kernel's tables read at once; the first scheduled reading is made after a second.
        until("the service has metrics", || get(&socket, "/metrics", "").status == 200);
        MetricSamples::scrape(&socket)
    }

    /// Ends the service with SIGTERM. Returns what it wrote to standard error.
    fn end(self) -> (String, tempfile::TempDir) {
        self.wakelat.signal(Signal::SIGTERM);
        let ended = self.wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        (ended.stderr, self.directory)
    }
}

/// What `why` shows of a whole recording, and what it writes to standard error.
fn why(file: &Path, arguments: &[&str]) -> (Value, String) {
    let shown = command(&["why", "--json", "--strict", "-i"]).arg(file).args(arguments).output().expect("wakelat");
    assert!(shown.status.success(), "{shown:?}");
    let document = serde_json::from_slice(&shown.stdout).expect("a document");
    check(&document);
    (document, String::from_utf8_lossy(&shown.stderr).into_owned())
}

/// Whether a culprit is no part of the machine that takes a CPU from any load: a task that is not of the load, an
/// interrupt, or the hypervisor.
fn is_of_the_load(culprit: &Value) -> bool {
    let name = culprit["name"].as_str().unwrap_or_default();
    match culprit["kind"].as_str() {
        Some("task") => name.starts_with("wl-"),
        _ => !["irq", "softirq", "stolen"].iter().any(|component| culprit["component"] == *component),
    }
}

fn a_condition_that_holds_has_a_recording_with_the_cause() -> TestOutcome {
    const SPIN_NS: u64 = 3_000_000;
    let hierarchy = Hierarchy::find()?;
    let (own, neighbour) = (hierarchy.group("waits"), hierarchy.group("runs"));
    let [waiting, running] =
        [&own, &neighbour].map(|group| format!("/{}", group.path().file_name().expect("a name").display()));
    let condition = format!("p99>1ms for 2s in {waiting}");
    let service = Service::start(&["--capture", &condition, "--capture-duration", "2s"]);
    let file = service.captures().join("capture-1.wakelat");
    until("the condition has caused a recording", || {
        let hog = BehindHog { rounds: 300, spin_ns: SPIN_NS, cpu: machine::one_cpu(), sleeper: Policy::Fifo(50) };
        let mut staged = Workload::BehindHog(hog).stage();
        own.add_process(staged.tid("wl-sleeper"));
        neighbour.add_process(staged.tid("wl-hog"));
        staged.perform();
        file.exists()
    });
    let result = |result: &str| {
        let metrics = service.metrics();
        metrics.value(&format!("wakelat_captures_total{{condition=\"{condition}\",result=\"{result}\"}}"))
    };
    until("the service knows about it", || result("written") == 1.0);
    assert_eq!(result("failed"), 0.0);
    let labels = format!("{{condition=\"{condition}\",cgroup=\"{waiting}\",file=\"capture-1.wakelat\"}}");
    assert_eq!(service.metrics().value(&format!("wakelat_last_capture_info{labels}")), 1.0);
    let (document, said) = why(&file, &["--cgroup", &waiting]);
    assert!(said.contains(&format!("trigger: p99 of waits of {waiting} was ")), "{said}");
    assert!(number(&document["duration_ns"]) >= 1_900_000_000, "{}", document["duration_ns"]);
    let class = list(&document["classes"]).iter().find(|class| class["class"] == "wakeup").expect("waits");
    // While the hog spins, by the time that passes, others may have the CPU.
    let of_the_load: Vec<_> = list(&class["culprits"]).iter().filter(|one| is_of_the_load(one)).collect();
    let sum_ns = |culprits: &[&Value]| culprits.iter().map(|one| number(&one["sum_ns"])).sum::<u64>();
    let behind_hog: Vec<_> = of_the_load.iter().copied().filter(|one| one["name"] == "wl-hog").collect();
    println!("\n  {} of {} ns behind {running}", sum_ns(&behind_hog), number(&class["sum_ns"]));
    assert!(sum_ns(&behind_hog) * 10 >= sum_ns(&of_the_load) * 9, "{class}");
    assert!(sum_ns(&behind_hog) * 2 >= number(&class["count"]) * SPIN_NS, "{class}");
    let (said, _) = service.end();
    assert!(said.contains(&format!("because p99 of waits of {waiting} was ")), "{said}");
    Ok(())
}

/// Starts a service whose first reading begins a recording of a minute.
fn recording(arguments: &[&str]) -> Service {
    let all = ["--capture", "max>1ns", "--capture-duration", "60s"];
    let service = Service::start(&[&all[..], arguments].concat());
    // Requests that reading.
    service.metrics();
    service
}

fn a_recording_ends_with_the_service_and_is_whole() -> TestOutcome {
    Hierarchy::find()?;
    let service = recording(&[]);
    let part = service.captures().join("capture-1.wakelat.part");
    until("it records", || fs::metadata(&part).is_ok_and(|file| file.len() > 0));
    let (said, directory) = service.end();
    assert!(said.contains("capture-1.wakelat`: ") && said.contains("because the longest wait of /"), "{said}");
    let captures = directory.path().join("captures");
    assert!(!captures.join("capture-1.wakelat.part").exists());
    let (document, _) = why(&captures.join("capture-1.wakelat"), &[]);
    assert!(number(&document["duration_ns"]) < 60_000_000_000, "{}", document["duration_ns"]);
    Ok(())
}

fn a_recording_ends_when_there_is_no_more_room_for_it() -> TestOutcome {
    Hierarchy::find()?;
    let mut service = recording(&["--capture-size", "100K"]);
    // Some MB in each second of the minute that is asked for.
    let mut load = Workload::Messaging(Messaging { groups: 1, fan: 2, messages: usize::MAX / 1_000 }).stage_nice();
    load.begin();
    service.wakelat.until_says("capture-1.wakelat`");
    let (document, _) = why(&service.captures().join("capture-1.wakelat"), &[]);
    assert!(number(&document["duration_ns"]) < 60_000_000_000, "{}", document["duration_ns"]);
    service.end();
    Ok(())
}

fn a_condition_that_does_not_hold_has_no_recording() -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(&["--capture", "max>1h", "--capture", "p99>1ns for 1h"]);
    let read = || service.metrics().value("wakelat_last_read_time_seconds");
    let begin = read();
    until("the conditions have been judged more than once", || read() > begin + 2.5);
    for condition in ["max>1h", "p99>1ns for 1h"] {
        let metrics = service.metrics();
        assert_eq!(metrics.sum("wakelat_captures_total", &format!("condition=\"{condition}\"")), 0.0, "{metrics:?}");
    }
    let (_, directory) = service.end();
    assert_eq!(fs::read_dir(directory.path().join("captures")).expect("a directory").count(), 0);
    Ok(())
}

/// The process whose parent has this PID; `None` if there is none.
fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().next().and_then(|pid| pid.parse().ok())
}

fn the_metrics_show_that_the_capture_process_has_ended() -> TestOutcome {
    Hierarchy::find()?;
    let service = Service::start(&["--capture", "max>1h"]);
    let is_up = || service.metrics().value("wakelat_capture_process_up");
    assert_eq!(is_up(), 1.0);
    let process = child_of(service.wakelat.pid()).expect("a capture process");
    assert_eq!(fs::read_to_string(format!("/proc/{process}/comm")).expect("a process"), "wakelat\n");
    kill(Pid::from_raw(process as i32), Signal::SIGKILL).expect("a process of this test");
    until("the service has noticed it", || is_up() == 0.0);
    let (said, _) = service.end();
    assert!(said.contains("the capture process has ended"), "{said}");
    Ok(())
}

fn the_capture_process_and_its_recordings_keep_only_what_they_need() -> TestOutcome {
    Hierarchy::find()?;
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_NICE;
    let service = recording(&[]);
    let wakelat = &service.wakelat;
    // The service itself keeps nothing more than without captures.
    let of_service = format!("/proc/{}/status", wakelat.pid());
    assert_eq!(SETS.map(|set| status(&of_service, set)), {
        let kept = (for_real_time() | for_maps()) & own();
        [0, kept, kept, 0, 0]
    });
    let process = child_of(wakelat.pid()).expect("a capture process");
    let of_process = format!("/proc/{process}/status");
    let kept = needed.bits() & own();
    assert_eq!(SETS.map(|set| status(&of_process, set)), [0, kept, kept, kept, 0]);
    assert_eq!((status(&of_process, "NoNewPrivs"), status(&of_process, "Seccomp")), (1, 0));
    // A recording drops its privileges like any other one.
    let mut recording = 0;
    until("a recording measures", || {
        recording = child_of(process).unwrap_or(recording);
        let path = format!("/proc/{recording}/status");
        fs::read_to_string(&path).is_ok_and(|text| text.contains("Seccomp:\t2"))
    });
    let kept = (for_real_time() | for_maps()) & own();
    assert_eq!(status(&format!("/proc/{recording}/status"), "CapPrm"), kept);
    assert_eq!(fs::read_to_string(format!("/proc/{recording}/comm")).expect("a process"), "wakelat\n");
    service.end();
    let is_gone = |pid: u32| !Path::new(&format!("/proc/{pid}/exe")).exists();
    until("both processes have ended with the service", || [process, recording].into_iter().all(is_gone));
    Ok(())
}

/// What a process can do that starts programs: in its directory, and elsewhere.
pub fn try_calls_of_a_launcher(arguments: &[String]) {
    let [own] = arguments else { panic!("expected a directory: {arguments:?}") };
    let launcher = Launcher { capabilities: CapabilitySet::BPF, writes_in: vec![own.into()] };
    launcher.enter().expect("a process with one thread can be restricted");
    print("create a file in its directory", File::create(format!("{own}/file")).map(drop));
    print("start a program", Command::new("/proc/self/exe").arg("--suites").output().map(drop));
    print("create a file", File::create("/tmp/wakelat-sandbox-test").map(drop));
    print("connect", TcpStream::connect("127.0.0.1:1").map(drop));
    print("trace a process", call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), parent(), 0, 0, 0]));
    let kept = status("/proc/self/status", "CapPrm");
    let has_others = kept & !CapabilitySet::BPF.bits() != 0;
    print("keep another capability", has_others.then_some(()).ok_or(io::Error::from_raw_os_error(libc::EPERM)));
}

fn a_process_that_starts_programs_writes_only_in_its_directory() -> TestOutcome {
    let Some(abi) = wakelat_sandbox::landlock_abi() else {
        return Err(Skip::because("this kernel has no Landlock, which restricts files"));
    };
    let directory = tempfile::tempdir().expect("a directory");
    let printed = run_inside(INSIDE, &[&directory.path().display().to_string()]);
    // Ports since the fourth version; without it, no port 1 is open.
    let connect = if abi >= 4 { libc::EACCES } else { libc::ECONNREFUSED };
    let expected = [
        ("create a file in its directory", 0),
        ("start a program", 0),
        ("create a file", libc::EACCES),
        ("connect", connect),
        ("trace a process", libc::EPERM),
        ("keep another capability", libc::EPERM),
    ];
    assert_eq!(outcomes(&printed), expected);
    Ok(())
}
