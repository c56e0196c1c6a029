//! One command under load, and the machine meanwhile.

use std::{
    fmt, fs,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use wakelat_tests::{
    agreement::{assert_agrees, assert_checks},
    kernel_log::KernelLog,
    machine,
    procfs::TaskStats,
    suite::Skip,
    wakelat::Wakelat,
    workload::{Pipe, Staged, Workload},
};

/// How long a command may take beyond what it measures for, to load, to work off what is left and to print; generous, as an
/// emulator may be running the kernel.
const PATIENCE: Duration = Duration::from_secs(150);

/// How long a pipe may be at rest. The kernel calls a CPU locked up on which nothing is scheduled for 20 s
/// (`get_softlockup_thresh`, kernel/watchdog.c).
const REST: Duration = Duration::from_secs(10);

/// How often the pipes are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is said how far they are, so that a machine that goes on is told from one that does not.
const SAY: Duration = Duration::from_secs(60);

/// What has the kernel watch for CPUs that are locked up, tasks that hang and stalls of RCU, and what to write there.
const WATCHDOGS: [(&str, &str); 4] = [
    ("/proc/sys/kernel/soft_watchdog", "1"),
    ("/proc/sys/kernel/watchdog_thresh", "10"),
    ("/proc/sys/kernel/hung_task_timeout_secs", "30"),
    ("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress", "0"),
];

/// For how long each command measures: s.
///
/// # Panics
/// Where it is not said.
pub fn seconds() -> u64 {
    let seconds = std::env::var("WAKELAT_SOAK").ok().and_then(|text| text.parse().ok());
    seconds.expect("run by `cargo xtask vm --soak`, which sets WAKELAT_SOAK to a number of seconds")
}

/// The load, at work.
pub struct Run {
    pipes: [Pulse; 2],
    log: KernelLog,
}

/// What became of a command.
pub struct Measured {
    status: ExitStatus,
    took: Duration,
    /// Its last document that tells of a window.
    document: Option<String>,
    /// Bytes that each pipe has handed on.
    handed: [u64; 2],
    rested: Duration,
    reports: Vec<String>,
}

impl Run {
    /// Starts the load and the watchdogs.
    ///
    /// # Errors
    /// Where there is one CPU.
    pub fn begin() -> Result<Self, Skip> {
        let cpus = machine::two_cpus()?;
        for (file, value) in WATCHDOGS {
            fs::write(file, value).unwrap_or_else(|error| panic!("`{value}` to `{file}`: {error}"));
        }
        Ok(Self { log: KernelLog::from_now(), pipes: cpus.map(Pulse::on) })
    }

    /// Runs a command that this kernel does not allow.
    pub fn refused(command: Command, words: &[&str]) {
        Wakelat::start(command).end().assert_refused(1, words);
        println!("\n  refused, as this kernel's ring buffer may freeze the machine");
    }

    /// Runs `command` to its end, and looks at the pipes meanwhile.
    ///
    /// # Panics
    /// If a pipe stops, or the command does not come back.
    pub fn measure(mut self, mut command: Command) -> Measured {
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let documents = documents(child.stdout.take().expect("piped"));
        let limit = Duration::from_secs(seconds()) + PATIENCE;
        let mut said = begun;
        let mut document = None;
        loop {
            match documents.recv_timeout(LOOK) {
                Ok(later) => document = Some(later),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.pipes.iter_mut().for_each(Pulse::feel);
            if said.elapsed() >= SAY {
                said = Instant::now();
                println!("\n  after {} s: {:?} bytes handed on", begun.elapsed().as_secs(), self.handed());
            }
            if begun.elapsed() > limit {
                give_up(&mut child, limit, &self.log.reports());
            }
        }
        let status = child.wait().expect("a child can be waited for");
        self.pipes.iter_mut().for_each(Pulse::feel);
        let rested = self.pipes.iter().map(|pipe| pipe.rested).max().unwrap_or_default();
        let (handed, reports) = (self.handed(), self.log.reports());
        let measured = Measured { status, took: begun.elapsed(), document, handed, rested, reports };
        println!("\n  {measured}");
        measured
    }

    fn handed(&self) -> [u64; 2] {
        self.pipes.each_ref().map(|pipe| pipe.handed)
    }
}

fn give_up(child: &mut Child, limit: Duration, reports: &[String]) -> ! {
    let _ = child.kill();
    panic!("not back after {limit:?}; the kernel's reports: {reports:?}")
}

/// The documents of a command that tell of a window, as they come. What else it prints is read and forgotten.
fn documents(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, documents) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // There may be a line for each switch.
            if line.contains(r#""duration_ns""#) {
                let _ = sender.send(line.into_owned());
            }
        }
    });
    documents
}

