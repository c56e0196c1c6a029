//! New files that are written while the run continues.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};

/// What is before the number in the name of a file.
const NAME: &str = "wakelat-top-";

/// Only the owner may read a file: it contains the names of all users' tasks.
const MODE: u32 = 0o600;

/// Writes new files in the current directory, one at a time.
pub struct NewFiles {
    directory: PathBuf,
    writing: Option<JoinHandle<Result<String>>>,
    /// The names of those that are written.
    written: Vec<String>,
}

impl NewFiles {
    /// Files in the current directory.
    ///
    /// # Errors
    /// If it does not exist any more.
    pub fn new() -> Result<Self> {
        let directory = std::env::current_dir().context("cannot find the current directory")?;
        Ok(Self::in_directory(directory))
    }

    fn in_directory(directory: PathBuf) -> Self {
        Self { directory, writing: None, written: Vec::new() }
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a file is being written: the next one has to wait.
    pub fn is_busy(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins to write what `write` writes to a new file with this extension, in a thread of its own.
    ///
    /// # Errors
    /// If the kernel refuses to create a thread.
    pub fn begin(
        &mut self,
        extension: &'static str,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let directory = self.directory.clone();
        let work = move || {
            let unwritable = || format!("cannot write a file in `{}`", directory.display());
            let (name, file) = create(&directory, extension).with_context(unwritable)?;
            let mut out = BufWriter::new(file);
            let written = write(&mut out).and_then(|()| Ok(out.flush()?));
            written.inspect_err(|_| _ = fs::remove_file(directory.join(&name))).with_context(unwritable)?;
            Ok(name)
        };
        self.writing = Some(thread::Builder::new().name("wakelat-output".to_owned()).spawn(work)?);
        Ok(())
    }

    /// How the last file was written, once, when it is done; `waits`: waits for it.
    pub fn finished(&mut self, waits: bool) -> Option<String> {
        let thread = self.writing.take_if(|thread| waits || thread.is_finished())?;
        Some(match thread.join().unwrap_or_else(|panic| resume_unwind(panic)) {
            Ok(name) => {
                let message = format!("wrote `{name}`");
                self.written.push(name);
                message
            }
            Err(error) => format!("{error:#}"),
        })
    }

    /// The names of all files that are written.
    pub fn written(&self) -> &[String] {
        &self.written
    }
}

/// Creates the file with the first number that no file has.
fn create(directory: &Path, extension: &str) -> io::Result<(String, File)> {
    let mut number = 1_u64;
    loop {
        let name = format!("{NAME}{number}.{extension}");
        match OpenOptions::new().write(true).create_new(true).mode(MODE).open(directory.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            created => return created.map(|file| (name, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use anyhow::bail;

    use super::*;

    #[test]
    fn a_file_gets_the_next_number_and_replaces_none() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("wakelat-top-1.html"), "other").unwrap();
        let mut files = NewFiles::in_directory(directory.path().to_owned());
        for message in ["wrote `wakelat-top-2.html`", "wrote `wakelat-top-3.html`"] {
            files.begin("html", |out| Ok(out.write_all(b"page")?)).unwrap();
            assert!(files.is_busy());
            assert_eq!(files.finished(true).as_deref(), Some(message));
            assert_eq!(files.finished(true), None);
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!([1, 2, 3].map(|number| read(&format!("wakelat-top-{number}.html"))), ["other", "page", "page"]);
        assert_eq!(directory.path().join("wakelat-top-2.html").metadata().unwrap().mode() & 0o777, MODE);
        assert_eq!(files.written(), ["wakelat-top-2.html", "wakelat-top-3.html"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = NewFiles::in_directory(directory.path().to_owned());
        files.begin("html", |_| bail!("no room")).unwrap();
        let message = files.finished(true).unwrap();
        assert!(message.starts_with("cannot write a file in `") && message.ends_with("no room"), "{message}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(files.written(), [""; 0]);
    }
}
