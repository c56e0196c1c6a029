//! Prints the output of a command that measures nothing.

use std::io::Write;

use anyhow::Result;

use super::terminal_style::style;
use crate::{config::OutputConfig, session::output::Output};
use wakelat_core::render::Style;

/// Prints the output of `write`, even the part before an error. A
/// reader that has gone is not an error.
///
/// # Errors
/// If `write` fails, or the output cannot be written.
pub fn print(output: &OutputConfig, write: impl FnOnce(&Style, &mut dyn Write) -> Result<()>) -> Result<()> {
    let (style, _) = style(output);
    let mut text = Vec::new();
    let result = write(&style, &mut text);
    if result.is_ok() || !text.is_empty() {
        Output::open(output.path.as_deref())?.write(|out| out.write_all(&text))?;
    }
    result
}
