//! Status messages on standard error.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

/// Prints `message` with the prefix `wakelat: `, in one write. A write error, as from a pipe whose reader has
/// gone, is ignored, and the run continues.
pub fn status(message: impl Display) {
    _ = io::stderr().write_all(format!("wakelat: {message}\n").as_bytes());
}
