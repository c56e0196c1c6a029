//! What is recorded by the run queue's clock (`--from queued` with `record`, `why` and `trace`) has the kernel's own
//! account of each task, to the nanosecond, and needs no program on wakeups.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    account::Account,
    attached_typed,
    competing_threads::{CompetingThread, ROUNDS, THREADS, accounts, pinned},
    documents, machine,
    report::JsonSwitchIns,
    suite::{Case, TestOutcome},
    switches::JsonSwitch,
    wakelat::{AttachCase, Wakelat, command},
    why::{self, list, number},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        recorded_waits_are_those_that_the_kernel_counts,
        each_recorded_thread_has_the_sum_of_the_kernel,
        each_thread_of_a_live_run_has_the_sum_of_the_kernel,
        the_slices_of_each_thread_have_the_waits_that_the_kernel_counts,
        the_lines_of_each_thread_are_the_waits_that_the_kernel_counts,
        a_threshold_leaves_out_only_shorter_waits,
        no_program_is_on_a_wakeup,
    ]
}

/// Starts `wakelat` with these arguments and those of every run here, and returns once it measures.
fn measuring(attach: AttachCase, arguments: &[&str]) -> Wakelat {
    let ring_size = machine::ring_size();
    let more = ["--from", "queued", "--ring-size", &ring_size, "--attach", attach.name()];
    Wakelat::measuring(command(&[arguments, &more].concat()))
}

/// Ends the run as Ctrl-C does, and returns its output.
fn ended(wakelat: Wakelat) -> String {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    ended.stdout
}

/// A document of `why`. Checks that nothing was lost, and that all components add up.
fn parsed(document: &str) -> Value {
    documents::assert_valid(document);
    let document = serde_json::from_str(document).unwrap_or_else(|error| panic!("{error} in {document}"));
    why::check(&document);
    document
}

/// What `why` shows of what is recorded with these arguments while `load` runs.
fn recorded(attach: AttachCase, arguments: &[&str], shown: &[&str], load: impl FnOnce()) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let recording = measuring(attach, &[&["record", "-o", file], arguments].concat());
    load();
    ended(recording);
    let shown = command(&["why", "--json", "-i", file]).args(shown).output().expect("wakelat");
    assert!(shown.status.success(), "{shown:?}");
    parsed(&String::from_utf8(shown.stdout).expect("UTF-8"))
}

/// The terms of switch-ins.
fn switch_ins(document: &Value) -> JsonSwitchIns {
    let terms: JsonSwitchIns =
        serde_json::from_value(document["coverage"]["switch_ins"].clone()).expect("the terms of switch-ins");
    assert_eq!((terms.invalid, terms.ring_buffer_full), (0, 0), "{terms:?}");
    assert_eq!(terms.accounted(), terms.seen, "{terms:?}");
    terms
}

/// The waits of some groups.
fn measured<'a>(groups: impl IntoIterator<Item = &'a Value>) -> Account {
    let account = |group: &Value| Account {
        waits: number(&group["count"]),
        waited_ns: number(&group["sum_ns"]),
        ..Account::default()
    };
    groups.into_iter().map(account).sum()
}

fn run(workers: &[CompetingThread]) {
    workers.iter().for_each(CompetingThread::begin);
    workers.iter().for_each(CompetingThread::finish);
}

/// Threads of this process that begin while wakelat measures, so that all of their waits are known, and have worked once.
fn new_threads() -> Vec<CompetingThread> {
    let workers = pinned("wl-queued-new");
    run(&workers);
    workers
}

