//! Reads keys one by one from a terminal. The terminal is restored when the run ends, however it ends.

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

/// The settings of the terminal before the run.
static SAVED_TERMIOS: OnceLock<Termios> = OnceLock::new();

/// The keyboard in non-canonical mode, without echo.
struct Keyboard(AsyncFd<i32>);

impl Keyboard {
    /// `None` if standard input is not a terminal, or the terminal belongs to another job.
    fn open() -> Option<Self> {
        let stdin = io::stdin();
        // Changing the terminal would stop a background job.
        let is_ours = isatty(&stdin) && tcgetpgrp(&stdin).ok() == Some(rustix::process::getpgrp());
        let saved = tcgetattr(&stdin).ok().filter(|_| is_ours)?;
        let mut modes = saved.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Reads do not block. Ctrl-C still ends the run. The keys that suspend or dump the process are
        // disabled, because they would leave the terminal in this mode.
        for code in [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME, SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT]
        {
            modes.special_codes[code] = 0;
        }
        // SAFETY: standard input stays open for the life of the process.
        let fd = unsafe { AsyncFd::register_with_interest(stdin.as_raw_fd(), Interest::READABLE) }.ok()?;
        _ = SAVED_TERMIOS.set(saved);
        let keyboard = Self(fd);
        tcsetattr(io::stdin(), OptionalActions::Now, &modes).ok()?;
        Some(keyboard)
    }

    /// Waits for a key. `None` if there is no more input.
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

/// Input of a terminal: keys, if there is a keyboard, and changes of its size.
pub struct Console {
    keyboard: Option<Keyboard>,
    resized: Signal,
}

impl Console {
    /// Begins to read keys and to watch for new sizes.
    ///
    /// # Errors
    /// If the kernel refuses to catch the signal.
    pub fn open() -> Result<Self> {
        let resized = signal(SignalKind::window_change()).context("cannot catch signals")?;
        Ok(Self { keyboard: Keyboard::open(), resized })
    }
}

/// Waits for the next input; for ever without a terminal.
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

/// Restores the terminal if it was changed. Also called by a signal handler: tcsetattr(3) is
/// async-signal-safe.
pub fn restore() {
    if let Some(saved) = SAVED_TERMIOS.get() {
        _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
    }
}
