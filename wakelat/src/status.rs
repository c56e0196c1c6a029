//! Status messages on standard error.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is held back while a view draws on the whole terminal; `None` if nothing is.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// The most that is held back: bytes. What comes later is not shown.
const MAX_HELD: usize = 1 << 16;

/// Prints `message` with the prefix `wakelat: `, in one write. A write error, as from a pipe whose reader has
/// gone, is ignored, and the run continues.
pub fn status(message: impl Display) {
    _ = StatusWriter.write_all(format!("wakelat: {message}\n").as_bytes());
}

/// Standard error. While a view draws on the terminal, what is written is held back until the screen is left.
#[derive(Clone, Copy, Debug)]
pub struct StatusWriter;

/// Holds back what is written to standard error from now on: it would be written into a screen.
pub(crate) fn hold() {
    held().get_or_insert_default();
}

/// Writes what was held back, and holds back nothing more.
pub(crate) fn release() {
    if let Some(held) = held().take() {
        _ = io::stderr().write_all(&held);
    }
}

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for StatusWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *held() {
            Some(held) => {
                let room = MAX_HELD.saturating_sub(held.len());
                held.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            None => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