/// Asserts that new threads have the account of the kernel, each. Only a wait may be missing that the machine hid, that the
/// kernel has not timed, or whose start is unknown because its task was preempted in a sleeping state and then migrated:
/// the terms have the number and the sum of these.
fn assert_has_the_account_of_each(workers: &[CompetingThread], terms: &JsonSwitchIns, found: impl Fn(u32) -> Account) {
    let mut missing = Account::default();
    for CompetingThread { tid, .. } in workers {
        let (found, kernel) = (found(*tid), Account::of(*tid));
        assert!(found.waits > 0, "thread {tid} has no waits");
        let is_part = found.waits < kernel.waits && found.waited_ns <= kernel.waited_ns;
        let is_whole = (found.waits, found.waited_ns) == (kernel.waits, kernel.waited_ns);
        assert!(is_whole || is_part, "thread {tid}: {found:?}, by the kernel {kernel:?}: {terms:?}");
        missing = missing + (kernel - found);
    }
    // The last wait of a thread is in the terms only if its next switch is seen.
    let hidden = terms.unseen + terms.after_unseen + terms.not_timed + terms.unseen_switches / 2;
    // A task that was preempted in a sleeping state is not timed if it has not migrated. If there is none, as on kernels
    // that do not preempt the kernel, there is none that has migrated.
    let preempts_sleeping = terms.not_timed > 0;
    let hidden = hidden + if preempts_sleeping { terms.unknown_start } else { 0 };
    assert!(missing.waits <= hidden, "{missing:?} is missing: {terms:?}");
    let unknown_ns = if terms.after_unseen > 0 || preempts_sleeping { terms.unknown_ns } else { 0 };
    let is_in_terms = terms.unseen_switches == 0 || missing.waits <= terms.unseen;
    assert!(!is_in_terms || missing.waited_ns <= terms.unseen_ns + unknown_ns, "{missing:?} is missing: {terms:?}");
}

/// Asserts the same of the groups of a document by thread.
fn assert_groups_have_the_account_of_each(document: &Value, workers: &[CompetingThread]) {
    let groups = list(&document["groups"]);
    assert_has_the_account_of_each(workers, &switch_ins(document), |tid| {
        measured(groups.iter().filter(|group| group["key"]["tid"] == tid))
    });
}

fn recorded_waits_are_those_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let workers = pinned("wl-queued-rec");
    let before = accounts(&workers);
    let document = recorded(attach, &["--comm", "wl-queued-rec"], &[], || run(&workers));
    let (terms, measured) = (switch_ins(&document), measured(list(&document["classes"])));
    let accounted = Account {
        waits: measured.waits + terms.unknown_start + terms.after_unseen + terms.unseen,
        waited_ns: measured.waited_ns + terms.unknown_ns + terms.unseen_ns,
        ..Account::default()
    };
    (accounts(&workers) - before).assert_is(accounted, &terms);
    assert_eq!(measured.waits, terms.measured, "{document}");
    assert!(terms.measured > THREADS as u64 * u64::from(ROUNDS) / 2, "{document}");
    assert!(list(&document["classes"]).iter().any(|class| class["class"] == "preempted"), "{document}");
    Ok(())
}

fn each_recorded_thread_has_the_sum_of_the_kernel(attach: AttachCase) -> TestOutcome {
    let own = std::process::id().to_string();
    let mut workers = Vec::new();
    let document = recorded(attach, &["--pid", &own], &["--by", "tid"], || workers = new_threads());
    assert_groups_have_the_account_of_each(&document, &workers);
    Ok(())
}

fn each_thread_of_a_live_run_has_the_sum_of_the_kernel(attach: AttachCase) -> TestOutcome {
    let own = std::process::id().to_string();
    let wakelat = measuring(attach, &["why", "--json", "--by", "tid", "--pid", &own]);
    let workers = new_threads();
    assert_groups_have_the_account_of_each(&parsed(&ended(wakelat)), &workers);
    Ok(())
}

fn the_slices_of_each_thread_have_the_waits_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let own = std::process::id().to_string();
    let wakelat = measuring(attach, &["trace", "--all", "--json", "--pid", &own]);
    let workers = new_threads();
    let output = ended(wakelat);
    let report: Value = output.lines().last().map(|line| serde_json::from_str(line).expect("JSON")).expect("a report");
    let (switches, terms) = (JsonSwitch::parse_all(&output), switch_ins(&report));
    assert_has_the_account_of_each(&workers, &terms, |tid| {
        let its = switches.iter().filter(|switch| switch.tid == tid).filter_map(|switch| switch.latency_ns);
        its.map(|waited_ns| Account { waits: 1, waited_ns, ..Account::default() }).sum()
    });
    Ok(())
}

