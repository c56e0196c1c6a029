//! `verify`: both sides of the same window agree if nothing is wrong, and disagree if something is.

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    agreement::{assert_agrees, assert_checks, assert_checks_but_hidden},
    attached, machine, once,
    procfs::TaskStats,
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::{Policy, TaskPlacement},
    tracefs::{self, ForeignInstance},
    verify_run::{check, document, outcome, verify},
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, Hogs, Messaging, Performance, PingPong, Pipe, PreemptedSleeping, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let by_every_way = attached![
        verify_has_exactly_n_wakeups_on_both_sides,
        verify_from_waking_has_exactly_n_wakeups_on_both_sides,
        verify_agrees_under_load,
        verify_knows_which_waits_in_a_sleeping_state_the_kernel_counts,
    ];
    let once = once![
        without_hist_triggers_verify_ends_with_4_after_the_other_checks,
        required_triggers_that_a_kernel_lacks_are_an_error,
        verify_of_all_tasks_agrees_under_load,
        verify_finds_every_planted_error,
        a_queue_clock_that_loses_half_of_the_waits_is_found_and_named,
        a_queue_clock_whose_waits_are_twice_as_long_is_found_and_named,
        verify_of_all_tasks_agrees_under_messages_and_still_finds_lost_waits,
        verify_leaves_nothing_behind_when_it_is_interrupted,
        only_the_leftovers_of_a_killed_verify_are_removed,
        waits_at_the_edges_of_a_short_window_are_known_for_each_task,
        a_ring_buffer_that_fills_up_while_triggers_are_placed_loses_no_accounted_wait,
        verify_refuses_what_no_trigger_can_do,
    ];
    by_every_way.into_iter().chain(once).collect()
}

/// Measures one performance of `load` with these arguments.
fn verified(load: Workload, arguments: &[&str]) -> (i32, Value, Performance, Staged) {
    let mut staged = load.stage();
    let wakelat = verify(arguments);
    let performance = staged.perform();
    let (code, document) = outcome(wakelat);
    (code, document, performance, staged)
}

fn assert_exactly(document: &Value, wakeups: u64) {
    let comparison = &document["comparison"];
    for side in ["wakelat", "trigger"] {
        assert_eq!(comparison[side]["count"], wakeups, "{document:#}");
        assert_eq!(comparison[side]["dropped"], 0, "{document:#}");
    }
    // The tasks live within the window.
    assert_eq!(comparison["tolerated_waits"], 0, "{document:#}");
}

/// Prints how the clocks explain the difference. If time is counted in instructions, nothing is ever
/// held up, and the difference is that of two programs' instructions: 3.5 µs.
fn print_differences(document: &Value) {
    let comparison = &document["comparison"];
    let sum = |side: &str| comparison[side]["sum_ns"].as_i64().unwrap_or(0);
    println!(
        "\n  {} waits, sums {} ns apart, distance {}, clock {} ns",
        comparison["wakelat"]["count"],
        sum("wakelat") - sum("trigger"),
        comparison["distance"],
        comparison["clock_ns"]
    );
    let ambiguous = comparison["tolerated_waits"] != 0;
    if machine::is_emulated() && machine::has_own_time() && !ambiguous && comparison["agree"] == true {
        let waits = comparison["wakelat"]["count"].as_u64().unwrap_or(0);
        assert!((sum("wakelat") - sum("trigger")).unsigned_abs() <= 3_500 * waits, "{document:#}");
        let held_up = comparison["held_up"].as_u64().expect("a number");
        for bucket in comparison["buckets"].as_array().expect("a list") {
            let moved = bucket["moved"].as_i64().expect("a number").unsigned_abs();
            assert!(moved + held_up <= bucket["explained"].as_u64().expect("a number"), "{document:#}");
        }
    }
}

