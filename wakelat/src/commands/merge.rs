//! `merge`: puts several recordings into one file.

use std::{
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};

use super::measurement::Source;
use crate::{
    config::Config,
    session::{StopReason, open_input, output::Output},
};

/// `merge`: puts several recordings into one file, an archive of them ([`crate::config::archive`]).
///
/// # Errors
/// If one cannot be read, if they cannot be shown together, or if the file cannot be written.
pub fn merge(config: &Config) -> Result<StopReason> {
    // Reads their headers, and checks that they can be shown together.
    let (source, _) = Source::open(config)?;
    if source.headers().iter().any(|header| header.text.is_some()) {
        bail!("the text of a trace is not a recording; give recordings of `wakelat record`");
    }
    drop(source);
    let input = config.input.as_ref().context("recordings are given")?;
    let mut output = Output::of_recording(&config.output)?;
    let modified = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let names = member_names(&input.paths)?;
    output.write(|out| {
        let mut archive = tar::Builder::new(out);
        for (path, name) in input.paths.iter().zip(&names) {
            append(&mut archive, path, name, modified)?;
        }
        archive.finish()
    })?;
    Ok(StopReason::Done)
}

fn append(archive: &mut tar::Builder<impl Write>, path: &Path, name: &Path, modified: u64) -> io::Result<()> {
    let contents = open_input::open(path)?;
    let length = contents.get_ref().length().ok_or(io::ErrorKind::Unsupported)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(length);
    header.set_mode(0o600);
    header.set_mtime(modified);
    // A recording that is still being made grows: what comes later has no place.
    archive.append_data(&mut header, name, ExactLength { contents, left: length })
}

/// The first bytes of a file, all of which must be there.
struct ExactLength<R> {
    contents: R,
    /// Number of bytes that have not been read.
    left: u64,
}

impl<R: Read> Read for ExactLength<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let wanted = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.contents.read(&mut bytes[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// The names of the members: as short as they are unique, without what leads out of a directory.
fn member_names(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let below = |name: String| -> PathBuf {
        Path::new(&name).components().filter(|part| matches!(part, Component::Normal(_))).collect()
    };
    let names: Vec<_> = open_input::short_names(paths).into_iter().map(below).collect();
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => bail!("two recordings have the name `{}`; rename one of them", name.display()),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_names_below_the_archive() {
        let names = |paths: &[&str]| member_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        let of = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(names(&["/tmp/a.wakelat", "b.wakelat"]).unwrap(), of(&["a.wakelat", "b.wakelat"]));
        assert_eq!(names(&["/x/a", "../y/a"]).unwrap(), of(&["x/a", "y/a"]));
        assert!(names(&["/x/a", "../x/a"]).unwrap_err().to_string().contains("rename one"));
    }

    #[test]
    fn a_file_that_grows_or_shrinks_does_not_damage_the_archive() {
        let read = |contents: &[u8]| {
            let mut bytes = Vec::new();
            ExactLength { contents, left: 4 }.read_to_end(&mut bytes).map(|_| bytes).map_err(|error| error.kind())
        };
        assert_eq!(read(b"more than four"), Ok(b"more".to_vec()));
        assert_eq!(read(b"abc"), Err(io::ErrorKind::UnexpectedEof));
    }
}
