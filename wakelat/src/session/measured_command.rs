//! The command that a run measures: `wakelat hist -- COMMAND`.
//!
//! It has to exist before the run drops its privileges, and must not begin before the window: a process of wakelat's own
//! stops itself, and becomes the command when it is continued ([`crate::commands::launch`]). If it cannot, it writes the
//! error to a pipe ([`super::exec_failure`]).

use std::{
    env,
    error::Error,
    ffi::{OsStr, OsString},
    fmt, fs,
    future::pending,
    io::{self, IsTerminal as _},
    os::fd::{AsRawFd as _, OwnedFd},
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    fs::{Access, access},
    io::{Errno, FdFlags, fcntl_setfd, read},
    process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::StopReason;

/// The command of a run cannot be started: nothing is measured.
#[derive(Debug)]
pub struct CommandNotStarted {
    program: OsString,
    /// Why it is not found, or cannot be executed.
    cause: io::Error,
}

impl fmt::Display for CommandNotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot run `{}`: {}", self.program.display(), self.cause)
    }
}

impl Error for CommandNotStarted {}

impl CommandNotStarted {
    /// The exit code, as a shell has it.
    pub fn exit_code(&self) -> u8 {
        if self.cause.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// Checks that a program can be found as `execvp` finds it, in the directories of `path` unless its name has a slash.
fn find(program: &OsStr, path: &OsStr) -> io::Result<()> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return check_executable(Path::new(program));
    }
    let mut cause: io::Error = Errno::NOENT.into();
    for directory in env::split_paths(path) {
        match check_executable(&directory.join(program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => cause = error,
            Err(_) => {}
        }
    }
    Err(cause)
}

fn check_executable(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(Errno::ACCESS.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

/// The command of a run, which has not begun until [`Self::begin`].
pub struct MeasuredCommand {
    program: OsString,
    child: Child,
    pid: Pid,
    /// Readable when the process has become the command, or has failed to: then it has the error.
    failure: AsyncFd<OwnedFd>,
    /// Readable when the process has ended.
    ended: AsyncFd<OwnedFd>,
}

impl MeasuredCommand {
    /// Starts the process that becomes `command`, and waits until it has stopped. `is_hidden`: a view draws on the
    /// terminal, which the command then neither reads nor writes.
    ///
    /// # Errors
    /// If it cannot be started; [`CommandNotStarted`] if there is no such program.
    pub fn hold(command: &[OsString], is_hidden: bool) -> Result<Self> {
        let program = command.first().context("no command is given")?;
        // As the C library has it if the variable is not set.
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/bin:/usr/bin".into());
        find(program, &path).map_err(|cause| CommandNotStarted { program: program.clone(), cause })?;
        let own = std::env::current_exe().context("cannot find the program of this process")?;
        let parent = std::process::id().to_string();
        let pipe = "cannot make a pipe to the command's process";
        let (failure, of_process) = io::pipe().context(pipe)?;
        // The process inherits it.
        fcntl_setfd(&of_process, FdFlags::empty()).context(pipe)?;
        let failure_fd = of_process.as_raw_fd().to_string();
        let mut launch = Command::new(own);
        launch.args(["launch", "--parent", &parent, "--failure-fd", &failure_fd, "--"]).args(command);
        if is_hidden {
            launch.stdin(Stdio::null()).stdout(Stdio::null());
            if io::stderr().is_terminal() {
                launch.stderr(Stdio::null());
            }
        }
        let child = launch.spawn();
        let child = child.context("cannot start a process for the command")?;
        drop(of_process);
        let pid = Pid::from_child(&child);
        let held = waitpid(Some(pid), WaitOptions::UNTRACED).context("cannot wait for the command's process")?;
        if !held.is_some_and(|(_, status)| status.stopped()) {
            bail!("the command's process has ended before the command began");
        }
        let ended = pidfd_open(pid, PidfdFlags::NONBLOCK).or_else(|_| pidfd_open(pid, PidfdFlags::empty()));
        let ended = ended.context("cannot watch the command's process")?;
        let watch = |fd: OwnedFd| {
            // SAFETY: an `OwnedFd` is the same open file descriptor for as long as it lives.
            let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
            fd.context("cannot watch the command's process")
        };
        let (ended, failure) = (watch(ended)?, watch(failure.into())?);
        Ok(Self { program: program.clone(), child, pid, failure, ended })
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lets the command begin, and waits until its process has become the command.
    ///
    /// # Errors
    /// If the process has ended; [`CommandNotStarted`] if the kernel does not execute the program.
    pub async fn begin(&self) -> Result<()> {
        kill_process(self.pid, Signal::CONT).context("cannot begin the command")?;
        let failed = "cannot read whether the command has begun";
        self.failure.readable().await.context(failed)?.retain_ready();
        let mut errno = [0; size_of::<i32>()];
        if read(self.failure.get_ref(), &mut errno).context(failed)? < errno.len() {
            return Ok(());
        }
        let cause = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
        Err(CommandNotStarted { program: self.program.clone(), cause }.into())
    }

    /// Waits until the command has ended.
    pub async fn ended(command: Option<&Self>) {
        match command {
            // The descriptor cannot become unreadable again, so it is never cleared.
            Some(command) => _ = command.ended.readable().await.map(|mut ready| ready.retain_ready()),
            None => pending().await,
        }
    }

    /// Waits until the command has ended, after a run that stopped for this reason, and returns the reason for the end of
    /// both: with the exit code of the command as a shell has it, which is 128 and the signal's number if a signal ended it.
    /// If the window has ended, the command keeps running; a signal or a threshold also terminates the command.
    ///
    /// # Errors
    /// If the kernel does not report its end.
    pub fn end(mut self, stop: StopReason) -> Result<StopReason> {
        if matches!(stop, StopReason::Signalled | StopReason::Threshold) {
            // It may just have ended.
            _ = kill_process(self.pid, Signal::TERM);
        }
        let status = self.child.wait().context("cannot wait for the command")?;
        Ok(if stop == StopReason::Threshold { stop } else { StopReason::CommandEnded(exit_code(status)) })
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_found_as_by_execvp() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        for (name, mode) in [("bin/run", 0o755), ("data", 0o644)] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let directories = env::join_paths([directory.path(), &path("bin")]).unwrap();
        let kind = |program: &Path| find(program.as_os_str(), &directories).err().map(|error| error.kind());
        for found in [Path::new("run"), &path("bin/run")] {
            assert_eq!(kind(found), None, "{}", found.display());
        }
        for missing in [Path::new("none"), Path::new(""), &path("run")] {
            assert_eq!(kind(missing), Some(io::ErrorKind::NotFound), "{}", missing.display());
        }
        for refused in [Path::new("data"), Path::new("bin"), &path("data")] {
            assert_eq!(kind(refused), Some(io::ErrorKind::PermissionDenied), "{}", refused.display());
        }
        let error = |errno: Errno| CommandNotStarted { program: "none".into(), cause: errno.into() };
        let missing = error(Errno::NOENT);
        assert!(missing.to_string().starts_with("cannot run `none`: No such file or directory"), "{missing}");
        let codes = [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC].map(|errno| error(errno).exit_code());
        assert_eq!(codes, [127, 126, 126]);
    }
}
