//! Waits by the run queue's clock (`--from queued`) are the kernel's own account of each task: count for count
//! and nanosecond for nanosecond, also where the machine hides switches from every program.

use std::{
    iter::Sum,
    ops::{Add, Sub},
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
        new_threads_are_known_from_their_first_wait,
        a_filter_selects_every_wait_of_its_thread,
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

impl Add for Account {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { waits: self.waits + other.waits, waited_ns: self.waited_ns + other.waited_ns }
    }
}

impl Sub for Account {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { waits: self.waits - earlier.waits, waited_ns: self.waited_ns - earlier.waited_ns }
    }
}

impl Sum for Account {
    fn sum<I: Iterator<Item = Self>>(accounts: I) -> Self {
        accounts.fold(Self::default(), Self::add)
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
                // The task does not migrate during its first wait.
                set_affinity([cpu]);
            }
            number.send(gettid().as_raw().unsigned_abs()).expect("the worker has the receiver");
            for () in asking {
                set_affinity(allowed.iter().copied());
                for round in 0..ROUNDS {
                    let until = Instant::now() + Duration::from_micros(100 + u64::from(round % 7) * 30);
                    while Instant::now() < until {}
                    // The load: tasks that block by themselves.
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

fn switch_ins(report: &JsonReport) -> JsonSwitchIns {
    let terms = report.coverage.switch_ins.unwrap_or_else(|| panic!("no switch-ins: {report:#?}"));
    assert_eq!((terms.invalid, terms.ring_buffer_full), (0, 0), "{terms:?}");
    terms
}

/// Asserts that a report of some tasks accounts for all waits that the kernel has counted for them meanwhile.
fn assert_is_the_account(report: &JsonReport, kernel: Account) {
    let terms = switch_ins(report);
    let measured: Account =
        report.groups.iter().map(|group| Account { waits: group.count, waited_ns: group.sum_ns }).sum();
    let all = Account {
        waits: measured.waits + terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: measured.waited_ns + terms.unknown_ns + terms.unseen_ns,
    };
    assert_eq!(all.waited_ns, kernel.waited_ns, "{all:?} {kernel:?} {terms:?}");
    // Old kernels also count a wait that they do not time (5.10, `sched_info_arrive()`, kernel/sched/stats.h).
    let counted = all.waits..=all.waits + terms.not_timed;
    assert!(counted.contains(&kernel.waits), "{all:?} {kernel:?} {terms:?}");
}

/// Threads that wait for the first request on a CPU each: the last part of that wait is all of it.
fn pinned_workers() -> Vec<Worker> {
    let cpus = machine::cpus();
    let workers: Vec<Worker> =
        cpus.iter().cycle().take(THREADS).map(|cpu| Worker::new("wl-queued", Some(*cpu))).collect();
    workers.iter().for_each(Worker::until_blocked);
    workers
}

fn accounts(workers: &[Worker]) -> Account {
    workers.iter().map(|worker| Account::of(worker.tid)).sum()
}

fn counts_and_sums_are_those_of_the_kernel(attach: AttachCase) -> TestOutcome {
    let workers = pinned_workers();
    let before = accounts(&workers);
    let wakelat =
        Wakelat::hist(attach, &["--from", "queued", "--class", "wakeup,new,preempted", "--comm", "wl-queued"]);
    workers.iter().for_each(Worker::begin);
    workers.iter().for_each(Worker::finish);
    let report = wakelat.report();
    assert_is_the_account(&report, accounts(&workers) - before);
    let terms = switch_ins(&report);
    // The first wait of each began before it was seen; nearly all others are known.
    assert!(terms.unknown_start >= THREADS as u64, "{terms:?}");
    assert!(terms.measured > THREADS as u64 * u64::from(ROUNDS) / 2, "{report:#?}");
    assert!(report.count("preempted") > 0, "{report:#?}");
    Ok(())
}

fn new_threads_are_known_from_their_first_wait(attach: AttachCase) -> TestOutcome {
    const NAME: &str = "wl-queued-new";
    let (asked, asking) = channel::<()>();
    let (answer, workers) = channel();
    let (number, tid) = channel();
    // A thread has the name of its creator until it has run.
    let body = move || {
        set_affinity([machine::one_cpu()]);
        number.send(gettid().as_raw().unsigned_abs()).expect("the test has the receiver");
        for () in asking {
            let workers: Vec<Worker> = (0..THREADS).map(|_| Worker::new(NAME, None)).collect();
            answer.send(workers).expect("the test has the receiver");
        }
    };
    thread::Builder::new().name(NAME.to_owned()).spawn(body).expect("a thread can be started");
    let creator = tid.recv().expect("the thread sends its TID");
    until("the creator is blocked", || procfs::is_blocked(creator));
    let before = Account::of(creator);
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "wakeup,new,preempted", "--comm", NAME]);
    asked.send(()).expect("the creator is waiting");
    let workers = workers.recv().expect("the creator answers");
    workers.iter().for_each(Worker::begin);
    workers.iter().for_each(Worker::finish);
    until("the creator is blocked", || procfs::is_blocked(creator));
    let report = wakelat.report();
    assert_is_the_account(&report, accounts(&workers) + Account::of(creator) - before);
    let terms = switch_ins(&report);
    let new = report.count("new");
    assert!(new <= THREADS as u64 && new + terms.unseen >= THREADS as u64, "{report:#?}");
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

fn a_filter_selects_every_wait_of_its_thread(attach: AttachCase) -> TestOutcome {
    let workers = pinned_workers();
    let wanted = &workers[0];
    let before = Account::of(wanted.tid);
    let tid = wanted.tid.to_string();
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue", "--tid", &tid]);
    workers.iter().for_each(Worker::begin);
    workers.iter().for_each(Worker::finish);
    let report = wakelat.report();
    assert_is_the_account(&report, Account::of(wanted.tid) - before);
    let terms = switch_ins(&report);
    assert!(terms.measured > 0 && terms.filtered > terms.measured, "{terms:?}");
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
