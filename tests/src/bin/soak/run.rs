//! Runs one command under load, and observes the machine meanwhile.

use std::{
    fmt, fs,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, TryRecvError, channel},
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
    task::TaskPlacement,
    wakelat::Wakelat,
    workload::{Pipe, Staged, Workload},
};

/// How long a command may take in addition to measuring: to load programs, to work off the backlog and
/// to print; generous, because the kernel may run in an emulator.
const PATIENCE: Duration = Duration::from_secs(150);

/// How long a pipe may make no progress. The kernel reports a lockup of a CPU on which nothing has been
/// scheduled for 20 s (`get_softlockup_thresh`, kernel/watchdog.c).
const MAX_STALL: Duration = Duration::from_secs(10);

/// Interval between two checks of the pipes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the progress of the pipes is printed, to distinguish a slow machine from a stuck one.
const PRINT_INTERVAL: Duration = Duration::from_secs(60);

/// Files and values that make the kernel watch for locked-up CPUs, hung tasks and stalls of RCU.
const WATCHDOGS: [(&str, &str); 4] = [
    ("/proc/sys/kernel/soft_watchdog", "1"),
    ("/proc/sys/kernel/watchdog_thresh", "10"),
    ("/proc/sys/kernel/hung_task_timeout_secs", "30"),
    ("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress", "0"),
];

/// How long each command measures: s.
pub fn seconds() -> u64 {
    let seconds = std::env::var("WAKELAT_SOAK").ok().and_then(|text| text.parse().ok());
    seconds.expect("run by `cargo xtask vm --soak`, which sets WAKELAT_SOAK to a number of seconds")
}

/// The running load.
pub struct Run {
    pipes: [Pulse; 2],
    log: KernelLog,
}

/// The result of a command.
pub struct Measured {
    /// Its arguments.
    name: String,
    status: ExitStatus,
    took: Duration,
    /// The last document that covers a window.
    document: Option<String>,
    /// Number of bytes that each pipe has transferred.
    transferred: [u64; 2],
    longest_stall: Duration,
    reports: Vec<String>,
}

impl Run {
    /// Starts the load and the watchdogs.
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

    /// Runs `command` to its end, and checks the pipes meanwhile.
    pub fn measure(self, command: Command) -> Measured {
        self.measure_at_once([command]).pop().expect("one result for each command")
    }

    /// Runs `commands` at the same time, each to its end, and checks the pipes meanwhile. The results are in the order
    /// of the commands.
    pub fn measure_at_once(mut self, commands: impl IntoIterator<Item = Command>) -> Vec<Measured> {
        let begun = Instant::now();
        let mut running: Vec<_> = commands.into_iter().map(Running::start).collect();
        let patience = PATIENCE * running.len().try_into().expect("a few commands");
        let limit = Duration::from_secs(seconds()) + patience;
        let mut printed = begun;
        while running.iter().any(|command| command.ended.is_none()) {
            thread::sleep(CHECK_INTERVAL);
            self.pipes.iter_mut().for_each(Pulse::check);
            running.iter_mut().for_each(Running::check);
            if printed.elapsed() >= PRINT_INTERVAL {
                printed = Instant::now();
                println!("\n  after {} s: {:?} bytes transferred", begun.elapsed().as_secs(), self.transferred());
            }
            if begun.elapsed() > limit {
                give_up(&mut running, limit, &self.log.reports());
            }
        }
        let longest_stall = self.pipes.iter().map(|pipe| pipe.longest_stall).max().unwrap_or_default();
        let (transferred, reports) = (self.transferred(), self.log.reports());
        let measured = running.into_iter().map(|command| {
            let (status, took) = command.ended.expect("each command has ended");
            let reports = reports.clone();
            Measured {
                name: command.name,
                status,
                took,
                document: command.document,
                transferred,
                longest_stall,
                reports,
            }
        });
        let measured: Vec<_> = measured.collect();
        for measured in &measured {
            println!("\n  {measured}");
            if let Some(document) = &measured.document {
                wakelat_tests::documents::assert_valid(&format!("{document}\n"));
            }
        }
        measured
    }

    fn transferred(&self) -> [u64; 2] {
        self.pipes.each_ref().map(|pipe| pipe.transferred)
    }
}

