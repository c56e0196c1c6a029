//! The output of results, and how a write to it can end.

use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Write},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl},
};

use crate::{config::OutputConfig, status::status};

/// A file or standard output, and its name for error messages.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    name: String,
    pipe: StdoutPipe,
    is_file: bool,
    /// The file, until something is written to it.
    untouched: Option<Untouched>,
}

/// A file that nothing was written to yet: a run that never starts leaves it unchanged.
struct Untouched {
    file: File,
    /// Its path, if this run created it.
    created: Option<PathBuf>,
}

/// Whether the output is standard output and may be a pipe.
#[derive(Clone, Copy, Debug)]
pub struct StdoutPipe(bool);

/// The result of a write that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// Everything was written.
    All,
    /// The reader has closed the pipe, as `head` does: no more output is needed, and this is not an error.
    NoReader,
}

impl Output {
    /// Opens the output of `config` ([`Self::open`]), and says that it waits for the reader of a FIFO, unless it is quiet.
    ///
    /// # Errors
    /// If the file cannot be opened or created.
    pub fn of(config: &OutputConfig) -> Result<Self> {
        Self::open_or_wait(config.path.as_deref(), |path| {
            if !config.quiet {
                status(format_args!("waiting for a reader of `{}`", path.display()));
            }
        })
    }

    /// Opens the output of `config` as [`Self::of`] does, and makes it, and all that this process creates from now on,
    /// readable for its owner only: a recording contains the names of all users' tasks, as perf's do. Not before the
    /// measured command has started, which inherits the mask.
    ///
    /// # Errors
    /// If the file cannot be opened or created.
    pub fn of_recording(config: &OutputConfig) -> Result<Self> {
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        Self::of(config)
    }

    /// Opens `path`, which the first write truncates, or standard output if there is no path. Blocks until a FIFO has a
    /// reader.
    ///
    /// # Errors
    /// If the file cannot be opened or created.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        Self::open_or_wait(path, |_| ())
    }

    /// Opens `path` as [`Self::open`] does, and calls `waits` before it waits for the reader of a FIFO.
    fn open_or_wait(path: Option<&Path>, waits: impl FnOnce(&Path)) -> Result<Self> {
        let Some(path) = path else {
            let stdout = io::stdout();
            let pipe = StdoutPipe(!stdout.is_terminal());
            let mut output = Self::to(Box::new(stdout), "standard output");
            output.pipe = pipe;
            return Ok(output);
        };
        let open = || {
            let created = path.symlink_metadata().is_err();
            let file = open_file(path, waits)?;
            // A pipe or a device has no contents to preserve.
            let untouched = file.metadata()?.is_file().then(|| file.try_clone()).transpose()?;
            let untouched = untouched.map(|file| Untouched { file, created: created.then(|| path.to_owned()) });
            let mut output = Self::to(Box::new(file), &format!("`{}`", path.display()));
            output.is_file = untouched.is_some();
            output.untouched = untouched;
            Ok::<_, io::Error>(output)
        };
        open().with_context(|| format!("cannot write to `{}`", path.display()))
    }

    /// An output to `writer`, called `name` in error messages.
    pub(super) fn to(writer: Box<dyn Write + Send>, name: &str) -> Self {
        Self {
            writer: BufWriter::new(writer),
            name: name.to_owned(),
            pipe: StdoutPipe(false),
            is_file: false,
            untouched: None,
        }
    }

    /// The name in error messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a regular file that was opened by its path.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// Standard output, if it may be a pipe.
    pub fn pipe(&self) -> StdoutPipe {
        self.pipe
    }

    /// Writes what `write` writes, and flushes it.
    ///
    /// # Errors
    /// If it cannot be written, for example to a full disk. A reader that has gone is not an error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<WriteResult> {
        let emptied = self.untouched.take().map_or(Ok(()), |untouched| untouched.file.set_len(0));
        match emptied.and_then(|()| write(&mut self.writer)).and_then(|()| self.writer.flush()) {
            Ok(()) => Ok(WriteResult::All),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(WriteResult::NoReader),
            Err(error) => Err(error).with_context(|| format!("cannot write to {}", self.name)),
        }
    }

    /// Whether the reader of a pipe has gone, which no write shows while there is nothing to write.
    pub fn reader_is_gone(&self) -> bool {
        self.pipe.reader_is_gone()
    }
}

/// Opens a file, and calls `waits` before it waits for the reader of a FIFO.
fn open_file(path: &Path, waits: impl FnOnce(&Path)) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    if !path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        return options.open(path);
    }
    match options.clone().custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => {
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok(file)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            waits(path);
            options.open(path)
        }
        Err(error) => Err(error),
    }
}

impl StdoutPipe {
    /// Whether the reader of the pipe has gone.
    pub fn reader_is_gone(self) -> bool {
        let stdout = io::stdout();
        let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.0 && poll(&mut stdout, Some(&at_once)) == Ok(1) && stdout[0].revents().contains(PollFlags::ERR)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = self.untouched.take().and_then(|untouched| untouched.created) {
            // An empty file would look like a result. Failing to remove it has no other consequence.
            _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::mpsc::channel, thread};

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    #[test]
    fn a_file_keeps_its_contents_until_the_first_write() {
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
    fn a_new_file_is_removed_if_nothing_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        drop(Output::open(Some(&path)).unwrap());
        assert!(!path.exists());
        Output::open(Some(&path)).unwrap().write(|_| Ok(())).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn a_fifo_is_written_to_once_it_has_a_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let (waits, waiting) = channel();
        let wait = |_: &Path| waits.send(()).unwrap();
        thread::scope(|scope| {
            let fifo_path = &path;
            let reader = scope.spawn(move || {
                waiting.recv().unwrap();
                let mut fifo = File::open(fifo_path).unwrap();
                let mut bytes = [0; 4];
                fifo.read_exact(&mut bytes).unwrap();
                (fifo, bytes)
            });
            let mut output = Output::open_or_wait(Some(&path), wait).unwrap();
            output.write(|out| out.write_all(b"line")).unwrap();
            let (fifo, bytes) = reader.join().unwrap();
            assert_eq!(&bytes, b"line");
            // There is a reader now. Writing to it blocks.
            let file = open_file(&path, |_| panic!("it has a reader")).unwrap();
            assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
            drop(fifo);
        });
    }

    #[test]
    fn a_device_is_not_truncated() {
        Output::open(Some(Path::new("/dev/null"))).unwrap().write(|out| out.write_all(b"line\n")).unwrap();
    }
}
