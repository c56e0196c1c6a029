//! Losses are counted: with too little room, with a stalled reader, after a switch that no program
//! sees, and on an overloaded machine.

use std::{
    io::pipe,
    os::fd::AsFd as _,
    sync::{Barrier, mpsc},
    thread,
};

use nix::{sys::signal::Signal, unistd::gettid};
use wakelat_tests::{
    attached, attached_every_mode,
    byte::{put_byte, take_byte},
    echo::Echo,
    machine,
    procfs::{self, TaskStats},
    report::JsonTerms,
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    sysctl::Sysctl,
    task::{self, TaskPlacement},
    wakelat::{AttachCase, Wakelat, command},
    window_word::ProgramGate,
    workload::{ForkWorkload, Hogs, ManyThreads, Messaging, Performance, PingPong, Sleeper, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let counted = attached_every_mode![
        t09_with_room_for_all_no_thread_is_lost,
        t20_intervals_add_up_to_the_whole,
        wakeups_that_the_filter_rejects_are_not_waiting_between_intervals,
        a_wait_whose_end_no_program_sees_is_a_missed_switch,
    ];
    counted
        .into_iter()
        .chain(attached![
            t09_with_room_for_sixteen_every_thread_is_still_accounted_for,
            threads_that_share_a_slot_lose_nothing,
            exited_tasks_free_their_slots,
            a_slot_whose_task_exited_unseen_goes_to_the_next_with_its_tid,
            a_full_task_table_is_a_message_of_the_programs_only_on_request,
            t17_a_stalled_reader_loses_samples_and_counts_them,
            t17_a_full_ring_of_slots_loses_samples_and_counts_them,
            t17_a_reader_that_is_stalled_for_a_while_loses_nothing_that_fits,
            t18_under_twice_the_load_every_wakeup_is_accounted_for,
        ])
        .collect()
}

/// The threads of the trap, or as many as this machine has room for. Also returns the setting that makes room for them.
fn many_threads(attach: AttachCase) -> Result<(ManyThreads, Sysctl), Skip> {
    // One way of attaching uses the full number: the programs are the same, and so many threads take a machine many
    // seconds.
    ManyThreads::with_room(if attach == AttachCase::Btf { 20_000 } else { 2_000 })
}

/// How often all threads of a load of [`ManyThreads`] have blocked so far. They are blocked when this returns.
fn blocked(staged: &Staged) -> u64 {
    let tids = procfs::other_threads(staged.pid());
    tids.iter().for_each(|tid| until("all threads are blocked", || procfs::is_blocked(*tid)));
    tids.iter().map(|tid| TaskStats::of(*tid).voluntary).sum()
}

/// How often the threads have blocked since they had done so `before` times: once each, or more often
/// if they sleep for locks.
fn wakeups_since(before: u64, staged: &Staged, threads: u64) -> u64 {
    let wakeups = blocked(staged) - before;
    assert!(wakeups == threads || (wakeups > threads && machine::is_preempt_rt()), "{wakeups} of {threads} threads");
    wakeups
}

fn t09_with_room_for_sixteen_every_thread_is_still_accounted_for(attach: AttachCase) -> TestOutcome {
    let (load, _mappings) = many_threads(attach)?;
    let threads = load.threads;
    let mut staged = Workload::ManyThreads(load).stage();
    let before = blocked(&staged);
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-many", "--max-tasks", "16"]);
    let performance = staged.perform();
    let terms = wakelat.report().coverage.wakeups;
    let wakeups = wakeups_since(before, &staged, threads);
    println!("  {terms:?}");
    let accounted = terms.begun();
    assert!(
        (wakeups.saturating_sub(performance.untraced)..=wakeups).contains(&accounted),
        "{terms:?}, {wakeups} wakeups"
    );
    assert!(terms.task_table_full > 0 && terms.measured > 0, "{terms:?}");
    assert!(terms.measured <= 16, "the map took more than it has room for: {terms:?}");
    assert_eq!(terms.ring_buffer_full + terms.invalid, 0, "{terms:?}");
    Ok(())
}

fn t09_with_room_for_all_no_thread_is_lost(attach: AttachCase) -> TestOutcome {
    let (load, _mappings) = many_threads(attach)?;
    let threads = load.threads;
    let mut staged = Workload::ManyThreads(load).stage();
    let before = blocked(&staged);
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-many", "--ring-size", "16M"]);
    let performance = staged.perform();
    let terms = wakelat.report().coverage.wakeups;
    let wakeups = wakeups_since(before, &staged, threads);
    terms.assert_complete(wakeups, &performance);
    Ok(())
}

fn threads_that_share_a_slot_lose_nothing(attach: AttachCase) -> TestOutcome {
    // `--max-tasks 32` gives 16 slots and a map of 16: a third of the threads find their slot taken.
    const THREADS: u64 = 24;
    let mut staged = Workload::ManyThreads(ManyThreads { threads: THREADS }).stage();
    let before = blocked(&staged);
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-many", "--max-tasks", "32"]);
    let performance = staged.perform();
    let terms = wakelat.report().coverage.wakeups;
    let wakeups = wakeups_since(before, &staged, THREADS);
    terms.assert_complete(wakeups, &performance);
    Ok(())
}

fn a_full_task_table_is_a_message_of_the_programs_only_on_request(attach: AttachCase) -> TestOutcome {
    for (verbose, is_shown) in [(None, false), (Some("-v"), true)] {
        let mut staged = Workload::ManyThreads(ManyThreads { threads: 24 }).stage();
        let line = ["hist", "--attach", attach.name(), "--comm", "wl-many", "--mode", "samples", "--max-tasks", "2"];
        let wakelat = Wakelat::measuring(command(&line.into_iter().chain(verbose).collect::<Vec<_>>()));
        staged.perform();
        wakelat.signal(Signal::SIGINT);
        let ended = wakelat.end();
        assert!(ended.stdout.contains("the task table was full; raise `--max-tasks`"), "{ended:#?}");
        let by_programs = ended.stderr.lines().filter(|line| line.contains("wakelat_ebpf")).count();
        assert_eq!(by_programs > 0, is_shown, "{verbose:?}: {ended:#?}");
        // Each CPU reports its first loss.
        assert!(by_programs <= machine::cpus().len(), "{ended:#?}");
    }
    Ok(())
}

fn exited_tasks_free_their_slots(attach: AttachCase) -> TestOutcome {
    // `--max-tasks 64` gives 32 slots and a map of 32. The children use each slot several times; the
    // threads that come after them are more than the map has room for.
    const THREADS: u64 = 48;
    let place = TaskPlacement::other(machine::one_cpu());
    let mut children = Workload::Forks(ForkWorkload { children: 200, run_ns: 0, place }).stage();
    let mut threads = Workload::ManyThreads(ManyThreads { threads: THREADS }).stage();
    let before = blocked(&threads);
    let arguments = ["--comm", "wl-[fm]*", "--class", "wakeup,new", "--by", "comm", "--max-tasks", "64"];
    let wakelat = Wakelat::hist(attach, &arguments);
    children.perform();
    let performance = threads.perform();
    let report = wakelat.report();
    let wakeups = wakeups_since(before, &threads, THREADS);
    assert_eq!(report.coverage.wakeups.task_table_full, 0, "{:?}", report.coverage.wakeups);
    let found: u64 = report.with("comm", "wl-many").map(|group| group.count).sum();
    assert!((wakeups.saturating_sub(performance.untraced)..=wakeups).contains(&found), "{found} of {wakeups}");
    Ok(())
}

fn a_slot_whose_task_exited_unseen_goes_to_the_next_with_its_tid(attach: AttachCase) -> TestOutcome {
    const ROUNDS: u64 = 20;
    // On one CPU, a task that is reaped has left it.
    let body = || {
        TaskPlacement::other(machine::one_cpu()).take();
        // One slot, and a map of one: the first task gets the slot, the second one the map.
        let wakelat = Wakelat::hist(attach, &["--comm", "wl-echo-?", "--by", "comm", "--max-tasks", "2"]);
        let gate = ProgramGate::of(wakelat.pid());
        // Returns it once it has been woken and has blocked again.
        let woken = |name, tid| -> Result<Echo, Skip> {
            let task = Echo::start(name, c"", tid)?;
            let is_blocked = || procfs::is_blocked(task.tid());
            until("the task is blocked", is_blocked);
            task.echo();
            until("the task is blocked again", is_blocked);
            Ok(task)
        };
        let first = woken(c"wl-echo-1", None)?;
        let _other = woken(c"wl-echo-2", None)?;
        let tid = first.tid();
        gate.close();
        drop(first);
        gate.open();
        let supervisor = Supervisor::now();
        let next = woken(c"wl-echo-3", Some(tid))?;
        let before = TaskStats::of(tid).voluntary;
        (0..ROUNDS).for_each(|_| next.echo());
        until("the task is blocked at the end", || procfs::is_blocked(tid));
        // It was woken from each of these blocks but the last, and from the one before them.
        let wakeups = TaskStats::of(tid).voluntary - before;
        let untraced = (Supervisor::now() - supervisor).untraced(2);
        let report = wakelat.report();
        println!("\n  {:?}", report.coverage.wakeups);
        assert_eq!(report.coverage.wakeups.task_table_full, 0, "{report:?}");
        let found: u64 = report.with("comm", "wl-echo-3").map(|group| group.count).sum();
        assert!(wakeups > 0 && found + untraced >= wakeups, "{found} of {wakeups}: {report:?}");
        Ok(())
    };
    thread::scope(|scope| scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn a_wait_whose_end_no_program_sees_is_a_missed_switch(attach: AttachCase) -> TestOutcome {
    const ROUNDS: u64 = 100;
    // With the same real-time priority on one CPU, neither preempts the other: each runs when the other blocks.
    let place = TaskPlacement::fifo(machine::one_cpu());
    let (wakeups, waker) = pipe().expect("no file descriptors left");
    let (turns, turn) = pipe().expect("no file descriptors left");
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-unseen"]);
    let (gate, supervisor) = (ProgramGate::of(wakelat.pid()), Supervisor::now());
    let (started, starts) = mpsc::channel();
    // While a thread is created, another one can wait for the lock of their address space: that is a wait that is seen.
    let both = Barrier::new(2);
    let (ended, untraced) = thread::scope(|scope| {
        scope.spawn(|| {
            place.take();
            both.wait();
            task::name("wl-unseen");
            started.send(gettid().as_raw().unsigned_abs()).expect("the test waits for it");
            for _ in 0..ROUNDS {
                put_byte(turn.as_fd());
                // The task leaves the CPU while its previous wait is still pending, and is woken.
                take_byte(wakeups.as_fd());
                gate.open();
            }
            // And leaves it once more.
            take_byte(wakeups.as_fd());
        });
        let waking = scope.spawn(|| {
            place.take();
            both.wait();
            task::name("wl-waker");
            for _ in 0..ROUNDS {
                take_byte(turns.as_fd());
                put_byte(waker.as_fd());
                gate.close();
            }
        });
        let tid = starts.recv().expect("the task has started");
        waking.join().expect("each round has a wakeup");
        until("the task is blocked at the end", || procfs::is_blocked(tid));
        let untraced = (Supervisor::now() - supervisor).untraced(2);
        wakelat.signal(Signal::SIGINT);
        let ended = wakelat.end();
        // The scope waits for the task, also if a check fails: the report is checked after it.
        put_byte(waker.as_fd());
        (ended, untraced)
    });
    let terms = ended.reports()[0].coverage.wakeups;
    println!("\n  {terms:?}, {untraced} untraced");
    assert!(terms.missed_switch.abs_diff(ROUNDS) <= untraced, "{terms:?}, {untraced} untraced");
    assert!(terms.measured <= untraced, "{terms:?}, {untraced} untraced");
    Ok(())
}

/// The terms of wakeups, and what performed them while the reader of a ring buffer of `ring_bytes` was stopped.
fn behind_a_stalled_reader(attach: AttachCase, rounds: u64, ring_bytes: u64) -> (JsonTerms, Performance) {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), rounds)).stage();
    let ring_size = ring_bytes.to_string();
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-p?ng", "--mode", "samples", "--ring-size", &ring_size]);
    wakelat.stall();
    let performance = staged.perform();
    wakelat.signal(Signal::SIGCONT);
    (wakelat.report().coverage.wakeups, performance)
}

