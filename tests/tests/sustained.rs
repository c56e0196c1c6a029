//! Delivers every wait for seconds, while both CPUs wake and switch tasks as fast as they can: none is lost or
//! repeated, and all come in the order of time.
//!
//! `$WAKELAT_SOAK` is the number of seconds. `cargo xtask test --full` sets it.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::Stdio,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    documents, machine, once,
    procfs::TaskStats,
    report::{JsonSwitchIns, JsonTerms},
    suite::{Case, Skip, TestOutcome},
    supervisor::Supervisor,
    task::TaskPlacement,
    wakelat::{Wakelat, command},
    workload::{Pipe, Staged, Workload},
};

pub fn cases() -> Vec<Case> {
    once![
        every_wait_of_two_busy_cpus_is_delivered_in_the_order_of_time,
        every_wait_by_the_queue_clock_is_delivered_in_the_order_of_time,
    ]
}

/// How waits are measured.
struct Instrument {
    /// What selects it.
    arguments: &'static [&'static str],
    /// How many of these waits a task has had, by the kernel's account, give or take one.
    waits: fn(TaskStats) -> u64,
    /// The coverage of a report.
    coverage: fn(Value) -> Coverage,
}

/// The waits that a report accounts for.
#[derive(Debug)]
struct Coverage {
    measured: u64,
    ring_buffer_full: u64,
    /// Lost for another reason, none of which happens here.
    lost: u64,
    /// Those that no instrument can time, because a switch was not seen.
    unseen: u64,
}

/// A wait is between two blocks of a task.
const TRACEPOINTS: Instrument = Instrument {
    arguments: &[],
    waits: |task| task.voluntary,
    coverage: |coverage| {
        let terms: JsonTerms = serde_json::from_value(coverage).expect("the terms of wakeups");
        Coverage {
            measured: terms.measured,
            ring_buffer_full: terms.ring_buffer_full,
            lost: terms.task_table_full + terms.invalid,
            unseen: terms.missed_switch,
        }
    },
};

/// A wait is between two slices of a task.
const QUEUE_CLOCK: Instrument = Instrument {
    arguments: &["--from", "queued", "--class", "runqueue"],
    waits: |task| task.switches(),
    coverage: |coverage| {
        let terms: JsonSwitchIns = serde_json::from_value(coverage["switch_ins"].clone()).expect("the switch-ins");
        assert_eq!(terms.seen, terms.accounted(), "{terms:?}");
        Coverage {
            measured: terms.measured,
            ring_buffer_full: terms.ring_buffer_full,
            lost: terms.invalid + terms.other_class,
            unseen: terms.unknown_start + terms.after_unseen + terms.not_timed,
        }
    },
};

/// How long to measure, and whether this machine is known to have its CPUs for this test alone.
fn duration() -> (Duration, bool) {
    const DEFAULT_SECONDS: u64 = 5;
    let given = std::env::var("WAKELAT_SOAK").ok();
    let seconds = given.as_ref().map_or(DEFAULT_SECONDS, |text| {
        text.parse().unwrap_or_else(|_| panic!("`{text}` in WAKELAT_SOAK is not a number of seconds"))
    });
    (Duration::from_secs(seconds), given.is_some())
}

/// The tasks of both pipes.
const TASKS: u64 = 4;

/// How many waits these tasks have had, by the kernel's accounting.
fn waits(pipes: &[Staged], instrument: &Instrument) -> u64 {
    let of_pipe = |pipe: &Staged| ["wl-ping", "wl-pong"].map(|name| (instrument.waits)(TaskStats::of(pipe.tid(name))));
    pipes.iter().flat_map(of_pipe).sum()
}

/// What `trace --json` wrote.
#[derive(Debug)]
struct Delivered {
    waits: u64,
    /// Waits that ended before one that was written earlier.
    behind: u64,
    /// When the first wait ended, and the last one: ns of CLOCK_MONOTONIC.
    ended_ns: [u64; 2],
    /// The report at the end.
    report: String,
}

/// Reads the output to its end. Looks only at the time of each wait, because decoding hundreds of thousands of documents
/// in a second would leave the load too little of the CPUs.
fn read(output: impl Read) -> Delivered {
    const BEFORE_TIME: &str = r#"{"schema":"wakelat.wait/1","at_ns":"#;
    let mut delivered = Delivered { waits: 0, behind: 0, ended_ns: [u64::MAX, 0], report: String::new() };
    let (mut lines, mut line) = (BufReader::with_capacity(1 << 20, output), String::new());
    while lines.read_line(&mut line).expect("text") > 0 {
        match line.strip_prefix(BEFORE_TIME) {
            Some(rest) => {
                let at_ns: u64 = rest.split_once(',').and_then(|(at_ns, _)| at_ns.parse().ok()).expect("a time in ns");
                let [first_ns, last_ns] = &mut delivered.ended_ns;
                delivered.waits += 1;
                delivered.behind += u64::from(at_ns < *last_ns);
                (*first_ns, *last_ns) = (at_ns.min(*first_ns), at_ns.max(*last_ns));
            }
            None => delivered.report.push_str(&line),
        }
        line.clear();
    }
    delivered
}

