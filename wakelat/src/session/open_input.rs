//! Opens saved input: a file, standard input, or the demo recording.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use crate::config::{DEMO, archive};

/// A recording of PostgreSQL under a CPU quota, beside a build; `demo/record.sh` makes it.
static DEMO_RECORDING: &[u8] = include_bytes!("../../demo/demo.wakelat");

/// Reads saved input.
pub type InputReader = BufReader<InputBytes>;

/// The bytes of saved input.
#[derive(Debug)]
pub enum InputBytes {
    /// A file, or standard input.
    File(File),
    /// A member of an archive.
    Member(FileSection),
    /// The demo recording.
    Demo(Cursor<&'static [u8]>),
}

/// A part of a file.
#[derive(Debug)]
pub struct FileSection {
    file: File,
    begin: u64,
    length: u64,
    /// The offset in it.
    at: u64,
}

impl Read for FileSection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.length.saturating_sub(self.at);
        let most = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for FileSection {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        let at = at.ok_or_else(outside)?;
        self.file.seek(SeekFrom::Start(self.begin.checked_add(at).ok_or_else(outside)?))?;
        self.at = at;
        Ok(at)
    }
}

/// How far a file has been read.
#[derive(Debug)]
pub struct InputPosition {
    /// Shares its offset with the file that is read.
    file: File,
    /// Where the input begins in the file.
    begin: u64,
    length: u64,
}

impl InputPosition {
    /// Offset, of the length: bytes.
    pub fn now(&self) -> (u64, u64) {
        let at = (&self.file).stream_position().map_or(self.length, |at| at.saturating_sub(self.begin));
        (at.min(self.length), self.length)
    }
}

impl InputBytes {
    /// The position in the input, if that is a file.
    pub fn position(&self) -> Option<InputPosition> {
        let length = self.length()?;
        let (file, begin) = match self {
            Self::File(file) => (file, 0),
            Self::Member(section) => (&section.file, section.begin),
            Self::Demo(_) => return None,
        };
        Some(InputPosition { file: file.try_clone().ok()?, begin, length })
    }

    /// The length of the input: bytes; `None` if it is a pipe.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.metadata().ok().filter(|metadata| metadata.is_file())?.len()),
            Self::Member(section) => Some(section.length),
            Self::Demo(bytes) => Some(bytes.get_ref().len() as u64),
        }
    }

    /// Whether parts of it can be skipped without reading them.
    pub fn can_seek(&self) -> bool {
        match self {
            Self::File(file) => file.metadata().is_ok_and(|metadata| metadata.is_file()),
            Self::Member(_) | Self::Demo(_) => true,
        }
    }
}

impl Read for InputBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Member(section) => section.read(buffer),
            Self::Demo(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for InputBytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Member(section) => section.seek(to),
            Self::Demo(bytes) => bytes.seek(to),
        }
    }
}

/// The name of the input in error messages.
pub fn name(from: &Path) -> String {
    if from == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", from.display()) }
}

/// The names of files without their directories, or as given if two have the same name.
pub fn short_names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let names: Vec<_> = paths.iter().map(name).collect();
    let are_unique = names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    if are_unique { names } else { paths.iter().map(|path| path.display().to_string()).collect() }
}

/// Opens the file, a member of an archive, standard input if `from` is `-`, or the demo recording if it is [`DEMO`].
///
/// # Errors
/// If the file cannot be opened.
pub fn open(from: &Path) -> io::Result<InputReader> {
    let bytes = if from == Path::new("-") {
        InputBytes::File(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    } else if from == Path::new(DEMO) {
        InputBytes::Demo(Cursor::new(DEMO_RECORDING))
    } else {
        match File::open(from) {
            // Below a file: a member, if that is an archive.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let Some((mut file, member)) = archive::open(from)? else { return Err(error) };
                file.seek(SeekFrom::Start(member.begin))?;
                InputBytes::Member(FileSection { file, begin: member.begin, length: member.length, at: 0 })
            }
            file => InputBytes::File(file?),
        }
    };
    Ok(BufReader::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_with_the_same_file_name_are_named_with_their_directories() {
        let names = |paths: &[&str]| short_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["db1/a.wakelat"]), ["a.wakelat"]);
        assert_eq!(names(&["db1/a.wakelat", "db2/b.wakelat"]), ["a.wakelat", "b.wakelat"]);
        assert_eq!(names(&["db1/a.wakelat", "db2/a.wakelat", "b"]), ["db1/a.wakelat", "db2/a.wakelat", "b"]);
    }
}