/// Asserts that each wakeup was either measured or counted as lost.
fn assert_losses_are_counted(terms: &JsonTerms, performance: &Performance) {
    let unseen = performance.wakeups() - terms.measured - terms.ring_buffer_full;
    assert!(unseen <= performance.untraced, "{terms:?}, {performance:?}");
}

fn t17_a_stalled_reader_loses_samples_and_counts_them(attach: AttachCase) -> TestOutcome {
    let page = machine::page_size() as u64;
    let (terms, performance) = behind_a_stalled_reader(attach, 2000, page);
    assert_losses_are_counted(&terms, &performance);
    // A sample takes about 100 bytes.
    assert!((1..=page / 32).contains(&terms.measured), "{terms:?}");
    Ok(())
}

fn t17_a_full_ring_of_slots_loses_samples_and_counts_them(attach: AttachCase) -> TestOutcome {
    /// The fewest slots that a CPU has, and their size: bytes (wakelat/src/collect/record_slots.rs).
    const SLOTS: u64 = 2048;
    const SLOT: u64 = 128;
    let ring_bytes = SLOTS * SLOT * machine::cpus().len().next_power_of_two() as u64;
    let (terms, performance) = behind_a_stalled_reader(attach, 2 * SLOTS, ring_bytes);
    assert_losses_are_counted(&terms, &performance);
    // No more than there are slots, and all of them are used.
    assert_eq!(terms.measured, SLOTS, "{terms:?}");
    Ok(())
}