/// How long the window of a document was: ns.
fn window_of(document: &str) -> Option<u64> {
    let document: Value = serde_json::from_str(document).ok()?;
    // The tracers' window is what they recorded.
    [&document["duration_ns"], &document["coverage"]["duration_ns"]].into_iter().find_map(Value::as_u64)
}

impl Measured {
    /// Asserts of `verify` that all that it compared agrees, which it says with the code `agreed`; of lengths as far as this machine's
    /// time allows.
    ///
    /// # Panics
    /// If it is not so.
    pub fn assert_verified(&self, agreed: i32) {
        const DISAGREED: i32 = 3;
        self.assert_code(&[agreed, DISAGREED]);
        let document = serde_json::from_str(self.document.as_deref().unwrap_or_default());
        let document: Value = document.unwrap_or_else(|error| panic!("{error}: {self}"));
        match (agreed, self.status.code()) {
            (0, Some(code)) => assert_agrees(code, &document),
            _ => assert_checks(&document),
        }
    }

    /// Asserts that the command ended with one of `codes`, and the kernel had nothing to report.
    ///
    /// # Panics
    /// If it is not so.
    pub fn assert_code(&self, codes: &[i32]) {
        assert!(self.status.code().is_some_and(|code| codes.contains(&code)), "{self}: {:?}", self.document);
        assert!(self.reports.is_empty(), "{self}");
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, took, document, handed, rested, reports } = self;
        write!(f, "{status} after {:.1} s, ", took.as_secs_f64())?;
        if let Some(ns) = document.as_deref().and_then(window_of) {
            write!(f, "window {:.3} s, ", ns as f64 / 1e9)?;
        }
        write!(f, "{handed:?} bytes handed on, at rest for at most {:.1} s, ", rested.as_secs_f64())?;
        if reports.is_empty() { f.write_str("no report of the kernel") } else { write!(f, "the kernel: {reports:?}") }
    }
}

/// A pipe at work, and whether it goes on.
struct Pulse {
    load: Staged,
    cpu: usize,
    at_first: u64,
    handed: u64,
    felt: Instant,
    rested: Duration,
}

impl Pulse {
    fn on(cpu: usize) -> Self {
        let mut load = Workload::Pipe(Pipe { cpu }).stage();
        let at_first = blocked(&load);
        load.begin();
        Self { load, cpu, at_first, handed: 0, felt: Instant::now(), rested: Duration::ZERO }
    }

    /// Each byte is read by a task that had blocked for it.
    fn feel(&mut self) {
        let handed = blocked(&self.load) - self.at_first;
        if handed > self.handed {
            (self.handed, self.felt) = (handed, Instant::now());
            return;
        }
        self.rested = self.rested.max(self.felt.elapsed());
        assert!(self.felt.elapsed() < REST, "the pipe of CPU {} has been at rest for {REST:?}", self.cpu);
    }
}

/// How often the tasks of a pipe have blocked, by the kernel's account.
fn blocked(load: &Staged) -> u64 {
    ["wl-ping", "wl-pong"].iter().map(|name| TaskStats::of(load.tid(name)).voluntary).sum()
}
