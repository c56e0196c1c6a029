//! Shows a measurement through a view while it is recorded: what the view shows is what it will show of the recording.

use std::io;

use anyhow::{Error, Result};

use super::{
    super::{
        Input, InputAction, View,
        output::{Output, WriteResult},
        writer::OutputWriter,
    },
    Replay,
};
use crate::config::{Config, RecordedInput};
use wakelat_core::recording::{Frame, Header};

/// A view of a recording that is being made.
pub struct LiveReplay<'a> {
    replay: Replay<'a>,
    takes_input: bool,
    /// The output, until the run begins.
    output: Option<Output>,
    writer: Option<OutputWriter>,
    /// Why the view shows nothing more, if so.
    ended: Option<Result<WriteResult>>,
}

impl<'a> LiveReplay<'a> {
    /// Opens the output of `view`, which shows a recording with this header as `config`.
    ///
    /// # Errors
    /// If the output cannot be opened.
    pub fn open(config: &'a Config, input: &'a RecordedInput, header: &Header, view: &'a mut dyn View) -> Result<Self> {
        let takes_input = view.takes_input();
        let output = Some(Output::open(config.output.path.as_deref())?);
        Ok(Self { replay: Replay::new(config, input, &[header], view), takes_input, output, writer: None, ended: None })
    }

    /// Starts the thread that writes the output.
    ///
    /// # Errors
    /// If the kernel refuses to create the thread, or the view fails.
    pub fn begin(&mut self) -> io::Result<()> {
        let Some(output) = self.output.take() else { return Ok(()) };
        let mut writer = OutputWriter::start(output, None).map_err(io::Error::other)?;
        let replay = &mut self.replay;
        let written = writer.write(|out| replay.begin(out));
        self.writer = Some(writer);
        self.note(written);
        Ok(())
    }

    /// Shows a frame of the recording.
    pub fn take(&mut self, frame: &Frame<'_>) {
        let (None, Some(writer)) = (&self.ended, &mut self.writer) else { return };
        if let Err(error) = self.replay.take(frame.clone(), None, writer) {
            self.ended = Some(writer.classify_error(error));
        }
    }

    fn note(&mut self, written: Result<WriteResult>) {
        if !matches!(written, Ok(WriteResult::All)) {
            self.ended.get_or_insert(written);
        }
    }

    /// Whether the output is blocked: only what cannot be left out may still be queued.
    pub fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(OutputWriter::is_full)
    }

    /// Sends the text so far to the output. Returns whether nothing more is to be shown.
    pub fn send(&mut self) -> bool {
        let sent = self.writer.as_mut().map_or(Ok(WriteResult::All), OutputWriter::send);
        self.note(sent);
        self.ended.is_some() || self.replay.is_over() || self.writer.as_ref().is_some_and(OutputWriter::reader_is_gone)
    }

    /// Whether the view handles keys.
    pub fn takes_input(&self) -> bool {
        self.takes_input
    }

    /// Handles input from the terminal. Returns what the run has to do.
    pub fn input(&mut self, input: Input) -> InputAction {
        self.replay.input(input)
    }

    /// Waits until everything is written. Returns whether the output still had a reader.
    ///
    /// # Errors
    /// If the output could not be written.
    pub fn finish(self) -> Result<WriteResult, Error> {
        let finished = self.writer.map_or(Ok(WriteResult::All), OutputWriter::finish);
        self.ended.map_or(finished, |ended| ended)
    }
}
