//! The run time of a thread in `top` matches the thread's own clock.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::Signal,
    time::{ClockId, clock_gettime},
    unistd::gettid,
};
use wakelat_tests::{
    once, procfs,
    report::JsonReport,
    suite::{Case, TestOutcome},
    supervisor::Supervisor,
    wakelat::{Wakelat, command},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    once![
        the_run_time_of_a_thread_matches_its_own_clock,
        only_a_group_of_one_thread_has_a_run_time,
        each_group_of_tasks_has_a_run_time_in_a_recording_of_events,
        a_recording_of_waits_has_no_run_times,
        a_slice_that_still_runs_at_the_end_counts_live_and_in_a_recording,
    ]
}

/// A thread that runs on request, and is blocked otherwise.
struct Runner {
    tid: u32,
    asked: Sender<Duration>,
    ran: Receiver<[u64; 2]>,
}

/// CPU time of the calling thread: ns.
fn own_ns() -> u64 {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock"));
    time.as_nanos().try_into().expect("a thread is younger than 584 years")
}

impl Runner {
    fn new(name: &str) -> Self {
        let (asked, asking) = channel::<Duration>();
        let (answer, ran) = channel();
        let (number, tid) = channel();
        let body = move || {
            number.send(gettid().as_raw().unsigned_abs()).expect("the runner has the receiver");
            for time in asking {
                let began = own_ns();
                while own_ns() - began < time.as_nanos() as u64 {}
                answer.send([began, own_ns()]).expect("the runner has the receiver");
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started");
        let runner = Self { tid: tid.recv().expect("the thread sends its TID"), asked, ran };
        runner.until_blocked();
        runner
    }

    fn until_blocked(&self) {
        until("the thread is blocked", || procfs::is_blocked(self.tid));
    }

    /// Lets the thread run for `time`, in parts: the machine may hide the end of a wait, but not of each of them.
    /// Returns its clock before and after each part, once it is blocked again.
    fn run_parts(&self, time: Duration) -> Vec<[u64; 2]> {
        const PARTS: u32 = 20;
        let run_part = |_| {
            self.asked.send(time / PARTS).expect("the thread is waiting");
            let ran = self.ran.recv().expect("the thread answers");
            self.until_blocked();
            ran
        };
        (0..PARTS).map(run_part).collect()
    }

    /// Lets the thread run for `time`. Returns its clock before and after.
    fn run(&self, time: Duration) -> [u64; 2] {
        let parts = self.run_parts(time);
        [parts[0][0], parts[parts.len() - 1][1]]
    }
}

/// Starts `top` for the threads of this test.
fn top(by: &str) -> Wakelat {
    Wakelat::measuring(command(&["top", "--json", "--comm", "wl-run*", "--by", by]))
}

/// Stops wakelat as Ctrl-C does, and returns its last report.
fn last(wakelat: Wakelat) -> JsonReport {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let line = ended.stdout.lines().last().unwrap_or_else(|| panic!("no report: {ended:#?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

fn the_run_time_of_a_thread_matches_its_own_clock() -> TestOutcome {
    let [busy, idle] = ["wl-run-busy", "wl-run-idle"].map(Runner::new);
    // Run time before the window is not included.
    let before = [&busy, &idle].map(|runner| runner.run(Duration::from_millis(50))[1]);
    let wakelat = top("tid");
    let born = Runner::new("wl-run-born");
    let runners = [&busy, &idle, &born];
    let ran = [300, 0, 100].map(Duration::from_millis);
    let ran: Vec<[u64; 2]> = runners.iter().zip(ran).map(|(runner, time)| runner.run(time)).collect();
    let report = last(wakelat);
    // Each thread was blocked at both readings. So the kernel's figure is at most the time from the
    // thread's last clock read before to its next one after, and at least the time that it ran in between.
    let after = runners.map(|runner| runner.run(Duration::ZERO)[0]);
    let before = [before[0], before[1], 0];
    for (index, runner) in runners.iter().enumerate() {
        let is_its = |tid: &serde_json::Value| tid.as_u64() == Some(runner.tid.into());
        let group = report.groups.iter().find(|group| group.key.get("tid").is_some_and(is_its));
        let run_ns = group.and_then(|group| group.run_ns);
        // A thread that was created in the window also ran before its first request.
        let [began, ended] = ran[index];
        let least = if runner.tid == born.tid { ended } else { ended - began };
        let bounds = least..=after[index] - before[index];
        assert!(run_ns.is_some_and(|ns| bounds.contains(&ns)), "{run_ns:?} of {bounds:?}: {report:#?}");
    }
    Ok(())
}

fn only_a_group_of_one_thread_has_a_run_time() -> TestOutcome {
    let runner = Runner::new("wl-run-busy");
    for (by, known) in [("pid,tid", true), ("comm", false), ("tid,cpu", false)] {
        let wakelat = top(by);
        runner.run(Duration::from_millis(10));
        let report = last(wakelat);
        assert!(!report.groups.is_empty(), "{by}: {report:#?}");
        assert!(report.groups.iter().all(|group| group.run_ns.is_some() == known), "{by}: {report:#?}");
    }
    Ok(())
}

fn each_group_of_tasks_has_a_run_time_in_a_recording_of_events() -> TestOutcome {
    const TIME: Duration = Duration::from_millis(50);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let runners = ["wl-run-first", "wl-run-second"].map(Runner::new);
    for (by, groups) in [("tid", 2), ("comm", 2), ("tid,cpu", 2), ("policy", 1)] {
        let args = ["top", "--json", "--comm", "wl-run*", "--by", by, "--record", file];
        let wakelat = Wakelat::measuring(command(&args));
        let (began, supervisor) = (Instant::now(), Supervisor::now());
        // Between two parts, the kernel's clock of a thread also counts the time of the switch itself.
        let ran = runners.iter().flat_map(|runner| runner.run_parts(TIME));
        let least: u64 = ran.map(|[began, ended]| ended - began).sum();
        // The time from switch to switch includes interrupts and steal time, which the thread's own clock may not.
        let most = began.elapsed().as_nanos() as u64;
        let report = last(wakelat);
        let known: Vec<u64> = report.groups.iter().filter_map(|group| group.run_ns).collect();
        assert!(known.len() == report.groups.len() && known.len() >= groups, "{by}: {report:#?}");
        let sum: u64 = known.iter().sum();
        // A slice whose begin no instrument sees is left out, and each is at most as long as a thread runs.
        let hidden = (Supervisor::now() - supervisor).switch_ins();
        let least = least.saturating_sub(hidden.saturating_mul(TIME.as_nanos() as u64)).max(1);
        assert!((least..=most).contains(&sum), "{by}: {sum} of {least}..={most}: {report:#?}");
    }
    Ok(())
}

fn a_recording_of_waits_has_no_run_times() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let runner = Runner::new("wl-run-busy");
    let wakelat = Wakelat::measuring(command(&["record", "--keep", "waits", "-o", file]));
    runner.run(Duration::from_millis(10));
    wakelat.signal(Signal::SIGINT);
    assert!(wakelat.end().status.success());
    let read = command(&["top", "--json", "--comm", "wl-run*", "-i", file]).output().expect("wakelat");
    let (out, err) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
    let report: JsonReport = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert!(report.groups.len() == 1 && report.groups[0].run_ns.is_none(), "{report:#?}");
    assert!(err.contains("no run times: the recording does not keep every switch"), "{err}");
    Ok(())
}

fn a_slice_that_still_runs_at_the_end_counts_live_and_in_a_recording() -> TestOutcome {
    const TIME: Duration = Duration::from_millis(200);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let runner = Runner::new("wl-run-busy");
    let view = ["top", "--json", "--comm", "wl-run*", "--by", "tid"];
    let run_ns = |report: JsonReport| report.groups.iter().filter_map(|group| group.run_ns).sum::<u64>();
    // It may wait for a CPU meanwhile, and the kernel's figure lags by up to a tick.
    let least = TIME.as_nanos() as u64 / 4;
    for arguments in [&[][..], &["--record", file]] {
        let wakelat = Wakelat::measuring(command(&[&view[..], arguments].concat()));
        runner.asked.send(3 * TIME).expect("the thread is waiting");
        thread::sleep(TIME);
        let ran = run_ns(last(wakelat));
        runner.ran.recv().expect("the thread answers");
        runner.until_blocked();
        assert!(ran >= least, "{ran} ns with {arguments:?}");
    }
    let read = command(&[&view[..], &["-i", file]].concat()).output().expect("wakelat");
    let report: JsonReport = serde_json::from_slice(&read.stdout).unwrap_or_else(|error| panic!("{error}: {read:?}"));
    let ran = run_ns(report);
    assert!(ran >= least, "{ran} ns in the recording");
    Ok(())
}
