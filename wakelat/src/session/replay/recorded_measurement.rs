//! Shows a measurement through a view while it is recorded: what the view shows is what it will show of the recording.

use std::{io, path::PathBuf};

use anyhow::{Error, Result};

use super::{
    super::{
        InputAction, View,
        output::{Output, WriteResult},
        writer::OutputWriter,
    },
    Replay,
};
use crate::config::{Config, RecordedInput};
use wakelat_core::{
    recording::{Frame, Header},
    terminal_input::TerminalInput,
};

/// A view of a recording that is being made.
pub struct LiveReplay<'a> {
    replay: Replay<'a>,
    is_interactive: bool,
    writes_in: Vec<PathBuf>,
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
        let (is_interactive, writes_in) = (view.is_interactive(), view.writes_in());
        let output = Some(Output::of(&config.output)?);
        let replay = Replay::new(config, input, &[header], view);
        Ok(Self { replay, is_interactive, writes_in, output, writer: None, ended: None })
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

    /// Whether the view draws on the whole terminal.
    pub fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// The directories in which the view writes files while it measures.
    pub fn writes_in(&self) -> &[PathBuf] {
        &self.writes_in
    }

    /// The view.
    pub fn view(&mut self) -> &mut dyn View {
        self.replay.view()
    }

    /// The output of the view, once the run has begun.
    pub fn output(&mut self) -> Option<&mut OutputWriter> {
        self.writer.as_mut()
    }

    /// Handles input from the terminal. Returns what the run has to do.
    pub fn input(&mut self, input: TerminalInput) -> InputAction {
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
