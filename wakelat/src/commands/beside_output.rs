//! A file that a view writes beside its result, at the end of the run.

use std::path::Path;

use anyhow::Result;

use crate::session::output::Output;

/// A file beside the result. It is opened before the run, which may drop the privilege for it.
pub struct BesideOutput {
    /// What is written at the end.
    pub bytes: Vec<u8>,
    output: Output,
}

impl BesideOutput {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { bytes: Vec::new(), output: Output::open(Some(path))? })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.output.write(|out| out.write_all(&self.bytes)).map(drop)
    }
}
