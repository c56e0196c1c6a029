//! Drops the privileges of a measuring process once everything that needs them is open.
//!
//! [`Sandbox::enter`] drops capabilities, sets `no_new_privs`, and restricts files (Landlock) and system calls
//! (seccomp). Descriptors that are open stay usable: maps, ring buffers, programs, output files. Capabilities and
//! Landlock restrict only the calling thread and the threads that it starts later, so the process has to enter before
//! it has a second thread.

#![deny(unsafe_code)]

mod capabilities;
mod files;
#[allow(unsafe_code, reason = "no library probes `bpf(2)`, or installs a seccomp filter with the flags needed here")]
mod kernel_calls;
mod launcher;
mod real_time;
mod syscall_filter;
mod syscall_list;

use std::{
    fs,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
pub use rustix::thread::CapabilitySet;

use self::files::Reachable;

pub use self::{
    kernel_calls::landlock_abi, launcher::Launcher, real_time::allow_real_time, syscall_filter::has_seccomp,
};

/// What a process may still do after [`Sandbox::enter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The capabilities to keep, if the process has them. `CAP_BPF` is added where the kernel requires it to read maps.
    pub capabilities: CapabilitySet,
    /// The files that can be opened for reading.
    pub files: ReadableFiles,
    /// Whether BPF programs can be attached again.
    pub attaches: bool,
    /// Whether perf events can be opened, by which BPF programs are attached to classic tracepoints. Keep
    /// `CAP_PERFMON` for those of the whole machine.
    pub opens_perf_events: bool,
    /// Whether connections can be accepted on sockets that are open and listen.
    pub accepts: bool,
    /// The TCP ports that connections can be made to, at any address. Before Linux 6.7, which has no Landlock for ports, to
    /// any port if there is one.
    pub connects_to: Vec<u16>,
    /// The process that can be sent signals.
    pub signals: Option<u32>,
    /// The child process that can be sent signals and waited for.
    pub child: Option<u32>,
    /// The directories in which regular files can be created, written, renamed and removed, also in those below. Missing
    /// ones are ignored. Without Landlock, every directory in which the user may write, if there is one.
    pub writes_in: Vec<PathBuf>,
    /// Whether other programs can be started. Everything except capabilities would restrict these, too, so it stays as it
    /// is.
    pub starts_programs: bool,
}

/// The files that can be opened for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadableFiles {
    /// These files, and those below these directories. Missing ones are ignored.
    Below(Vec<PathBuf>),
    /// Every file that the user may read, including `/proc/PID/maps` of processes that it may trace: Landlock forbids
    /// tracing every process outside of the sandbox (security/landlock/ptrace.c), so it is not used.
    All,
}

/// What is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restrictions {
    /// The capabilities that are left.
    pub capabilities: CapabilitySet,
    /// The version of Landlock's interface that restricts files; `None` if nothing does.
    pub landlock_abi: Option<i32>,
    /// Whether system calls are restricted.
    pub seccomp: bool,
}

impl Sandbox {
    /// The least: no file can be opened, and no other process reached.
    pub const EMPTY: Self = Self {
        capabilities: CapabilitySet::empty(),
        files: ReadableFiles::Below(Vec::new()),
        attaches: false,
        opens_perf_events: false,
        accepts: false,
        connects_to: Vec::new(),
        signals: None,
        child: None,
        writes_in: Vec::new(),
        starts_programs: false,
    };

    /// Restricts this process for the rest of its life. Leaves out what the kernel does not support: before Linux 5.13,
    /// or without `landlock` in `CONFIG_LSM`, any file that the user may read can be opened.
    ///
    /// # Errors
    /// If the process has several threads, or the kernel refuses a restriction that it supports.
    pub fn enter(&self) -> Result<Restrictions> {
        wait_for_single_thread()?;
        let kept = capabilities::kept(self.capabilities)?;
        if self.starts_programs {
            capabilities::drop_all_but(kept)?;
            return Ok(Restrictions { capabilities: kept, landlock_abi: None, seccomp: false });
        }
        // Before Landlock, which may forbid to read what it depends on.
        let seccomp = has_seccomp();
        capabilities::deny_new()?;
        let landlock_abi = match &self.files {
            ReadableFiles::Below(paths) => files::restrict(&Reachable {
                reads: paths,
                executes: &[],
                writes_in: &self.writes_in,
                connects_to: &self.connects_to,
                signals: self.signals.is_some() || self.child.is_some(),
            })?,
            ReadableFiles::All => None,
        };
        capabilities::drop_all_but(kept)?;
        if seccomp {
            syscall_filter::install(self)?;
        }
        Ok(Restrictions { capabilities: kept, landlock_abi, seccomp })
    }
}

/// Waits until the calling thread is the only one. A thread that has been joined stays in `/proc` until the kernel has
/// released it.
fn wait_for_single_thread() -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_micros(100);
    let deadline = Instant::now() + LIMIT;
    loop {
        let threads = fs::read_dir("/proc/self/task").context("cannot read `/proc/self/task`")?.count();
        if threads == 1 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("cannot drop privileges: they belong to threads, and this process already has `{threads}`");
        }
        // It may have to run on this CPU, and with a lower priority than this thread: yielding would not suffice.
        sleep(PAUSE);
    }
}
