//! Opens saved input: a file or standard input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    os::fd::AsFd as _,
    path::Path,
};

/// The name of the input in error messages.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// A recording that is read.
pub type RecordingInput = BufReader<File>;

/// Opens a recording: a file, or standard input if `from` is `-`. Returns whether parts of it can be skipped.
///
/// # Errors
/// If the file cannot be opened.
pub fn open_recording(from: &Path) -> io::Result<(RecordingInput, bool)> {
    let file =
        if from == Path::new("-") { File::from(io::stdin().as_fd().try_clone_to_owned()?) } else { File::open(from)? };
    let is_file = file.metadata()?.is_file();
    Ok((BufReader::new(file), is_file))
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
