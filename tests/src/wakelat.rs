//! The `wakelat` binary, run as a user runs it.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::JoinHandle,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Gid, Pid, Uid, setgid, setgroups, setuid},
};

use crate::{
    documents, machine,
    report::{JsonReport, JsonWait},
    skip::{Skip, skip_test},
};

/// Timeout for anything that should happen at once; generous, because the kernel may run in an emulator.
const TIMEOUT: Duration = Duration::from_secs(150);

/// What `wakelat` prints on standard error once its programs are attached.
const MEASURING: &str = "wakelat: measuring";

/// How programs are attached and where waits are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachCase {
    /// As `tp_btf`.
    Btf,
    /// As `raw_tp`.
    Raw,
    /// To classic tracepoints.
    Classic,
    /// As `tp_btf`, with a sample of each wait even if the kernel could aggregate.
    BtfSamples,
}

impl AttachCase {
    /// The cases that read the kernel's own structures.
    pub const TYPES: [Self; 2] = [Self::Btf, Self::Raw];

    /// Every way of attaching.
    pub const ALL: [Self; 3] = [Self::Btf, Self::Raw, Self::Classic];

    /// The cases that read the kernel's own structures, and one that aggregates in user space: for
    /// tests whose question the kernel can answer by aggregating.
    pub const MODES: [Self; 3] = [Self::Btf, Self::Raw, Self::BtfSamples];

    /// Part of the name of a test, and, except for the last case, the value of `--attach`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Btf => "btf",
            Self::Raw => "raw",
            Self::Classic => "classic",
            Self::BtfSamples => "btf_samples",
        }
    }

    /// The arguments for `hist`.
    pub const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Btf => &["--attach", "btf"],
            Self::Raw => &["--attach", "raw"],
            Self::Classic => &["--attach", "classic"],
            Self::BtfSamples => &["--attach", "btf", "--mode", "samples"],
        }
    }
}

/// The binary: `$WAKELAT`, or the one next to the directory of the test program, where cargo puts it.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("WAKELAT").map_or_else(
        || {
            let test = std::env::current_exe().expect("a process knows its binary");
            test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps").join("wakelat")
        },
        PathBuf::from,
    );
    let hint = "build it first with `cargo build -p wakelat`, or name it in WAKELAT";
    assert!(path.is_file(), "no wakelat at `{}`: {hint}", path.display());
    path
}

/// `wakelat` with `arguments`, in English and with UTF-8, whatever the caller's locale.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env("LC_ALL", "C.UTF-8").env_remove("RUST_LOG").stdin(Stdio::null());
    let orphaned = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from);
    // SAFETY: one system call between fork and exec, no allocation.
    unsafe { command.pre_exec(orphaned) };
    command
}

/// Makes `command` run as an ordinary user without any capability.
pub fn as_nobody(command: &mut Command) {
    const NOBODY: u32 = 65534;
    let drop_all = || {
        setgroups(&[])?;
        setgid(Gid::from_raw(NOBODY))?;
        setuid(Uid::from_raw(NOBODY))?;
        Ok(())
    };
    // SAFETY: three system calls, no allocation.
    unsafe { command.pre_exec(drop_all) };
}

/// A running `wakelat`, killed when dropped.
pub struct Wakelat {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    /// The lines of standard error; none if it is not a pipe.
    lines: Option<Receiver<String>>,
    stderr: String,
}

/// How a `wakelat` ended.
#[derive(Debug)]
pub struct RunOutput {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Wakelat {
    /// Starts `wakelat hist --json` with `arguments`, and returns once it measures.
    pub fn hist(attach: AttachCase, arguments: &[&str]) -> Self {
        let mut all = vec!["hist", "--json"];
        all.extend(attach.arguments());
        all.extend(arguments);
        Self::measuring(command(&all))
    }

    /// Starts `command` and returns once it measures.
    pub fn measuring(command: Command) -> Self {
        let mut wakelat = Self::start(command);
        wakelat.until_measuring();
        wakelat
    }

