//! Opens saved input: a file, standard input, or the demo recording.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use crate::config::DEMO;

/// A recording of PostgreSQL under a CPU quota, beside a build; `demo/record.sh` makes it.
static DEMO_RECORDING: &[u8] = include_bytes!("../../demo/demo.wakelat");

/// The name of the input in error messages.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// Opens the file, standard input if `from` is `-`, or the demo recording if it is [`DEMO`].
///
/// # Errors
/// If the file cannot be opened.
pub fn open(from: &Path) -> io::Result<Box<dyn BufRead>> {
    if from == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    if from == Path::new(DEMO) {
        return Ok(Box::new(DEMO_RECORDING));
    }
    Ok(Box::new(BufReader::new(File::open(from)?)))
}