fn the_lines_of_each_thread_are_the_waits_that_the_kernel_counts(attach: AttachCase) -> TestOutcome {
    let own = std::process::id().to_string();
    let wakelat = measuring(attach, &["trace", "--json", "--class", "wakeup,new,preempted", "--pid", &own]);
    let workers = new_threads();
    let output = ended(wakelat);
    let mut waits: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let terms = switch_ins(&waits.pop().expect("a report"));
    assert_eq!(waits.len() as u64, terms.measured, "{terms:?}");
    for wait in &waits {
        let unknown = ["delivery_ns", "waker_tid", "waker_comm", "prev_cpu"].map(|field| &wait[field]);
        assert!(wait["schema"] == "wakelat.wait/1" && unknown.iter().all(|value| value.is_null()), "{wait}");
    }
    assert_has_the_account_of_each(&workers, &terms, |tid| {
        let its = waits.iter().filter(|wait| wait["tid"] == tid);
        its.map(|wait| Account { waits: 1, waited_ns: number(&wait["latency_ns"]), ..Account::default() }).sum()
    });
    Ok(())
}

fn a_threshold_leaves_out_only_shorter_waits(attach: AttachCase) -> TestOutcome {
    const THRESHOLD_NS: u64 = 50_000;
    let workers = pinned("wl-queued-thr");
    let filter = ["--comm", "wl-queued-thr", "--class", "preempted", "--threshold", "50us"];
    let document = recorded(attach, &filter, &["--worst", "1000"], || run(&workers));
    let terms = switch_ins(&document);
    assert!(terms.other_class > 0 && terms.filtered > 0, "{document}");
    let classes = list(&document["classes"]);
    assert!(classes.iter().all(|class| class["class"] == "preempted"), "{document}");
    assert_eq!(measured(classes).waits, terms.measured, "{document}");
    assert!(
        list(&document["worst"]).iter().all(|wait| number(&wait["latency_ns"]) >= THRESHOLD_NS),
        "{}",
        document["worst"]
    );
    Ok(())
}

/// The tracepoints that a process has programs on (`bpf_raw_tp_link_show_fdinfo()`, kernel/bpf/syscall.c).
fn tracepoints(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process is running");
    let read = |entry: fs::DirEntry| fs::read_to_string(entry.path()).unwrap_or_default();
    let of = |info: String| info.lines().find_map(|line| Some(line.strip_prefix("tp_name:")?.trim().to_owned()));
    open.flatten().map(read).filter_map(of).collect()
}

fn no_program_is_on_a_wakeup(attach: AttachCase) -> TestOutcome {
    let on_wakeups = |tracepoints: &[String]| {
        let of_wakeups = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];
        of_wakeups.iter().filter(|wakeup| tracepoints.iter().any(|tracepoint| tracepoint == *wakeup)).count()
    };
    for arguments in [&["record", "-o", "/dev/null"][..], &["why"], &["trace", "--all"], &["trace", "--breakdown"]] {
        let attached = |from: &str| {
            let line = [arguments, &["--from", from, "--attach", attach.name()]].concat();
            let wakelat = Wakelat::measuring(command(&line));
            let tracepoints = tracepoints(wakelat.pid());
            ended(wakelat);
            tracepoints
        };
        let (queued, wakeup) = (attached("queued"), attached("wakeup"));
        assert!(queued.iter().any(|tracepoint| tracepoint == "sched_switch"), "{arguments:?}: {queued:?}");
        assert_eq!(on_wakeups(&queued), 0, "{arguments:?}: {queued:?}");
        assert!(on_wakeups(&wakeup) > 0, "{arguments:?}: {wakeup:?}");
    }
    Ok(())
}
