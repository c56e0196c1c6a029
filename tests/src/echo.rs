//! A process that gives back each byte that it is given, and has another name or number when a test wants it to.

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
    suite::Skip,
    tool,
    workload::until,
};

/// What a byte asks for, apart from being given back.
const RENAME: u8 = b'n';
const EXEC: u8 = b'x';

/// The process. Dropped, it is gone, and its number is free.
pub struct Echo {
    tid: u32,
    input: PipeWriter,
    output: PipeReader,
    /// What it becomes by exec.
    program: String,
}

impl Echo {
    /// Starts one named `name`, which is called `later` once it is [renamed](Self::rename); with the number `tid` where one is
    /// given, which must be free. It runs where and how its maker does.
    ///
    /// # Errors
    /// Where there is no program that it could become.
    ///
    /// # Panics
    /// If there is no room for a process, or the number is taken.
    pub fn start(name: &CStr, later: &CStr, tid: Option<u32>) -> Result<Self, Skip> {
        let program = tool::find("cat", "coreutils")?;
        let path = CString::new(program.as_str()).expect("a path has no NUL");
        let arguments = [path.as_ptr(), std::ptr::null()];
        let (their_input, input) = pipe().expect("no file descriptors left");
        let (output, their_output) = pipe().expect("no file descriptors left");
        let tid = clone(tid).unwrap_or_else(|| {
            // SAFETY: system calls alone, with what was there before the process was. Nothing is allocated.
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

    /// Its number.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Wakes it, and is woken by it.
    ///
    /// # Panics
    /// If it is gone.
    pub fn echo(&self) {
        put_byte(self.input.as_fd());
        take_byte(self.output.as_fd());
    }

    /// Has it name itself anew.
    ///
    /// # Panics
    /// If it is gone.
    pub fn rename(&self) {
        nix::unistd::write(&self.input, &[RENAME]).expect("it reads");
        take_byte(self.output.as_fd());
    }

    /// Has it become another program that gives back what it is given; returns its name then.
    ///
    /// # Panics
    /// If it is gone.
    pub fn exec(&self) -> &str {
        nix::unistd::write(&self.input, &[EXEC]).expect("it reads");
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

/// A new process, with the number `tid` where one is given (`clone3()`, since 5.5); none in the process itself.
fn clone(tid: Option<u32>) -> Option<u32> {
    let wanted = tid.unwrap_or(0) as libc::pid_t;
    // SAFETY: plain data, for which 0 means that it is not used.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if tid.is_some() {
        arguments.set_tid = &raw const wanted as u64;
        arguments.set_tid_size = 1;
    }
    // SAFETY: a fork. The child has a copy of this thread's memory, and its caller makes system calls alone.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of_val(&arguments)) };
    assert!(result >= 0, "a process with the number {tid:?}: {}", io::Error::last_os_error());
    (result > 0).then_some(result as u32)
}