/// The number of records that wakelat reports as late.
fn late(stderr: &str) -> u64 {
    let reported = stderr.lines().find_map(|line| {
        let (before, _) = line.split_once(" records came from the ring buffers after later ones")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    reported.unwrap_or(0)
}

fn every_wait_of_two_busy_cpus_is_delivered_in_the_order_of_time() -> TestOutcome {
    every_wait_is_delivered_in_order(&TRACEPOINTS)
}

fn every_wait_by_the_queue_clock_is_delivered_in_the_order_of_time() -> TestOutcome {
    every_wait_is_delivered_in_order(&QUEUE_CLOCK)
}

fn every_wait_is_delivered_in_order(instrument: &Instrument) -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("the kernel's ring buffer would freeze the machine"));
    }
    if cfg!(debug_assertions) && std::env::var_os("WAKELAT").is_none() {
        return Err(Skip::because("an unoptimized reader is slower than two busy CPUs: use --release"));
    }
    let (duration, is_alone) = duration();
    let mut pipes = machine::two_cpus()?.map(|cpu| Workload::Pipe(Pipe { place: TaskPlacement::other(cpu) }).stage());
    pipes.iter_mut().for_each(Staged::begin);

    let (outer, supervisor) = (waits(&pipes, instrument), Supervisor::now());
    let size = machine::ring_size();
    let line = ["trace", "--json", "--comm", "wl-p?ng", "--ring-size", &size];
    let mut command = command(&[&line, instrument.arguments].concat());
    command.env("RUST_LOG", "wakelat::collect=info").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("wakelat can be run");
    let output = child.stdout.take().expect("piped");
    let (sender, delivered) = channel();
    let reader = thread::spawn(move || sender.send(read(output)));
    let mut wakelat = Wakelat::from_child(child);
    wakelat.until_measuring();
    let (inner, begun) = (waits(&pipes, instrument), Instant::now());
    let early = delivered.recv_timeout(duration);
    if !matches!(early, Err(RecvTimeoutError::Timeout)) {
        panic!("wakelat ended too early: {:#?}", wakelat.end());
    }
    let (inner, took) = (waits(&pipes, instrument) - inner, begun.elapsed());
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    let (outer, supervisor) = (waits(&pipes, instrument) - outer, Supervisor::now() - supervisor);
    let delivered = delivered.recv().expect("the output ends when wakelat does");
    reader.join().expect("only reads").expect("received");
    assert!(ended.status.success(), "{ended:#?}");

    documents::assert_valid(&delivered.report);
    let report: Value = serde_json::from_str(&delivered.report).expect("one report");
    let terms = (instrument.coverage)(report["coverage"].clone());
    let late = late(&ended.stderr);
    println!(
        "\n  {} waits in {:.1} s, {:.0}/s; {} behind a later one, {late} reported; {terms:?}",
        delivered.waits,
        took.as_secs_f64(),
        inner as f64 / took.as_secs_f64(),
        delivered.behind,
    );
    // Nothing is lost, except what no instrument can see; and what a reader loses that other tasks keep from its CPU.
    let not_written = report["not_written"].as_u64().expect("a count");
    assert!(!is_alone || (terms.ring_buffer_full, not_written) == (0, 0), "{terms:?}, {not_written} not written");
    assert_eq!(terms.lost, 0, "{terms:?}");
    assert_eq!(delivered.waits + not_written, terms.measured, "each wait is written once");
    let unseen = supervisor.untraced(TASKS as usize);
    assert!(terms.unseen <= unseen, "{terms:?}; {unseen} may be unseen");
    let all = inner.saturating_sub(TASKS + unseen)..=outer + TASKS;
    let found = terms.measured + terms.ring_buffer_full;
    assert!(all.contains(&found), "{found} waits; expected {all:?}");
    // The order is that of time. A hypervisor may take the CPU from a program for longer than wakelat holds later records
    // back: from one program on each CPU for each time that wakelat reads the ring buffers. It does so every 20 ms, once
    // the first wait has ended and at the end; none of the ring buffers becomes a quarter full, if it has a CPU.
    let [first_ns, last_ns] = delivered.ended_ns;
    let reads = (last_ns - first_ns) / 20_000_000 + 2;
    assert!(delivered.behind <= late, "{} waits behind a later one, {late} reported", delivered.behind);
    assert!(
        !is_alone || delivered.behind <= reads * 2,
        "{} waits behind a later one in {reads} reads",
        delivered.behind
    );
    Ok(())
}
