//! The style of text for this terminal and these flags.

use std::io::{self, IsTerminal as _};

use jiff::tz::TimeZone;

use crate::config::{Colour, OutputConfig};
use wakelat_core::render::{OutputFormat, Style};

/// The style of text, and the number of rows if there is a terminal.
pub fn style(output: &OutputConfig) -> (Style, Option<usize>) {
    let (mut style, rows) = terminal(output.path.is_some());
    style.unicode &= !output.ascii;
    style.timestamps = output.timestamps;
    style.files = output.files.clone();
    style.colour = match output.colour {
        Colour::Auto => style.colour,
        Colour::Always => true,
        Colour::Never => false,
    };
    (style, rows)
}

/// The style of the coverage on standard error, if rows of CSV leave no place for it in the output.
pub fn stderr_style(output: &OutputConfig, style: &Style) -> Option<Style> {
    (output.format == OutputFormat::Csv && !output.quiet)
        .then(|| Style { colour: style.colour && io::stderr().is_terminal(), ..style.clone() })
}

/// The default style for standard output or a file, and the number of rows of the terminal.
pub fn terminal(file: bool) -> (Style, Option<usize>) {
    let terminal = !file && io::stdout().is_terminal();
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
    (Style::detect(|name| std::env::var(name).ok(), terminal, columns, TimeZone::system()), rows)
}
