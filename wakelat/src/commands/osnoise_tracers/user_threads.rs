//! Measures in user-space threads. Each CPU has a process of its own, because the kernel kills the whole
//! process if it violates a condition of the interface (Documentation/trace/timerlat-tracer.rst,
//! `User-space interface`).

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process_group, set_parent_process_death_signal, waitid,
};

use crate::config::{Priority, UserThreadConfig};
use wakelat_tracefs::TracefsMount;
use wakelat_tracefs::osnoise_tracers::{TracerSetup, thread_placement};

/// The priority that rtla gives the threads of this interface by default.
const DEFAULT_PRIORITY: Priority = Priority::Fifo(95);

/// The processes of a run. Dropping them kills them.
#[derive(Debug)]
pub struct MeasuringProcesses(Vec<MeasuringProcess>);

#[derive(Debug)]
struct MeasuringProcess {
    cpu: u32,
    child: Child,
    /// The socket on which the process reports that it is ready. The other end is its standard input.
    ready: UnixStream,
    ended: bool,
}

impl MeasuringProcesses {
    /// Starts a process on each of `cpus`. They are not ready yet.
    pub fn start(
        setup: &TracerSetup,
        load: Option<&str>,
        cpus: impl IntoIterator<Item = u32>,
        tracefs: &TracefsMount,
        proc: &Path,
        cgroup_v2: Option<&Path>,
    ) -> Result<Self> {
        // From here on, dropping `threads` on an error kills the processes that are already running.
        let mut threads = Self(Vec::new());
        for cpu in cpus {
            let fd = tracefs.root().join(format!("osnoise/per_cpu/cpu{cpu}/timerlat_fd"));
            if !fd.exists() {
                bail!("`--user-threads`: this kernel has no `{}`, which came in Linux 6.5", fd.display());
            }
            let priority = setup.priority.unwrap_or(DEFAULT_PRIORITY);
            let parent = std::process::id().to_string();
            let mut arguments: Vec<OsString> = vec!["timerlat-thread".into(), "--parent".into(), parent.into()];
            arguments.extend(["--cpu".into(), cpu.to_string().into()]);
            arguments.extend(["--priority".into(), priority.to_string().into(), "--fd".into(), fd.into_os_string()]);
            if let Some(load) = load {
                arguments.extend(["--load".into(), load.into()]);
            }
            let (ready, its) = UnixStream::pair().context("cannot create a socket")?;
            let child = Command::new("/proc/self/exe")
                .args(arguments)
                .stdin(Stdio::from(OwnedFd::from(its)))
                // In its own process group: Ctrl-C at the terminal must reach only the run, which ends the
                // processes itself.
                .process_group(0)
                .spawn()
                .context("cannot start a measuring process")?;
            let pid = child.id();
            threads.0.push(MeasuringProcess { cpu, child, ready, ended: false });
            if let Some(cgroup) = &setup.cgroup {
                thread_placement::join(pid, cgroup, proc, cgroup_v2)?;
            }
        }
        Ok(threads)
    }

    /// Waits until all processes measure.
    ///
    /// # Errors
    ///
    /// Fails if one of them exits before.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        for MeasuringProcess { cpu, child, ready, .. } in &mut self.0 {
            let length = ready.read(&mut [0; 1]).context("cannot read from a measuring process")?;
            if length == 0 {
                let status = child.wait().context("cannot wait for a measuring process")?;
                bail!("{}", exit_reason(*cpu, child.id(), status));
            }
        }
        Ok(())
    }

    /// The reasons of the processes that have ended since the last call.
    pub fn ended(&mut self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for process in self.0.iter_mut().filter(|process| !process.ended) {
            let pid = WaitId::Pid(Pid::from_child(&process.child));
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if waitid(pid, options).context("cannot get the status of a measuring process")?.is_none() {
                continue;
            }
            // Its load may still run, at its priority. Until it is waited for, no other process has its number.
            kill_group(&process.child);
            if let Some(status) = process.child.try_wait().context("cannot wait for a measuring process")? {
                process.ended = true;
                ended.push(exit_reason(process.cpu, process.child.id(), status));
            }
        }
        Ok(ended)
    }

    /// Whether all processes have ended.
    pub fn all_ended(&self) -> bool {
        self.0.iter().all(|process| process.ended)
    }
}

impl Drop for MeasuringProcesses {
    fn drop(&mut self) {
        for MeasuringProcess { child, .. } in self.0.iter_mut().filter(|process| !process.ended) {
            kill_group(child);
            _ = child.wait();
        }
    }
}

/// Kills a measuring process and the load that it has started.
fn kill_group(child: &Child) {
    // It does not matter whether they have already exited.
    _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn exit_reason(cpu: u32, pid: u32, status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => format!(
            "the measuring thread `{pid}` of CPU {cpu} was killed: the kernel does this if the thread leaves its CPU or the \
             tracer is stopped"
        ),
        Some(signal) => format!("the measuring thread `{pid}` of CPU {cpu} was terminated by signal {signal}"),
        None => format!("the measuring thread `{pid}` of CPU {cpu} failed; its error message is above"),
    }
}

/// Runs as a measuring thread: sets its CPU and priority, and reads the interface until it is closed. Runs
/// the load between two reads.
pub fn measure(thread: &UserThreadConfig) -> Result<()> {
    let UserThreadConfig { parent, cpu, priority, fd, load } = thread;
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot set the parent-death signal")?;
    // A parent that has already exited sends no signal (PR_SET_PDEATHSIG(2const)), but then this process
    // has another parent now.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().cast_unsigned() != *parent) {
        bail!("process `{parent}`, which started this measuring thread, has exited");
    }
    rustix::thread::set_name(&std::ffi::CString::new(format!("timerlatu/{cpu}"))?)
        .context("cannot set the thread name")?;
    thread_placement::pin([*cpu]).with_context(|| format!("cannot run on CPU `{cpu}`"))?;
    thread_placement::set_priority(0, *priority)?;
    let mut file = File::open(fd).with_context(|| format!("cannot open `{}`", fd.display()))?;
    // The first read starts the timer (`timerlat_fd_read`, kernel/trace/trace_osnoise.c, 6.5 to 7.2).
    rustix::io::write(io::stdin(), b"!").context("cannot report that the measuring thread is ready")?;
    let mut nothing = [0; 1];
    loop {
        // Returns when the timer has fired. The measurement goes to the tracer.
        match file.read(&mut nothing) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", fd.display())),
        }
        if let Some(load) = load {
            let ran = Command::new("sh").args(["-c", load]).stdin(Stdio::null()).status();
            ran.with_context(|| format!("`--user-load`: cannot run `{load}`"))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_its_run_exits() {
        // This process is not its own parent.
        let thread = UserThreadConfig {
            parent: std::process::id(),
            cpu: 0,
            priority: Priority::Other(0),
            fd: "/nonexistent".into(),
            load: None,
        };
        let error = measure(&thread).unwrap_err().to_string();
        assert!(error.contains("has exited"), "{error}");
        assert_eq!(rustix::process::parent_process_death_signal().unwrap(), Some(Signal::KILL));
        set_parent_process_death_signal(None).unwrap();
    }
}
