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
    /// `path`, emptied; standard output where there is none.
    ///
    /// # Errors
    /// Where the file cannot be created.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let (writer, name, fd): (Box<dyn Write>, _, _) = match path {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write to `{}`", path.display()))?;
                (Box::new(file), path.display().to_string(), None)
            }
            None => {
                let stdout = io::stdout();
                let fd = (!stdout.is_terminal()).then(|| stdout.as_raw_fd());
                (Box::new(stdout), "standard output".to_owned(), fd)
            }
        };
        Ok(Self { writer: BufWriter::new(writer), name, fd })
    }

    /// Writes what `write` writes, and sends it on its way.
    ///
    /// # Errors
    /// Where it cannot be written, as on a full disk; a reader that has gone is no error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Written> {
        match write(&mut self.writer).and_then(|()| self.writer.flush()) {
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
