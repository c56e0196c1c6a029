//! Names are those of the moment at which a task waited or ran: a task that has exited before the
//! report keeps its name.

use std::{
    ffi::CStr,
    io::{BufRead as _, BufReader},
    process::Stdio,
    sync::mpsc::{Receiver, TryRecvError, channel},
    thread,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached, attached_typed,
    cgroup::Hierarchy,
    documents,
    echo::Echo,
    machine,
    procfs::{self, TaskStats},
    suite::{Case, TestOutcome},
    supervisor::Supervisor,
    task::{self, TaskPlacement},
    wakelat::{AttachCase, Wakelat, command},
    workload::{PingPong, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let by_types = attached![
        a_removed_cgroup_keeps_its_path,
        exited_processes_and_threads_keep_their_names,
        each_wait_has_the_name_that_its_task_had_then,
    ];
    by_types
        .into_iter()
        .chain(attached_typed![
            a_waker_that_renames_itself_has_its_new_name,
            a_waker_that_starts_another_program_has_its_name,
            a_waker_with_a_reused_tid_has_its_own_name,
        ])
        .collect()
}

const FIRST: &CStr = c"wl-first";
const SECOND: &CStr = c"wl-second";

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500))
}

fn measuring(attach: AttachCase, arguments: &[&str]) -> Wakelat {
    let mut all = vec!["hist", "--json", "--attach", attach.name(), "--comm", "wl-p*"];
    all.extend(arguments);
    Wakelat::measuring(command(&all))
}

/// Stops wakelat as Ctrl-C does, and returns the groups of its report.
fn groups(wakelat: Wakelat) -> Vec<Value> {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    report["groups"].as_array().expect("a report has groups").clone()
}

fn a_removed_cgroup_keeps_its_path(attach: AttachCase) -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("short-lived");
    let mut staged = ping_pong().stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| group.add_process(staged.tid(name)));
    let hist = measuring(attach, &["--by", "cgroup"]);
    staged.perform();
    drop(staged);
    drop(group);
    let groups = groups(hist);
    assert_eq!(groups.len(), 1, "{groups:?}");
    let path = groups[0]["key"]["cgroup"].as_str().expect("a path");
    assert!(path.ends_with("-short-lived"), "{path}");
    Ok(())
}

fn exited_processes_and_threads_keep_their_names(attach: AttachCase) -> TestOutcome {
    for key in ["pid", "tid"] {
        let mut staged = ping_pong().stage();
        let tids = ["wl-ping", "wl-pong"].map(|name| (name, staged.tid(name)));
        let hist = measuring(attach, &["--by", key]);
        staged.perform();
        drop(staged);
        let groups = groups(hist);
        for (name, tid) in tids {
            let group = groups.iter().find(|group| group["key"][key] == tid);
            let group = group.unwrap_or_else(|| panic!("{key} {tid} is in no group: {groups:?}"));
            assert_eq!(group["key"]["comm"], name, "{group}");
        }
    }
    Ok(())
}

fn each_wait_has_the_name_that_its_task_had_then(attach: AttachCase) -> TestOutcome {
    let echo = Echo::start(FIRST, SECOND, None)?;
    let blocked = || {
        until("the echo is blocked", || procfs::is_blocked(echo.tid()));
        TaskStats::of(echo.tid()).voluntary
    };
    let begun = blocked();
    let hist = Wakelat::hist(attach, &["--by", "comm", "--comm", "wl-*", "--mode", "samples"]);
    let supervisor = Supervisor::now();
    (0..200).for_each(|_| echo.echo());
    // The wait for the next request ended under the first name.
    echo.rename();
    let renamed = blocked();
    (0..100).for_each(|_| echo.echo());
    let ended = blocked();
    let untraced = (Supervisor::now() - supervisor).untraced(1);
    let report = hist.report();
    for (name, waits) in [("wl-first", renamed - begun), ("wl-second", ended - renamed)] {
        let found: u64 = report.with("comm", name).map(|group| group.count).sum();
        assert!((waits.saturating_sub(untraced)..=waits).contains(&found), "{found} of {waits}: {report:?}");
        assert!(found > 0, "{report:?}");
    }
    Ok(())
}

/// The test's thread, which others wake, and wakelat's reports of that, interval by interval.
struct Woken {
    wakelat: Wakelat,
    reports: Receiver<Value>,
}

impl Woken {
    /// Names the calling thread as the wakee and pins it, with everything that it starts later, to one
    /// CPU; then starts wakelat.
    fn begin(attach: AttachCase) -> Self {
        task::name("wl-wakee");
        TaskPlacement::other(machine::one_cpu()).take();
        // All since the start, so that names are not forgotten with each interval.
        let line =
            ["top", "--json", "--attach", attach.name(), "--comm", "wl-wakee", "--by", "waker", "--interval", "600ms"];
        let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut wakelat = Wakelat::from_child(child);
        wakelat.until_measuring();
        let (sender, reports) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                documents::assert_valid(&format!("{line}\n"));
                let report = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                _ = sender.send(report);
            }
        });
        Self { wakelat, reports }
    }

    /// Lets `waker` wake this thread until a report calls it `name`, which is soon: wakelat looks names
    /// up twice a second.
    fn until_called(&self, waker: &Echo, name: &str) {
        let mut called = Vec::new();
        while called.last().is_none_or(|last| last != name) {
            assert!(called.len() < 20, "never called `{name}`: {called:?}");
            waker.echo();
            match self.reports.try_recv() {
                Ok(report) => called.extend(name_of(waker.tid(), &report)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => panic!("wakelat {} has ended", self.wakelat.pid()),
            }
        }
        println!("\n  {called:?}");
    }
}

/// The name that a report gives to the waker `tid`, if it woke anything.
fn name_of(tid: u32, report: &Value) -> Option<String> {
    let mut groups = report["groups"].as_array().expect("a report has groups").iter();
    let group = groups.find(|group| group["key"]["waker"] == tid)?;
    Some(group["key"]["waker_comm"].as_str().unwrap_or("").to_owned())
}

/// Runs `body` in a thread of its own, which it may rename and move.
fn in_a_thread(body: impl FnOnce() -> TestOutcome + Send) -> TestOutcome {
    thread::scope(|scope| scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn a_waker_that_renames_itself_has_its_new_name(attach: AttachCase) -> TestOutcome {
    in_a_thread(|| {
        let woken = Woken::begin(attach);
        let waker = Echo::start(FIRST, SECOND, None)?;
        woken.until_called(&waker, "wl-first");
        waker.rename();
        woken.until_called(&waker, "wl-second");
        Ok(())
    })
}

fn a_waker_that_starts_another_program_has_its_name(attach: AttachCase) -> TestOutcome {
    in_a_thread(|| {
        let woken = Woken::begin(attach);
        let waker = Echo::start(FIRST, SECOND, None)?;
        woken.until_called(&waker, "wl-first");
        let name = waker.exec();
        woken.until_called(&waker, name);
        Ok(())
    })
}

fn a_waker_with_a_reused_tid_has_its_own_name(attach: AttachCase) -> TestOutcome {
    in_a_thread(|| {
        let woken = Woken::begin(attach);
        let first = Echo::start(FIRST, FIRST, None)?;
        let tid = first.tid();
        woken.until_called(&first, "wl-first");
        drop(first);
        let second = Echo::start(SECOND, SECOND, Some(tid))?;
        woken.until_called(&second, "wl-second");
        Ok(())
    })
}
