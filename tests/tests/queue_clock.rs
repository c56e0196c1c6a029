//! Waits by the run queue's clock (`--from queued`) are the kernel's own account of each task: count for count
//! and nanosecond for nanosecond, also where the machine hides switches from every program.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::{Pid, gettid},
};
use wakelat_tests::{
    attached, attached_every_mode, machine, procfs,
    report::{JsonReport, JsonSwitchIns},
    suite::{self, Skip, TestOutcome},
    wakelat::{AttachCase, Wakelat, command},
    workload::{Hogs, Workload, until},
};

fn main() {
    let every_mode =
        attached_every_mode![counts_and_sums_are_those_of_the_kernel, every_switch_in_is_accounted_for_in_each_window];
    let each = attached![
        a_new_thread_is_known_from_its_first_wait,
        the_filter_is_judged_at_the_switch_in,
        tasks_that_wait_when_the_window_ends_are_counted
    ];
    suite::main(every_mode.into_iter().chain(each));
}

/// Threads that are more than the CPUs, so that they preempt each other and migrate while they wait.
const THREADS: usize = 8;

/// Runs and sleeps of each thread.
const ROUNDS: u32 = 200;

/// What the kernel has counted for one thread: waits that ended, and their sum in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    waits: u64,
    waited_ns: u64,
}

impl Account {
    /// The account of thread `tid`, which must be blocked.
    fn of(tid: u32) -> Self {
        let path = format!("/proc/{tid}/schedstat");
        let line = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        Self { waits: fields[2], waited_ns: fields[1] }
    }
}

/// A thread that works on request, and is blocked otherwise.
struct Worker {
    tid: u32,
    asked: Sender<()>,
    done: Receiver<()>,
}

impl Worker {
    /// Starts a thread, which waits on `cpu` for the first request.
    fn new(name: &str, cpu: Option<usize>) -> Self {
        let (asked, asking) = channel::<()>();
        let (answer, done) = channel();
        let (number, tid) = channel();
        let allowed = machine::cpus();
        let body = move || {
            if let Some(cpu) = cpu {
                // So that the first wait, of which only the last part is known, has only that.
                set_affinity([cpu]);
            }
            number.send(gettid().as_raw().unsigned_abs()).expect("the worker has the receiver");
            for () in asking {
                set_affinity(allowed.iter().copied());
                for round in 0..ROUNDS {
                    let until = Instant::now() + Duration::from_micros(100 + u64::from(round % 7) * 30);
                    while Instant::now() < until {}
                    thread::sleep(Duration::from_micros(50 + u64::from(round % 5) * 40));
                }
                answer.send(()).expect("the worker has the receiver");
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started");
        Self { tid: tid.recv().expect("the thread sends its TID"), asked, done }
    }

    fn until_blocked(&self) {
        until("the thread is blocked", || procfs::is_blocked(self.tid));
    }

    fn begin(&self) {
        self.asked.send(()).expect("the thread is waiting");
    }

    fn finish(&self) {
        self.done.recv().expect("the thread answers");
        self.until_blocked();
    }
}

fn set_affinity(cpus: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu).expect("a CPU of this machine"));
    sched_setaffinity(Pid::from_raw(0), &set).expect("these CPUs are allowed");
}

/// The waits in a report: their number and sum.
fn measured(report: &JsonReport, wanted: impl Fn(Option<u64>) -> bool) -> Account {
    let groups = report.groups.iter().filter(|group| wanted(group.key.get("tid").and_then(serde_json::Value::as_u64)));
    groups.fold(Account::default(), |sum, group| Account {
        waits: sum.waits + group.count,
        waited_ns: sum.waited_ns + group.sum_ns,
    })
}

fn switch_ins(report: &JsonReport) -> JsonSwitchIns {
    let terms = report.coverage.switch_ins.unwrap_or_else(|| panic!("no switch-ins: {report:#?}"));
    assert_eq!((terms.invalid, terms.ring_buffer_full), (0, 0), "{terms:?}");
    terms
}

fn counts_and_sums_are_those_of_the_kernel(attach: AttachCase) -> TestOutcome {
    let cpus = machine::cpus();
    let workers: Vec<Worker> =
        cpus.iter().cycle().take(THREADS).map(|cpu| Worker::new("wl-queued", Some(*cpu))).collect();
    workers.iter().for_each(Worker::until_blocked);
    let accounts = || workers.iter().map(|worker| Account::of(worker.tid)).collect::<Vec<_>>();
    let before = accounts();
    let wakelat =
        Wakelat::hist(attach, &["--from", "queued", "--class", "wakeup,new,preempted", "--comm", "wl-queued"]);
    workers.iter().for_each(Worker::begin);
    workers.iter().for_each(Worker::finish);
    let report = wakelat.report();
    let kernel = before.iter().zip(accounts()).fold(Account::default(), |sum, (before, after)| Account {
        waits: sum.waits + after.waits - before.waits,
        waited_ns: sum.waited_ns + after.waited_ns - before.waited_ns,
    });
    let terms = switch_ins(&report);
    let measured = measured(&report, |_| true);
    let all = Account {
        waits: measured.waits + terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: measured.waited_ns + terms.unknown_ns + terms.unseen_ns,
    };
    assert_eq!(all.waited_ns, kernel.waited_ns, "{all:?} {kernel:?} {terms:?}");
    // Up to 5.13 the kernel counts a wait that it does not time (`sched_info_arrive()`, kernel/sched/stats.h).
    let counted = all.waits..=all.waits + terms.not_timed;
    assert!(counted.contains(&kernel.waits), "{all:?} {kernel:?} {terms:?}");
    // The first wait of each began before it was seen; all others are known.
    assert!(terms.unknown_start >= THREADS as u64, "{terms:?}");
    assert!(measured.waits > THREADS as u64 * u64::from(ROUNDS) / 2, "{report:#?}");
    let preempted = report.groups.iter().filter(|group| group.class == "preempted").map(|group| group.count);
    assert!(preempted.sum::<u64>() > 0, "{report:#?}");
    Ok(())
}