    /// Starts `command` with both outputs in pipes, which are read to their end so that it never blocks on them.
    pub fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self::from_child(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Takes over a started child. Its outputs are read to their end if they are pipes.
    pub fn from_child(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        let lines = child.stderr.take().map(|pipe| {
            let (sender, lines) = channel();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
            lines
        });
        Self { child, stdout, lines, stderr: String::new() }
    }

    /// Waits until `wakelat` reports that it measures.
    ///
    /// # Panics
    /// If it ends before, or does not report it in time.
    pub fn until_measuring(&mut self) {
        while let Some(line) = self.next_line() {
            if line.trim_end() == MEASURING {
                return;
            }
        }
        if machine::ring_buffer_may_sleep() && self.stderr.contains("PREEMPT_RT") {
            // The suite `busy` asserts that wakelat refuses to run here.
            skip_test(Skip::because("the BPF ring buffer of this kernel can freeze the machine"));
        }
        panic!("wakelat ended ({:?}) before it measured:\n{}", self.child.wait(), self.stderr);
    }

    /// Waits until a line of standard error contains `text`.
    ///
    /// # Panics
    /// If `wakelat` ends before, or does not print it in time.
    pub fn until_says(&mut self, text: &str) {
        while let Some(line) = self.next_line() {
            if line.contains(text) {
                return;
            }
        }
        panic!("wakelat ended ({:?}) without `{text}`:\n{}", self.child.wait(), self.stderr);
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal` to the process.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("wakelat is running");
    }

    /// Stops the process (SIGSTOP) and returns once all of its threads are stopped.
    pub fn stall(&self) {
        self.signal(Signal::SIGSTOP);
        crate::workload::until("wakelat is stopped", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("wakelat is running");
            tasks.flatten().all(|task| {
                let tid = task.file_name().to_string_lossy().parse().expect("a thread id");
                crate::procfs::state(tid).is_none_or(|state| state == 'T')
            })
        });
    }

    /// Waits until the process ends.
    ///
    /// # Panics
    /// If a document on its standard output is not valid by its schema.
    pub fn end(mut self) -> RunOutput {
        // Standard error closes when the process ends, so that the wait for it is short.
        while self.next_line().is_some() {}
        let status = self.child.wait().expect("a child can be waited for");
        let stdout = self.stdout.take().map_or_else(String::new, |reader| reader.join().expect("only reads"));
        documents::assert_valid(&stdout);
        RunOutput { status, stdout, stderr: std::mem::take(&mut self.stderr) }
    }

    /// Ends the window as Ctrl-C does, and returns the reports.
    ///
    /// # Panics
    /// If the run fails, or a report contradicts itself.
    pub fn reports(self) -> Vec<JsonReport> {
        self.signal(Signal::SIGINT);
        self.end().reports()
    }

    /// Ends the window as Ctrl-C does, and returns its only report.
    ///
    /// # Panics
    /// If the run fails, if the report contradicts itself, or if there is not exactly one.
    pub fn report(self) -> JsonReport {
        let mut reports = self.reports();
        assert_eq!(reports.len(), 1, "one window, one report");
        reports.remove(0)
    }

    /// Ends `trace --json` as Ctrl-C does, and returns its waits.
    pub fn waits(self) -> Vec<JsonWait> {
        self.signal(Signal::SIGINT);
        let ended = self.end();
        assert!(ended.status.success(), "{ended:#?}");
        JsonWait::parse_all(&ended.stdout)
    }

    fn next_line(&mut self) -> Option<String> {
        match self.lines.as_ref()?.recv_timeout(TIMEOUT) {
            Ok(line) => {
                self.stderr.push_str(&line);
                self.stderr.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("wakelat has been silent for {TIMEOUT:?}:\n{}", self.stderr),
        }
    }
}

impl RunOutput {
    /// The reports on standard output.
    ///
    /// # Panics
    /// If the run failed, or a report contradicts itself.
    pub fn reports(&self) -> Vec<JsonReport> {
        assert!(self.status.success(), "{self:#?}");
        JsonReport::parse_all(&self.stdout)
    }

    /// Asserts that the process exited with `code`, and that standard error contains every one of `words`.
    pub fn assert_refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in {self:#?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
    }

    /// The signal that killed the process, if any.
    pub fn killed_by(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl Drop for Wakelat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