fn exact_ping_pong(attach: AttachCase, from: &str) -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let load = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 2000));
    let arguments = ["--comm", "wl-p?ng", "--attach", attach.name(), "--from", from];
    let (code, document, performance, _staged) = verified(load, &arguments);
    print_differences(&document);
    assert_agrees(code, &document);
    let rules = &document["rules"];
    let already_running = rules["already_running"] != 0;
    let bogus = rules["bogus"]["count"].as_u64().expect("a number");
    // Unless a task was woken for a lock for which it was spinning.
    assert!(bogus == 0 || already_running, "{document:#}");
    assert!(rules["restarted"]["count"].as_u64() <= rules["already_queued"].as_u64(), "{document:#}");
    assert_eq!(rules["unknown"]["count"], 0, "{document:#}");
    assert_exactly(&document, performance.wakeups() + bogus);
    assert_eq!(rules["classes"]["wakeup"]["count"], performance.wakeups(), "{document:#}");
    assert!(tracefs::left_by_wakelat().is_empty(), "{:?}", tracefs::left_by_wakelat());
    Ok(())
}

fn verify_has_exactly_n_wakeups_on_both_sides(attach: AttachCase) -> TestOutcome {
    exact_ping_pong(attach, "wakeup")
}

fn verify_from_waking_has_exactly_n_wakeups_on_both_sides(attach: AttachCase) -> TestOutcome {
    exact_ping_pong(attach, "waking")
}

fn verify_agrees_under_load(attach: AttachCase) -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let mut hogs = Workload::Hogs(Hogs { per_cpu: 2 }).stage();
    let (one, other) = (TaskPlacement::other(machine::one_cpu()), TaskPlacement::other(machine::cpus()[0]));
    let mut staged =
        Workload::PingPong(PingPong { ping: one, pong: other, ..PingPong::on_one(machine::one_cpu(), 300) }).stage();
    let wakelat = verify(&["--comm", "wl-p?ng", "--attach", attach.name()]);
    hogs.perform();
    let performance = staged.perform();
    let (code, document) = outcome(wakelat);
    drop(hogs);
    print_differences(&document);
    assert_agrees(code, &document);
    let comparison = &document["comparison"];
    assert_eq!(comparison["wakelat"]["count"], comparison["trigger"]["count"], "{document:#}");
    assert!(comparison["wakelat"]["count"].as_u64() >= Some(performance.blocked()), "{document:#}");
    Ok(())
}

fn verify_of_all_tasks_agrees_under_load() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let mut hogs = Workload::Hogs(Hogs { per_cpu: 1 }).stage();
    let place = TaskPlacement::other(machine::one_cpu());
    let load = PingPong { rounds: 1000, ping: place, pong: place, patient: false, sleep_after_ns: 0 };
    let mut staged = Workload::PingPong(load).stage();
    hogs.perform();
    let wakelat = verify(&[]);
    staged.perform();
    let (code, document) = outcome(wakelat);
    drop(hogs);
    print_differences(&document);
    assert_agrees(code, &document);
    assert_checks(&document);
    Ok(())
}

fn verify_finds_every_planted_error() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let load = BehindHog { rounds: 200, spin_ns: 1_500_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    for (planted, word) in [
        (None, ""),
        (Some("restart"), "on the other side"),
        (Some("lose"), "differ by"),
        (Some("shift"), "on the other side"),
    ] {
        let mut arguments = vec!["--comm", "wl-sleeper"];
        if let Some(planted) = planted {
            arguments.extend(["--plant", planted]);
        }
        let (code, document, ..) = verified(Workload::BehindHog(load.clone()), &arguments);
        let reasons = document["comparison"]["reasons"].to_string();
        println!("\n  {planted:?}: exit {code}: {reasons}");
        match planted {
            None => assert_agrees(code, &document),
            Some(_) => assert_eq!(code, 3, "{document:#}"),
        }
        assert!(reasons.contains(word), "{document:#}");
    }
    Ok(())
}