fn t17_a_reader_that_is_stalled_for_a_while_loses_nothing_that_fits(attach: AttachCase) -> TestOutcome {
    let (terms, performance) = behind_a_stalled_reader(attach, 2000, 1 << 20);
    terms.assert_complete(performance.wakeups(), &performance);
    Ok(())
}

fn t18_under_twice_the_load_every_wakeup_is_accounted_for(attach: AttachCase) -> TestOutcome {
    let mut hogs = Workload::Hogs(Hogs { per_cpu: 2 }).stage();
    let mut staged = Workload::PingPong(PingPong {
        ping: TaskPlacement::other(machine::one_cpu()),
        pong: TaskPlacement::other(machine::cpus()[0]),
        ..PingPong::on_one(machine::one_cpu(), 300)
    })
    .stage();
    let wakelat = Wakelat::hist(attach, &["--by", "tid", "--comm", "wl-p?ng"]);
    hogs.perform();
    let performance = staged.perform();
    let report = wakelat.report();
    drop(hogs);
    let terms = report.coverage.wakeups;
    println!("\n  {terms:?} in {} ms", performance.duration_ns / 1_000_000);
    // One real wakeup for each block of a task: measured, or counted as lost.
    let accounted =
        terms.measured + terms.task_table_full + terms.ring_buffer_full + terms.invalid + terms.missed_switch;
    let unseen = performance.blocked() - accounted;
    assert!(unseen <= performance.untraced, "{terms:?}, {performance:?}");
    assert_eq!(terms.still_waiting, 0, "{terms:?}");
    Ok(())
}

