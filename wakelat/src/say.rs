//! What is said beside the result, on standard error.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

/// Says `message` in wakelat's name, in one piece. Where nobody listens any more, as behind a pipe whose reader has gone,
/// there is nobody to tell, and the run goes on.
pub fn status(message: impl Display) {
    _ = io::stderr().write_all(format!("wakelat: {message}\n").as_bytes());
}
