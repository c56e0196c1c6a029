//! A process that echoes each byte that it reads, and changes its name or TID if a test asks for it.

use std::{
    ffi::{CStr, CString},
    io::{self, PipeReader, PipeWriter, pipe},
    os::fd::{AsFd as _, AsRawFd as _},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::Pid,
};

use crate::{
    byte::{put_byte, take_byte},
    procfs,
    skip::Skip,
    tool,
    workload::until,
};

/// Bytes that request an action before they are echoed.
const RENAME: u8 = b'n';
const EXEC: u8 = b'x';

/// The process. Dropping it kills and reaps it, which frees its PID.
pub struct Echo {
    tid: u32,
    input: PipeWriter,
    output: PipeReader,
    /// Path of the program that it executes.
    program: String,
}

impl Echo {
    /// Starts a process named `name`, which calls itself `later` once it is [renamed](Self::rename). If
    /// `tid` is given, the process gets that number, which must be free. It inherits the CPU and policy
    /// of its creator. Skips the test if there is no program to execute.
    pub fn start(name: &CStr, later: &CStr, tid: Option<u32>) -> Result<Self, Skip> {
        let program = tool::find("cat", "coreutils")?;
        let path = CString::new(program.as_str()).expect("a path has no NUL");
        let arguments = [path.as_ptr(), std::ptr::null()];
        let (their_input, input) = pipe().expect("no file descriptors left");
        let (output, their_output) = pipe().expect("no file descriptors left");
        let tid = clone(tid).unwrap_or_else(|| {
            // SAFETY: only system calls, on data that existed before the fork. Nothing is allocated.
            unsafe {
                libc::close(input.as_raw_fd());
                libc::close(output.as_raw_fd());
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                libc::dup2(their_input.as_raw_fd(), 0);
                libc::dup2(their_output.as_raw_fd(), 1);
                let mut byte = 0u8;
                while libc::read(0, (&raw mut byte).cast(), 1) == 1 {
                    if byte == EXEC {
                        libc::execv(path.as_ptr(), arguments.as_ptr());
                    }
                    if byte == RENAME {
                        libc::prctl(libc::PR_SET_NAME, later.as_ptr());
                    }
                    libc::write(1, (&raw const byte).cast(), 1);
                }
                libc::_exit(0)
            }
        });
        Ok(Self { tid, input, output, program })
    }

    /// The TID of the process.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Wakes the process, and is woken by it.
    pub fn echo(&self) {
        put_byte(self.input.as_fd());
        take_byte(self.output.as_fd());
    }

    /// Makes the process rename itself.
    pub fn rename(&self) {
        nix::unistd::write(&self.input, &[RENAME]).expect("the process reads the pipe");
        take_byte(self.output.as_fd());
    }

    /// Makes the process execute another program that echoes as well; returns its new name.
    pub fn exec(&self) -> &str {
        nix::unistd::write(&self.input, &[EXEC]).expect("the process reads the pipe");
        let (_, name) = self.program.rsplit_once('/').expect("a path");
        until("the program has been started", || procfs::pids_named(name).contains(&self.tid));
        name
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.tid as i32);
        _ = kill(pid, Signal::SIGKILL);
        _ = waitpid(pid, None);
    }
}

/// Forks, with the number `tid` if one is given (`clone3()`, since 5.5). Returns the TID in the parent,
/// and none in the child.
fn clone(tid: Option<u32>) -> Option<u32> {
    let wanted = tid.unwrap_or(0) as libc::pid_t;
    // SAFETY: plain data, in which 0 means unused.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if tid.is_some() {
        arguments.set_tid = &raw const wanted as u64;
        arguments.set_tid_size = 1;
    }
    // SAFETY: a fork. The child has a copy of this thread's memory, and its caller makes only system calls.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of_val(&arguments)) };
    assert!(result >= 0, "a process with the number {tid:?}: {}", io::Error::last_os_error());
    (result > 0).then_some(result as u32)
}