fn wakeups_that_the_filter_rejects_are_not_waiting_between_intervals(attach: AttachCase) -> TestOutcome {
    let messages = usize::MAX / 1_000;
    let mut staged = Workload::Messaging(Messaging { groups: 2, fan: 4, messages }).stage();
    staged.begin();
    let reports = Wakelat::hist(attach, &["--comm", "wl-no-such", "100ms", "10"]).end().reports();
    drop(staged);
    // Fewer if the machine was too slow for some.
    assert!(reports.len() > 1, "{reports:#?}");
    for terms in reports.iter().map(|report| report.coverage.wakeups) {
        println!("  {terms:?}");
        // A program that has counted the wakeup and not yet rejected it, at most one on each CPU.
        assert!(terms.filtered > 0 && terms.still_waiting <= machine::cpus().len() as u64, "{terms:?}");
    }
    Ok(())
}

fn t20_intervals_add_up_to_the_whole(attach: AttachCase) -> TestOutcome {
    // Half a second at least, on any machine.
    let load = Sleeper { rounds: 1000, sleep_ns: 500_000, place: TaskPlacement::fifo(machine::one_cpu()) };
    let mut staged = Workload::Sleeper(load).stage();
    let wakelat = Wakelat::hist(attach, &["--comm", "wl-sleeper", "100ms"]);
    let performance = staged.perform();
    let reports = wakelat.reports();
    let used = reports.iter().filter(|report| !report.groups.is_empty()).count();
    println!("\n  {} intervals, {used} of them with waits", reports.len());
    assert!(used > 1, "the load fits into one interval");
    let sum = |term: fn(&JsonTerms) -> u64| reports.iter().map(|report| term(&report.coverage.wakeups)).sum::<u64>();
    let missing = performance.blocked() - sum(|terms| terms.measured);
    assert!(missing <= performance.untraced, "{missing} missing of {performance:?}");
    // A wait that is pending when an interval ends is seen again in the next one, which counts it as carried.
    let begun = sum(|terms| terms.seen) - sum(|terms| terms.carried) - sum(|terms| terms.filtered);
    assert_eq!(
        begun,
        sum(|t| t.measured + t.already_running + t.already_queued + t.ring_buffer_full + t.missed_switch)
    );
    assert!(reports.windows(2).all(|pair| pair[0].start_unix_ns < pair[1].start_unix_ns));
    Ok(())
}
