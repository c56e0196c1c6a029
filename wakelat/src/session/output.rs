//! Where results go, and what it means when they no longer can.

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write},
    os::fd::{AsRawFd as _, RawFd},
    path::Path,
};

use anyhow::{Context as _, Result};

/// The file or standard output, and its name for error messages.
pub struct Output {
    writer: BufWriter<Box<dyn Write>>,
    name: String,
    fd: Option<RawFd>,
    /// The file as it was before, which it stays until something is to be written: what never starts costs nobody a file.
    former: Option<File>,
}

/// How a write ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
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
            let fd = (!stdout.is_terminal()).then(|| stdout.as_raw_fd());
            return Ok(Self::to(Box::new(stdout), "standard output".to_owned(), fd, None));
        };
        let open = || {
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            // A pipe or a device has nothing that could be taken from it.
            let former = file.metadata()?.is_file().then(|| file.try_clone()).transpose()?;
            Ok::<_, io::Error>(Self::to(Box::new(file), path.display().to_string(), None, former))
        };
        open().with_context(|| format!("cannot write to `{}`", path.display()))
    }

    fn to(writer: Box<dyn Write>, name: String, fd: Option<RawFd>, former: Option<File>) -> Self {
        Self { writer: BufWriter::new(writer), name, fd, former }
    }

    /// Writes what `write` writes, and sends it on its way.
    ///
    /// # Errors
    /// Where it cannot be written, as on a full disk; a reader that has gone is no error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Written> {
        let emptied = self.former.take().map_or(Ok(()), |file| file.set_len(0));
        match emptied.and_then(|()| write(&mut self.writer)).and_then(|()| self.writer.flush()) {
            Ok(()) => Ok(Written::All),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Written::NoReader),
            Err(error) => Err(error).with_context(|| format!("cannot write to {}", self.name)),
        }
    }

    /// Whether the reader of a pipe has gone: there may be nothing to write for a long time.
    pub fn reader_is_gone(&self) -> bool {
        let Some(fd) = self.fd else { return false };
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one pollfd of ours, and no waiting.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLERR != 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
            assert_eq!(output.write(|out| out.write_all(line.as_bytes())).unwrap(), Written::All);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        Output::open(Some(&path)).unwrap().write(|_| Ok(())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn what_keeps_nothing_is_not_emptied() {
        Output::open(Some(Path::new("/dev/null"))).unwrap().write(|out| out.write_all(b"line\n")).unwrap();
    }
}
