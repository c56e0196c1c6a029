//! Keys, one by one, where a terminal gives them. The terminal is as it was when the run ends, however it ends.

use std::{future::pending, io, os::fd::AsRawFd as _, sync::OnceLock};

use anyhow::{Context as _, Result};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
};

use super::view::Input;

/// How the terminal was.
static SAVED_TERMIOS: OnceLock<Termios> = OnceLock::new();

/// The keyboard, whose keys come at once and are not shown.
struct Keyboard(AsyncFd<i32>);

impl Keyboard {
    /// None where standard input is no terminal, or another job has it.
    fn open() -> Option<Self> {
        let stdin = io::stdin();
        // The terminal stops a job in the background that changes it.
        let is_ours = isatty(&stdin) && tcgetpgrp(&stdin).ok() == Some(rustix::process::getpgrp());
        let former = tcgetattr(&stdin).ok().filter(|_| is_ours)?;
        let mut modes = former.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read takes what is there, and does not wait. Ctrl-C ends a run as ever; the keys that stop it or dump it would leave
        // the terminal like this.
        for code in [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME, SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT]
        {
            modes.special_codes[code] = 0;
        }
        // SAFETY: standard input stays open as long as the process lives.
        let fd = unsafe { AsyncFd::register_with_interest(stdin.as_raw_fd(), Interest::READABLE) }.ok()?;
        _ = SAVED_TERMIOS.set(former);
        let keyboard = Self(fd);
        tcsetattr(io::stdin(), OptionalActions::Now, &modes).ok()?;
        Some(keyboard)
    }

    /// Waits for a key. None where there is nothing to come any more.
    async fn key(&self) -> Option<u8> {
        loop {
            let mut ready = self.0.readable().await.ok()?;
            let mut key = [0];
            match rustix::io::read(io::stdin(), &mut key) {
                Ok(1) => return Some(key[0]),
                Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ready.clear_ready(),
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore();
    }
}

/// What comes from a terminal: keys, if there is a keyboard, and new sizes.
pub struct Console {
    keyboard: Option<Keyboard>,
    resized: Signal,
}

impl Console {
    /// From now on.
    ///
    /// # Errors
    /// If the kernel refuses to catch a signal.
    pub fn open() -> Result<Self> {
        let resized = signal(SignalKind::window_change()).context("cannot catch signals")?;
        Ok(Self { keyboard: Keyboard::open(), resized })
    }
}

/// Waits for what comes next; for ever where there is no terminal.
pub async fn input(console: &mut Option<Console>) -> Input {
    let Some(Console { keyboard, resized }) = console else { return pending().await };
    tokio::select! {
        key = key(keyboard.as_ref()) => Input::Key(key),
        _ = resized.recv() => Input::Resized,
    }
}

async fn key(keyboard: Option<&Keyboard>) -> u8 {
    if let Some(keyboard) = keyboard
        && let Some(key) = keyboard.key().await
    {
        return key;
    }
    pending().await
}

/// Makes the terminal what it was, if it was changed. Also called by a signal handler: tcsetattr(3) is async-signal-safe.
pub fn restore() {
    if let Some(former) = SAVED_TERMIOS.get() {
        _ = tcsetattr(io::stdin(), OptionalActions::Now, former);
    }
}
