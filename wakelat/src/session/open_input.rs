//! Opens saved input: a file or standard input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

/// The name of the input in error messages.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// Opens the file, or standard input if `from` is `-`.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(from: &Path) -> io::Result<Box<dyn BufRead>> {
    if from == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(from)?)))
}
