//! Where results go, and what it means when they no longer can.

use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Write},
    os::fd::{AsRawFd as _, RawFd},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The file or standard output, and its name for error messages.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: String,
    pipe: StdoutPipe,
    /// The file, until something is to be written.
    untouched: Option<Untouched>,
}

/// A file to which nothing was written yet: a run that never starts leaves it as it was.
struct Untouched {
    file: File,
    /// Where it is, if it was not there before.
    created: Option<PathBuf>,
}

/// Standard output, where it can be a pipe.
#[derive(Clone, Copy, Debug)]
pub struct StdoutPipe(Option<RawFd>);

/// How a write ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It arrived.
    All,
    /// The reader has gone, as `head` does: nothing more is wanted, and nothing is wrong.
    NoReader,
}

impl Output {
    /// `path`, which the first that is written empties; standard output where there is none.
    ///
    /// # Errors
    /// Where the file cannot be opened or created.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            let stdout = io::stdout();
            let pipe = StdoutPipe((!stdout.is_terminal()).then(|| stdout.as_raw_fd()));
            let mut output = Self::to(Box::new(stdout), "standard output");
            output.pipe = pipe;
            return Ok(output);
        };
        let open = || {
            let created = path.symlink_metadata().is_err();
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            // A pipe or a device has nothing that could be taken from it.
            let untouched = file.metadata()?.is_file().then(|| file.try_clone()).transpose()?;
            let untouched = untouched.map(|file| Untouched { file, created: created.then(|| path.to_owned()) });
            let mut output = Self::to(Box::new(file), &format!("`{}`", path.display()));
            output.untouched = untouched;
            Ok::<_, io::Error>(output)
        };
        open().with_context(|| format!("cannot write to `{}`", path.display()))
    }

    /// What `writer` takes, by this name in error messages.
    pub(super) fn to(writer: Box<dyn Write + Send>, name: &str) -> Self {
        Self { writer: BufWriter::new(writer), name: name.to_owned(), pipe: StdoutPipe(None), untouched: None }
    }

    /// How error messages name it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Standard output, where it can be a pipe.
    pub fn pipe(&self) -> StdoutPipe {
        self.pipe
    }

    /// Writes what `write` writes, and sends it on its way.
    ///
    /// # Errors
    /// Where it cannot be written, as on a full disk; a reader that has gone is no error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<WriteResult> {
        let emptied = self.untouched.take().map_or(Ok(()), |untouched| untouched.file.set_len(0));
        match emptied.and_then(|()| write(&mut self.writer)).and_then(|()| self.writer.flush()) {
            Ok(()) => Ok(WriteResult::All),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(WriteResult::NoReader),
            Err(error) => Err(error).with_context(|| format!("cannot write to {}", self.name)),
        }
    }

    /// Whether the reader of a pipe has gone: there may be nothing to write for a long time.
    pub fn reader_is_gone(&self) -> bool {
        self.pipe.reader_is_gone()
    }
}

impl StdoutPipe {
    /// Whether its reader has gone.
    pub fn reader_is_gone(self) -> bool {
        let Some(fd) = self.0 else { return false };
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one pollfd of ours, and no waiting.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLERR != 0
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = self.untouched.take().and_then(|untouched| untouched.created) {
            // An empty file would look like a result. Where it cannot be removed, nothing depends on it.
            _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_it_was_until_there_is_something_else_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "of the last run, and long").unwrap();
        drop(Output::open(Some(&path)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "of the last run, and long");
        let mut output = Output::open(Some(&path)).unwrap();
        for line in ["one\n", "two\n"] {
            assert_eq!(output.write(|out| out.write_all(line.as_bytes())).unwrap(), WriteResult::All);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        Output::open(Some(&path)).unwrap().write(|_| Ok(())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_file_to_which_nothing_was_written_does_not_appear() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        drop(Output::open(Some(&path)).unwrap());
        assert!(!path.exists());
        Output::open(Some(&path)).unwrap().write(|_| Ok(())).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn what_keeps_nothing_is_not_emptied() {
        Output::open(Some(Path::new("/dev/null"))).unwrap().write(|out| out.write_all(b"line\n")).unwrap();
    }
}