/// Each wakeup of the two tasks happens within the window, and only the queue clock lacks half of them: far more
/// than the two waits for each CPU that may be in progress and the first wait of each task. What no tracepoint
/// sees, neither instrument can find.
fn a_queue_clock_that_loses_half_of_the_waits_is_found_and_named() -> TestOutcome {
    let load = || Workload::PingPong(PingPong::on_one(machine::one_cpu(), 2000));
    let check = |document| check(document, "queue_clock");
    let (_, document, performance, _staged) = verified(load(), &["--comm", "wl-p?ng"]);
    let right = check(&document);
    if !machine::has_member("last_queued") {
        return Err(Skip::because("this kernel has no queue clock"));
    }
    assert_eq!(right["outcome"], "agree", "{document:#}");
    assert!(document["differs"].is_null(), "{document:#}");
    let wakeups = right["numbers"]["tracepoint_wakeup"].as_u64().expect("a number");
    assert!(wakeups + performance.untraced >= performance.wakeups(), "{wakeups} of {performance:?}: {document:#}");
    let (code, document, ..) = verified(load(), &["--comm", "wl-p?ng", "--plant", "queue-clock-lose"]);
    assert_eq!((code, &check(&document)["outcome"]), (3, &Value::from("disagree")), "{document:#}");
    if document["comparison"]["agree"] == true {
        assert_eq!(document["differs"], "queue_clock", "{document:#}");
    }
    Ok(())
}

/// The sleeper waits behind the hog, for far longer than the distance between the instruments.
fn a_queue_clock_whose_waits_are_twice_as_long_is_found_and_named() -> TestOutcome {
    let load = BehindHog { rounds: 200, spin_ns: 1_500_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let check = |document| check(document, "distributions");
    let (_, document, ..) = verified(Workload::BehindHog(load.clone()), &["--comm", "wl-sleeper"]);
    let right = check(&document);
    if !machine::has_member("last_queued") {
        return Err(Skip::because("this kernel has no queue clock"));
    }
    println!("\n  {}", right["found"]);
    assert!(right["outcome"] == "agree" || !machine::has_own_time(), "{document:#}");
    let (code, document, ..) =
        verified(Workload::BehindHog(load), &["--comm", "wl-sleeper", "--plant", "queue-clock-shift"]);
    println!("  {}", check(&document)["found"]);
    assert_eq!((code, &check(&document)["outcome"]), (3, &Value::from("disagree")), "{document:#}");
    if document["comparison"]["agree"] == true {
        assert_eq!(document["differs"], "queue_clock", "{document:#}");
    }
    Ok(())
}

/// One planted error is enough here: the unit tests of `judge` and `compare` cover the effect of each
/// one on a comparison, and `verify_finds_every_planted_error` shows that each reaches it.
fn verify_of_all_tasks_agrees_under_messages_and_still_finds_lost_waits() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let load = Messaging { groups: 2, fan: 5, messages: 60 };
    // Nothing is ambiguous for tasks that live within the window, so a single missing wait is found.
    let lost = ["--plant", "lose", "--comm", "wl-sender", "--comm", "wl-receiver"];
    for arguments in [&[][..], &lost] {
        let (code, document, ..) = verified(Workload::Messaging(load.clone()), arguments);
        println!("\n  {arguments:?}: exit {code}: {}", document["comparison"]["reasons"]);
        print_differences(&document);
        if arguments.is_empty() {
            assert_agrees(code, &document);
        } else {
            assert_eq!(code, 3, "{document:#}");
            assert!(document["comparison"]["reasons"].to_string().contains("the counts differ by"), "{document:#}");
        }
        // The error was planted in one of the two histograms, and nowhere else.
        assert_checks(&document);
    }
    Ok(())
}

/// Skips the test on kernels on which wakelat refuses to read records, after checking that `verify` is refused.
fn need_records() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        let refused = Wakelat::start(command(&["verify", "-d", "1s"])).end();
        refused.assert_refused(1, &["ring buffer", "PREEMPT_RT"]);
        return Err(Skip::because("the BPF ring buffer of this kernel can freeze the machine"));
    }
    Ok(())
}

fn need_a_kernel_without_hist_triggers() -> TestOutcome {
    if tracefs::has_hist_triggers() { Err(Skip::because("this kernel has hist triggers")) } else { Ok(()) }
}