fn a_new_thread_is_known_from_its_first_wait(attach: AttachCase) -> TestOutcome {
    let mut arguments = vec!["hist", "--json", "--from", "queued", "--class", "wakeup,new,preempted", "--by", "tid"];
    arguments.extend(attach.arguments());
    let wakelat = Wakelat::measuring(command(&arguments));
    let workers: Vec<Worker> = (0..THREADS).map(|_| Worker::new("wl-queued-new", None)).collect();
    workers.iter().for_each(Worker::begin);
    workers.iter().for_each(Worker::finish);
    let report = wakelat.report();
    let terms = switch_ins(&report);
    for worker in &workers {
        let mine = |tid: Option<u64>| tid == Some(worker.tid.into());
        let (measured, kernel) = (measured(&report, mine), Account::of(worker.tid));
        let new = report.groups.iter().filter(|group| group.class == "new" && mine(group.key["tid"].as_u64()));
        if terms.unseen + terms.after_unseen + terms.unknown_start + terms.not_timed == 0 {
            assert_eq!(measured, kernel, "{terms:?}");
            assert_eq!(new.map(|group| group.count).sum::<u64>(), 1);
        } else {
            assert!(
                measured.waits <= kernel.waits && measured.waited_ns <= kernel.waited_ns,
                "{measured:?} {kernel:?}"
            );
            let unknown = terms.after_unseen + terms.unknown_start + terms.not_timed;
            assert!(kernel.waits - measured.waits <= terms.unseen + unknown);
        }
    }
    Ok(())
}

fn every_switch_in_is_accounted_for_in_each_window(attach: AttachCase) -> TestOutcome {
    let mut arguments = vec!["hist", "--json", "--from", "queued", "--class", "preempted", "200ms", "3"];
    arguments.extend(attach.arguments());
    let wakelat = Wakelat::measuring(command(&arguments));
    let worker = Worker::new("wl-queued-win", None);
    worker.begin();
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    worker.finish();
    let reports = ended.reports();
    // Most of the worker's waits are wakeups, in whichever windows they end.
    let other_class: u64 = reports.iter().map(|report| switch_ins(report).other_class).sum();
    assert!(other_class > 0, "{reports:#?}");
    Ok(())
}

fn the_filter_is_judged_at_the_switch_in(attach: AttachCase) -> TestOutcome {
    let [wanted, other] = ["wl-queued-yes", "wl-queued-no"].map(|name| Worker::new(name, None));
    let tid = wanted.tid.to_string();
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue", "--tid", &tid]);
    [&wanted, &other].into_iter().for_each(Worker::begin);
    [&wanted, &other].into_iter().for_each(Worker::finish);
    let report = wakelat.report();
    let terms = switch_ins(&report);
    // A short sleep may be over before it begins.
    assert!(terms.measured + terms.unseen >= u64::from(ROUNDS) / 2, "{terms:?}");
    assert!(terms.filtered >= u64::from(ROUNDS) / 2, "{terms:?}");
    assert!(report.groups.iter().all(|group| group.worst.iter().all(|wait| wait.tid == wanted.tid)), "{report:#?}");
    Ok(())
}

fn tasks_that_wait_when_the_window_ends_are_counted(attach: AttachCase) -> TestOutcome {
    if machine::is_emulated() {
        return Err(Skip::because("in an emulator, a hog's slice ends before the walk over the tasks begins"));
    }
    until("no hog of another test is left", || procfs::pids_named("wl-hog").is_empty());
    // Of two that share a CPU, one waits at any time.
    let mut staged = Workload::Hogs(Hogs { per_cpu: 2 }).stage();
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue", "--comm", "wl-hog"]);
    staged.begin();
    let expected = 2 * machine::cpus().len();
    // Longer than they take to start.
    until("every hog has run", || {
        let hogs = procfs::pids_named("wl-hog");
        hogs.len() >= expected && hogs.iter().all(|hog| procfs::ran_ns(*hog) > 50_000_000)
    });
    let report = wakelat.report();
    drop(staged);
    let terms = switch_ins(&report);
    assert!(terms.still_waiting.is_some_and(|waiting| (1..=expected as u64).contains(&waiting)), "{terms:?}");
    Ok(())
}
