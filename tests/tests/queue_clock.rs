//! Waits by the run queue's clock (`--from queued`) are the kernel's own account of each task: count for count
//! and nanosecond for nanosecond, also where the machine hides switches from every program.

use std::{
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::gettid};
use wakelat_tests::{
    account::Account,
    accounted_waits::switch_ins,
    attached, attached_every_mode, attached_typed,
    competing_threads::{CompetingThread, ROUNDS, THREADS, accounts, pinned, set_affinity},
    machine, procfs,
    report::JsonReport,
    suite::{Case, Skip, TestOutcome},
    wakelat::{AttachCase, Wakelat, command},
    workload::{Hogs, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let every_mode =
        attached_every_mode![counts_and_sums_are_those_of_the_kernel, every_switch_in_is_accounted_for_in_each_window];
    let each = attached![
        waits_in_pauses_are_counted_once_with_their_sum,
        new_threads_are_known_from_their_first_wait,
        a_filter_selects_every_wait_of_its_thread,
        tasks_that_wait_when_the_window_ends_are_counted,
        switches_are_those_that_the_kernel_counts
    ];
    let typed = attached_typed![a_table_of_top_has_the_waits_of_its_threads];
    every_mode.into_iter().chain(each).chain(typed).collect()
}

/// Asserts that a report of some tasks accounts for all waits that the kernel has counted for them meanwhile.
fn assert_is_the_account(report: &JsonReport, kernel: Account) {
    kernel.assert_is(Account::in_report(report), &switch_ins(report));
}

fn counts_and_sums_are_those_of_the_kernel(attach: AttachCase) -> TestOutcome {
    let workers = pinned("wl-queued");
    let before = accounts(&workers);
    let wakelat =
        Wakelat::hist(attach, &["--from", "queued", "--class", "wakeup,new,preempted", "--comm", "wl-queued"]);
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    let report = wakelat.report();
    let kernel = accounts(&workers) - before;
    assert_is_the_account(&report, kernel);
    let terms = switch_ins(&report);
    // The first wait of each began before it was seen, unless the machine hid its end; nearly all others are known.
    let hidden = kernel.waits.saturating_sub(Account::in_report(&report).waits);
    assert!(terms.unknown_start + hidden >= THREADS as u64, "{terms:?}, {hidden} hidden");
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
            let workers: Vec<CompetingThread> = (0..THREADS).map(|_| CompetingThread::new(NAME, None)).collect();
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
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
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
    let worker = CompetingThread::new("wl-queued-win", None);
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
    let workers = pinned("wl-queued");
    let wanted = &workers[0];
    let before = Account::of(wanted.tid);
    let tid = wanted.tid.to_string();
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue", "--tid", &tid]);
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    let report = wakelat.report();
    assert_is_the_account(&report, Account::of(wanted.tid) - before);
    let terms = switch_ins(&report);
    assert!(terms.measured > 0 && terms.filtered > terms.measured, "{terms:?}");
    assert!(report.groups.iter().all(|group| group.worst.iter().all(|wait| wait.tid == wanted.tid)), "{report:#?}");
    Ok(())
}

/// With pauses, the account lacks only what each thread did after its last switch that was seen.
fn waits_in_pauses_are_counted_once_with_their_sum(attach: AttachCase) -> TestOutcome {
    let workers = pinned("wl-queued");
    let before = accounts(&workers);
    // So little that there are pauses even on a machine that does nothing else.
    let limited =
        ["--from", "queued", "--class", "wakeup,new,preempted", "--comm", "wl-queued", "--max-overhead", "0.2%"];
    let wakelat = Wakelat::hist(attach, &limited);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        workers.iter().for_each(CompetingThread::begin);
        workers.iter().for_each(CompetingThread::finish);
    }
    let report = wakelat.report();
    let (kernel, terms) = (accounts(&workers) - before, switch_ins(&report));
    let sampling = report.sampling.expect("there is a limit");
    assert!(sampling.measured_ns < report.duration_ns, "there were no pauses: {sampling:?}");
    let all = Account::in_report(&report);
    assert!(all.waits <= kernel.waits && all.waited_ns <= kernel.waited_ns, "{all:?} of {kernel:?}: {terms:?}");
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

/// Has each CPU switch from the calling thread once, which no machine is known to hide.
fn visit_each_cpu() {
    let visitor = thread::spawn(|| machine::cpus().into_iter().for_each(|cpu| set_affinity([cpu])));
    visitor.join().expect("a thread can move to each CPU");
}

fn switches_are_those_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let workers = pinned("wl-queued-all");
    let before = machine::switches();
    let wakelat = Wakelat::hist(attach, &["--from", "queued", "--class", "runqueue"]);
    // On each CPU, those between the first and the last switch that are seen are known, whether seen or not.
    visit_each_cpu();
    let begun = machine::switches();
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    let within = machine::switches() - begun;
    visit_each_cpu();
    let report = wakelat.report();
    let around = machine::switches() - before;
    let terms = switch_ins(&report);
    let known = terms.seen + terms.to_idle + terms.unseen_switches;
    println!("\n  {known} switches, by the kernel {within} within and {around} around the window: {terms:?}");
    assert!((within..=around).contains(&known), "{known} of {within} to {around}: {terms:?}");
    // Each round of a thread has a switch to it.
    assert!(terms.seen + terms.unseen_switches > THREADS as u64 * u64::from(ROUNDS), "{terms:?}");
    Ok(())
}

fn a_table_of_top_has_the_waits_of_its_threads(attach: AttachCase) -> TestOutcome {
    const NAME: &str = "wl-queued-top";
    let workers = pinned(NAME);
    let before = accounts(&workers);
    let arguments = ["top", "--batch", "--interval", "1h", "--from", "queued", "--class", "runqueue", "--comm", NAME];
    let wakelat = Wakelat::measuring(command(&[&arguments[..], &["--attach", attach.name()]].concat()));
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let kernel = (accounts(&workers) - before).waits;
    let rows = ended.stdout.lines().filter(|line| line.starts_with(NAME)).count();
    let total = ended.stdout.lines().find_map(|line| line.strip_prefix(&format!("total: {THREADS} groups, ")));
    let waits = total.and_then(|total| total.split_once(" waits")?.0.replace(',', "").parse::<u64>().ok());
    // The first wait of each is not known.
    let known = THREADS as u64 * u64::from(ROUNDS) / 2..=kernel - THREADS as u64;
    assert!(rows == THREADS && waits.is_some_and(|waits| known.contains(&waits)), "{known:?}: {}", ended.stdout);
    Ok(())
}