fn without_hist_triggers_verify_ends_with_4_after_the_other_checks() -> TestOutcome {
    need_a_kernel_without_hist_triggers()?;
    // So many that the switches which some machines hide are few of them.
    let load = || Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500));
    let (code, document, ..) = verified(load(), &[]);
    assert_eq!(document["not_compared"]["reason"], "no_hist_triggers", "{document:#}");
    let names: Vec<_> = document["checks"].as_array().expect("a list").iter().map(|check| &check["name"]).collect();
    assert_eq!(names, ["schedstat", "ctxt", "queue_clock", "distributions", "run_queues"], "{document:#}");
    assert_checks(&document);
    assert!(code == 4 || !machine::has_own_time(), "{document:#}");
    let mut staged = load().stage();
    let wakelat = Wakelat::measuring(command(&["verify", "-d", "10m"]));
    staged.perform();
    wakelat.signal(Signal::SIGINT);
    let output = wakelat.end();
    let is_named = output.stdout.contains("not compared: this kernel has no hist triggers");
    assert!(is_named || !machine::has_own_time(), "{output:#?}");
    Ok(())
}

fn required_triggers_that_a_kernel_lacks_are_an_error() -> TestOutcome {
    need_records()?;
    need_a_kernel_without_hist_triggers()?;
    let refused = Wakelat::start(command(&["verify", "--require-triggers", "-d", "10m"])).end();
    refused.assert_refused(1, &["--require-triggers", "CONFIG_HIST_TRIGGERS"]);
    Ok(())
}

fn verify_leaves_nothing_behind_when_it_is_interrupted() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let foreign = ForeignInstance::make();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let wakelat = verify(&[]);
        assert_eq!(tracefs::left_by_wakelat().len(), 2, "{:?}", tracefs::left_by_wakelat());
        wakelat.signal(signal);
        let ended = wakelat.end();
        assert!(ended.status.code().is_some(), "{ended:#?}");
        assert!(tracefs::left_by_wakelat().is_empty(), "{:?}", tracefs::left_by_wakelat());
        foreign.assert_untouched();
    }
    Ok(())
}

fn only_the_leftovers_of_a_killed_verify_are_removed() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let foreign = ForeignInstance::make();
    let killed = verify(&[]);
    let pid = killed.pid();
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end().killed_by(), Some(Signal::SIGKILL as i32));
    let left = tracefs::left_by_wakelat();
    assert_eq!(left.len(), 2, "{left:?}");
    // The files of a running instance must not be removed.
    let living = verify(&[]);
    assert_eq!(tracefs::left_by_wakelat().len(), 2, "the killed run's are gone: {:?}", tracefs::left_by_wakelat());
    let next = Wakelat::start(command(&["verify", "-d", "200ms"])).end();
    assert_eq!(tracefs::left_by_wakelat().len(), 2, "{:?}", tracefs::left_by_wakelat());
    assert!(!next.stderr.contains("removed"), "{next:#?}");
    living.signal(Signal::SIGINT);
    let output = living.end();
    for what in ["removed the tracefs instance", "removed the synthetic event"] {
        assert!(output.stderr.contains(what) && output.stderr.contains(&pid.to_string()), "{output:#?}");
    }
    assert!(tracefs::left_by_wakelat().is_empty(), "{:?}", tracefs::left_by_wakelat());
    foreign.assert_untouched();
    Ok(())
}

