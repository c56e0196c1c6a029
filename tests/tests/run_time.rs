//! How long a thread ran, in `top`: what its own clock says.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::Signal,
    time::{ClockId, clock_gettime},
    unistd::gettid,
};
use wakelat_tests::{
    once, procfs,
    report::JsonReport,
    suite::{self, TestOutcome},
    wakelat::{Wakelat, command},
    workload::until,
};

fn main() {
    suite::main(once![a_thread_ran_as_long_as_its_own_clock_says, only_a_group_of_one_thread_has_a_run_time]);
}

/// A thread that runs when it is asked to, and is blocked otherwise.
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
            number.send(gettid().as_raw().unsigned_abs()).expect("somebody asks");
            for time in asking {
                let began = own_ns();
                while own_ns() - began < time.as_nanos() as u64 {}
                answer.send([began, own_ns()]).expect("somebody asks");
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started");
        let runner = Self { tid: tid.recv().expect("it says its number"), asked, ran };
        runner.until_blocked();
        runner
    }

    fn until_blocked(&self) {
        until("the thread is blocked", || procfs::is_blocked(self.tid));
    }

    /// Lets it run. Returns its clock before and after, and that it is blocked again.
    fn run(&self, time: Duration) -> [u64; 2] {
        self.asked.send(time).expect("it waits");
        let ran = self.ran.recv().expect("it answers");
        self.until_blocked();
        ran
    }
}

/// Starts `top` of the threads of this test.
fn top(by: &str) -> Wakelat {
    Wakelat::measuring(command(&["top", "--json", "--comm", "wl-run*", "--by", by]))
}

/// Ends it as Ctrl-C does: its last report.
fn last(wakelat: Wakelat) -> JsonReport {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let line = ended.stdout.lines().last().unwrap_or_else(|| panic!("no report: {ended:#?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

fn a_thread_ran_as_long_as_its_own_clock_says() -> TestOutcome {
    let [busy, idle] = ["wl-run-busy", "wl-run-idle"].map(Runner::new);
    // What was before the window is not in it.
    let before = [&busy, &idle].map(|runner| runner.run(Duration::from_millis(50))[1]);
    let wakelat = top("tid");
    let born = Runner::new("wl-run-born");
    let runners = [&busy, &idle, &born];
    let ran = [300, 0, 100].map(Duration::from_millis);
    let ran: Vec<[u64; 2]> = runners.iter().zip(ran).map(|(runner, time)| runner.run(time)).collect();
    let report = last(wakelat);
    // Each was blocked at both readings. So the kernel's account has all from its last look at its clock before to
    // its next after it, at most; and all that it ran in between, at least.
    let after = runners.map(|runner| runner.run(Duration::ZERO)[0]);
    let before = [before[0], before[1], 0];
    for (index, runner) in runners.iter().enumerate() {
        let is_its = |tid: &serde_json::Value| tid.as_u64() == Some(runner.tid.into());
        let group = report.groups.iter().find(|group| group.key.get("tid").is_some_and(is_its));
        let run_ns = group.and_then(|group| group.run_ns);
        // A thread that was born in the window also ran before it was first asked.
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