/// A command that was started.
struct Running {
    name: String,
    begun: Instant,
    child: Child,
    documents: Receiver<String>,
    /// The last document that covers a window.
    document: Option<String>,
    /// How the command ended, and after how long.
    ended: Option<(ExitStatus, Duration)>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let name: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        let name = name.join(" ");
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let documents = documents(child.stdout.take().expect("piped"));
        Self { name, begun, child, documents, document: None, ended: None }
    }

    /// Takes the documents that have arrived, and how the command ended.
    fn check(&mut self) {
        while self.ended.is_none() {
            match self.documents.try_recv() {
                Ok(later) => self.document = Some(later),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    let status = self.child.wait().expect("a child can be waited for");
                    self.ended = Some((status, self.begun.elapsed()));
                }
            }
        }
    }
}

fn give_up(running: &mut [Running], limit: Duration, reports: &[String]) -> ! {
    let late = running.iter_mut().filter(|command| command.ended.is_none());
    let names: Vec<_> = late.map(|command| (command.child.kill(), &*command.name).1).collect();
    panic!("still running after {limit:?}: {names:?}; the kernel's reports: {reports:?}")
}

/// The documents of a command that cover a window, as they arrive. Other output is read and discarded.
fn documents(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, documents) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // Skips the other lines: there may be one for each switch.
            if line.contains(r#""duration_ns""#) {
                let _ = sender.send(line.into_owned());
            }
        }
    });
    documents
}

/// Length of the window of a document: ns.
fn window_of(document: &str) -> Option<u64> {
    let document: Value = serde_json::from_str(document).ok()?;
    // The window of the tracers is what they recorded.
    [&document["duration_ns"], &document["coverage"]["duration_ns"]].into_iter().find_map(Value::as_u64)
}

impl Measured {
    /// Asserts that everything that `verify` compared agrees, which it reports with the exit code
    /// `agreed`; lengths only as far as this machine's time allows.
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

    /// Asserts that the command exited with one of `codes`, that its window was not longer than it should be, and that
    /// the kernel reported nothing.
    pub fn assert_code(&self, codes: &[i32]) {
        assert!(self.status.code().is_some_and(|code| codes.contains(&code)), "{self}: {:?}", self.document);
        let requested = Duration::from_secs(seconds());
        // `verify` ends two instruments, one after the other.
        let longest_ns = (requested + Duration::from_millis(500)).as_nanos();
        assert!(self.window_ns().is_none_or(|ns| u128::from(ns) <= longest_ns), "{self}");
        assert!(self.reports.is_empty(), "{self}");
    }

    /// The length of the last window that the command reported: ns.
    fn window_ns(&self) -> Option<u64> {
        self.document.as_deref().and_then(window_of)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, status, took, transferred, longest_stall, reports, .. } = self;
        write!(f, "`{name}`: {status} after {:.1} s, ", took.as_secs_f64())?;
        if let Some(ns) = self.window_ns() {
            write!(f, "window {:.3} s, ", ns as f64 / 1e9)?;
        }
        write!(f, "{transferred:?} bytes transferred, stalled for at most {:.1} s, ", longest_stall.as_secs_f64())?;
        if reports.is_empty() { f.write_str("no kernel report") } else { write!(f, "the kernel: {reports:?}") }
    }
}

/// A running pipe, and whether it makes progress.
struct Pulse {
    load: Staged,
    cpu: usize,
    blocked_before: u64,
    transferred: u64,
    last_progress: Instant,
    longest_stall: Duration,
}

impl Pulse {
    fn on(cpu: usize) -> Self {
        let mut load = Workload::Pipe(Pipe { place: TaskPlacement::other(cpu) }).stage();
        let blocked_before = blocked(&load);
        load.begin();
        Self { load, cpu, blocked_before, transferred: 0, last_progress: Instant::now(), longest_stall: Duration::ZERO }
    }

    /// Checks for progress: each byte is read by a task that had blocked for it.
    fn check(&mut self) {
        let transferred = blocked(&self.load) - self.blocked_before;
        if transferred > self.transferred {
            (self.transferred, self.last_progress) = (transferred, Instant::now());
            return;
        }
        self.longest_stall = self.longest_stall.max(self.last_progress.elapsed());
        assert!(
            self.last_progress.elapsed() < MAX_STALL,
            "the pipe of CPU {} has made no progress for {MAX_STALL:?}",
            self.cpu
        );
    }
}

/// How often the tasks of a pipe have blocked, by the kernel's accounting.
fn blocked(load: &Staged) -> u64 {
    ["wl-ping", "wl-pong"].iter().map(|name| TaskStats::of(load.tid(name)).voluntary).sum()
}