/// Nineteen of twenty tasks on a CPU wait when the window begins, and nineteen when it ends; fewer in
/// an emulator, where wakelat needs seconds of CPU time before the window and gets only its share.
fn waits_at_the_edges_of_a_short_window_are_known_for_each_task() -> TestOutcome {
    need_records()?;
    let per_cpu = if machine::is_emulated() { 3 } else { 20 };
    let mut hogs = Workload::Hogs(Hogs { per_cpu }).stage();
    hogs.perform();
    let supervised = Supervisor::now();
    let ended = Wakelat::start(command(&["verify", "--json", "-q", "-d", "100ms", "--comm", "wl-hog"])).end();
    let hidden = (Supervisor::now() - supervised).switch_ins();
    drop(hogs);
    let (_, document) = document(&ended);
    assert_checks_but_hidden(&document, hidden);
    let schedstat = check(&document, "schedstat");
    let number = |name: &str| schedstat["numbers"][name].as_u64().expect("a number");
    let all = per_cpu * machine::cpus().len() as u64;
    // Each of them is runnable all the time.
    assert_eq!((number("tasks"), number("waiting")), (all, all), "{document:#}");
    // For tasks that had not run between attaching and the opening of their account, only the kernel
    // counts the first wait.
    assert!(number("tasks_differ") <= number("waiting"), "{document:#}");
    Ok(())
}

/// Once the triggers are being placed, the ring buffer is not emptied until it is full, as if placing
/// them took seconds.
fn a_ring_buffer_that_fills_up_while_triggers_are_placed_loses_no_accounted_wait() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the BPF ring buffer of this kernel can freeze the machine"));
    }
    // Room for fewer than 3,000 waits; an emulator produces a few hundred between two drains.
    const ROOM: [&str; 2] = ["--ring-size", "256K"];
    const BLOCKED: u64 = 6_000;
    let mut load = Workload::Pipe(Pipe { place: TaskPlacement::other(machine::one_cpu()) }).stage();
    load.begin();
    let mut wakelat = Wakelat::start(command(&[&["verify", "--json", "-d", "10m"][..], &ROOM].concat()));
    until("the programs run and triggers are being placed", || !tracefs::left_by_wakelat().is_empty());
    wakelat.stall();
    let blocked = || TaskStats::of(load.tid("wl-ping")).voluntary;
    let before = blocked();
    until("the ring buffer is full", || blocked() - before > BLOCKED);
    wakelat.signal(Signal::SIGCONT);
    wakelat.until_measuring();
    let (_, document) = outcome(wakelat);
    drop(load);
    assert_checks(&document);
    Ok(())
}

fn verify_refuses_what_no_trigger_can_do() -> TestOutcome {
    let ended = Wakelat::start(command(&["verify", "--cgroup", "/"])).end();
    ended.assert_refused(2, &["--cgroup"]);
    tracefs::need_hist_triggers()?;
    Wakelat::start(command(&["verify", "--comm", "a\"b"])).end().assert_refused(1, &["a\"b"]);
    Ok(())
}

/// The kernel counts them only if the task is moved meanwhile, although it is switched in where it lost its CPU.
fn verify_knows_which_waits_in_a_sleeping_state_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    need_records()?;
    if !PreemptedSleeping::is_possible() {
        return Err(Skip::because("this kernel cannot wait for many futexes at once"));
    }
    let cpus = machine::two_cpus()?;
    // Only a kernel that can be preempted there shows any, and how many depends on how evenly it wakes a task.
    let uncounted = |moves| -> u64 {
        let load = PreemptedSleeping { rounds: 2000, cpus, moves };
        let arguments = ["--comm", "wl-sleeper", "--attach", attach.name()];
        let (_, document, ..) = verified(Workload::PreemptedSleeping(load), &arguments);
        let check = check(&document, "schedstat");
        println!("\n  moved: {moves}: {}", check["found"]);
        let number = |name: &str| check["numbers"][name].as_u64().expect("a number");
        assert!(number("tasks") > 0 && number("unexplained") <= number("tolerated_waits"), "{document:#}");
        // Nothing is hidden, and nothing happened at the edges.
        let is_exact = ["tolerated_waits", "ambiguous", "late", "waiting"].iter().all(|name| number(name) == 0);
        if is_exact && attach != AttachCase::Classic {
            assert_eq!(number("tasks_differ"), 0, "{document:#}");
        }
        number("uncounted")
    };
    uncounted(true);
    let any = (0..5).any(|_| uncounted(false) > 0 || !machine::is_preempt_rt());
    assert!(any, "no wait began in a sleeping state");
    Ok(())
}
