//! What was kept before, as a source.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

/// What an error message calls it.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// The file, or standard input where it is `-`.
///
/// # Errors
/// Where it cannot be opened.
pub fn open(from: &Path) -> io::Result<Box<dyn BufRead>> {
    if from == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(from)?)))
}
