//! Opens saved input: a file, standard input, or the demo recording.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    os::fd::AsFd as _,
    path::Path,
};

use crate::config::DEMO;

/// A recording of PostgreSQL under a CPU quota, beside a build; `demo/record.sh` makes it.
static DEMO_RECORDING: &[u8] = include_bytes!("../../demo/demo.wakelat");

/// Reads saved input.
pub type InputReader = BufReader<InputBytes>;

/// The bytes of saved input.
#[derive(Debug)]
pub enum InputBytes {
    /// A file, or standard input.
    File(File),
    /// The demo recording.
    Demo(Cursor<&'static [u8]>),
}

/// How far a file has been read.
#[derive(Debug)]
pub struct InputPosition {
    /// Shares its offset with the file that is read.
    file: File,
    length: u64,
}

impl InputPosition {
    /// Offset, of the length: bytes.
    pub fn now(&self) -> (u64, u64) {
        let at = (&self.file).stream_position().unwrap_or(self.length);
        (at.min(self.length), self.length)
    }
}

impl InputBytes {
    /// The position in the input, if that is a file.
    pub fn position(&self) -> Option<InputPosition> {
        let Self::File(file) = self else { return None };
        let length = file.metadata().ok().filter(|metadata| metadata.is_file())?.len();
        Some(InputPosition { file: file.try_clone().ok()?, length })
    }

    /// Whether parts of it can be skipped without reading them.
    pub fn can_seek(&self) -> bool {
        match self {
            Self::File(file) => file.metadata().is_ok_and(|metadata| metadata.is_file()),
            Self::Demo(_) => true,
        }
    }
}

impl Read for InputBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Demo(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for InputBytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Demo(bytes) => bytes.seek(to),
        }
    }
}

/// The name of the input in error messages.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// Opens the file, standard input if `from` is `-`, or the demo recording if it is [`DEMO`].
///
/// # Errors
/// If the file cannot be opened.
pub fn open(from: &Path) -> io::Result<InputReader> {
    let bytes = if from == Path::new("-") {
        InputBytes::File(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    } else if from == Path::new(DEMO) {
        InputBytes::Demo(Cursor::new(DEMO_RECORDING))
    } else {
        InputBytes::File(File::open(from)?)
    };
    Ok(BufReader::new(bytes))
}
