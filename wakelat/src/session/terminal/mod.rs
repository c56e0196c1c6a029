//! The terminal of a view that draws on all of it: keys, the mouse, its size, and Ctrl-Z.

mod parser;
mod state;
mod suspend;

use std::{future::pending, io, os::fd::AsRawFd as _, time::Duration};

use anyhow::{Context as _, Result};
use rustix::termios::{isatty, tcgetattr, tcgetpgrp};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};

use self::parser::InputParser;
use super::ignored_signal::is_ignored;
use wakelat_core::terminal_input::TerminalInput;

pub use self::{
    state::{enter, leave, leave_at_once},
    suspend::suspend,
};

/// What happens on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// An input for the view.
    Input(TerminalInput),
    /// Ctrl-Z, or SIGTSTP from another process.
    Suspend,
    /// SIGCONT: another process may have used the terminal meanwhile.
    Continued,
    /// It has hung up, and no one sees the view. SIGHUP need not come, or is ignored.
    Gone,
}

/// After an Escape, the rest of a sequence arrives within this time, also over a slow connection.
const SEQUENCE: Duration = Duration::from_millis(50);

/// Standard input as a terminal, and the signals that concern it.
pub struct Terminal {
    stdin: AsyncFd<i32>,
    parser: InputParser,
    /// When a sequence that has begun is given up.
    sequence_ends_at: Option<Instant>,
    resized: Signal,
    /// None if the signal was ignored when the process started.
    suspended: Option<Signal>,
    continued: Signal,
}

/// Whether standard input is a terminal that this process may use now: it belongs to its job.
pub fn is_ours() -> bool {
    let stdin = io::stdin();
    isatty(&stdin) && tcgetpgrp(&stdin).ok() == Some(rustix::process::getpgrp())
}

impl Terminal {
    /// Begins to watch standard input and the signals.
    ///
    /// # Errors
    /// If the kernel refuses to.
    pub fn open() -> Result<Self> {
        let catch = |kind| signal(kind).context("cannot catch signals");
        let suspend = SignalKind::from_raw(libc::SIGTSTP);
        // SAFETY: standard input stays open for the life of the process.
        let stdin = unsafe { AsyncFd::register_with_interest(io::stdin().as_raw_fd(), Interest::READABLE) };
        Ok(Self {
            stdin: stdin.context("cannot wait for keys")?,
            parser: InputParser::default(),
            sequence_ends_at: None,
            resized: catch(SignalKind::window_change())?,
            suspended: (!is_ignored(suspend)).then(|| catch(suspend)).transpose()?,
            continued: catch(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// Waits for the next event. Nothing is lost if the wait is given up.
    pub async fn next(&mut self) -> TerminalEvent {
        loop {
            if let Some(input) = self.parser.next() {
                return TerminalEvent::Input(input);
            }
            let ends_at = self.sequence_ends_at;
            tokio::select! {
                biased;
                () = received(self.suspended.as_mut()) => return TerminalEvent::Suspend,
                () = received(Some(&mut self.continued)) => return TerminalEvent::Continued,
                () = received(Some(&mut self.resized)) => return TerminalEvent::Input(TerminalInput::Resized),
                bytes = read(&self.stdin) => {
                    let Some(bytes) = bytes else { return TerminalEvent::Gone };
                    self.parser.push(&bytes);
                    self.sequence_ends_at = Some(Instant::now() + SEQUENCE);
                }
                () = sleep_until(ends_at.unwrap_or_else(Instant::now)), if ends_at.is_some() => {
                    self.parser.end_sequence();
                    self.sequence_ends_at = None;
                }
            }
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    pending().await
}

/// Waits for bytes. `None` if the terminal has hung up.
async fn read(stdin: &AsyncFd<i32>) -> Option<Vec<u8>> {
    const AT_ONCE: usize = 1 << 10;
    loop {
        let mut ready = stdin.readable().await.ok()?;
        let mut bytes = vec![0; AT_ONCE];
        match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(read @ 1..) => {
                bytes.truncate(read);
                return Some(bytes);
            }
            // A read returns nothing if there is nothing, and after a hangup, after which all other calls fail
            // (drivers/tty/tty_io.c, `hung_up_tty_fops`).
            Ok(_) if tcgetattr(io::stdin()).is_err() => return None,
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ready.clear_ready(),
            Err(_) => return None,
        }
    }
}
