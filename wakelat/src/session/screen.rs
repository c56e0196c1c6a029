//! The screen of a view: when it is drawn, and when it makes room for the shell.

use anyhow::{Context as _, Result};

use super::{
    Run,
    output::WriteResult,
    terminal::{Terminal, TerminalEvent, suspend},
    view::{InputAction, View},
    writer::OutputWriter,
};
use wakelat_core::terminal_input::TerminalInput;

/// The screen of a view that draws on the whole terminal.
pub struct Screen {
    terminal: Terminal,
    /// What the view shows has changed since it was drawn.
    is_stale: bool,
}

/// The output that `view` draws on: its own, or `output`.
fn output_of<'a>(view: &'a mut dyn View, output: &'a mut OutputWriter) -> &'a mut OutputWriter {
    view.own_output().unwrap_or(output)
}

impl Screen {
    /// Takes the terminal, if `view` draws on all of it. `output`: that of the run.
    ///
    /// # Errors
    /// If the kernel refuses, or the output cannot be written.
    pub fn open(view: &mut dyn View, output: &mut OutputWriter) -> Result<Option<Self>> {
        if !view.is_interactive() {
            return Ok(None);
        }
        let screen = Self { terminal: Terminal::open()?, is_stale: true };
        output_of(view, output).enter_screen();
        Ok(Some(screen))
    }

    /// Waits for the next event; for ever without a screen.
    pub async fn next(screen: &mut Option<Self>) -> TerminalEvent {
        match screen {
            Some(screen) => screen.terminal.next().await,
            None => std::future::pending().await,
        }
    }

    /// Handles an event of the terminal. Returns what the run has to do.
    ///
    /// # Errors
    /// If the process cannot be suspended.
    pub fn handle(
        &mut self,
        event: TerminalEvent,
        view: &mut dyn View,
        output: &mut OutputWriter,
    ) -> Result<InputAction> {
        let input = match event {
            TerminalEvent::Input(input) => input,
            TerminalEvent::Suspend => {
                output_of(view, output).leave_screen();
                suspend().context("cannot suspend this process")?;
                output_of(view, output).enter_screen();
                TerminalInput::Resized
            }
            TerminalEvent::Gone => return Ok(InputAction::Quit),
            TerminalEvent::Continued => {
                output_of(view, output).enter_screen();
                TerminalInput::Resized
            }
        };
        let action = view.input(input);
        self.is_stale |= action != InputAction::Nothing;
        Ok(action)
    }

    /// The view has a new report.
    pub fn set_stale(&mut self) {
        self.is_stale = true;
    }

    /// Draws what has changed, unless the terminal is still busy with the last frame: then the next call does.
    ///
    /// # Errors
    /// If the output could not be written.
    pub fn draw(&mut self, view: &mut dyn View, output: &mut OutputWriter) -> Result<WriteResult> {
        self.is_stale |= view.has_news();
        if !self.is_stale || !output_of(view, output).is_idle() {
            return Ok(WriteResult::All);
        }
        self.is_stale = false;
        let mut frame = Vec::new();
        view.draw(&mut frame).context("cannot draw the screen")?;
        output_of(view, output).write(|out| out.write_all(&frame))
    }

    /// Gives the terminal back, and prints what stays on it.
    ///
    /// # Errors
    /// If the output could not be written.
    pub fn close(self, view: &mut dyn View, output: &mut OutputWriter) -> Result<WriteResult> {
        output_of(view, output).leave_screen();
        let mut rest = Vec::new();
        view.closed(&mut rest).context("cannot show the coverage")?;
        output_of(view, output).write(|out| out.write_all(&rest))
    }
}

impl Run<'_> {
    /// Takes the terminal, if the view draws on all of it.
    pub(super) fn open_screen(&mut self) -> Result<()> {
        self.screen = Screen::open(self.view, &mut self.output)?;
        Ok(())
    }

    /// Handles an event of the terminal. Returns what the run has to do.
    pub(super) fn handle(&mut self, event: TerminalEvent) -> Result<InputAction> {
        let Some(screen) = &mut self.screen else { return Ok(InputAction::Nothing) };
        screen.handle(event, self.view, &mut self.output)
    }

    /// Draws the screen if it has changed.
    pub(super) fn draw(&mut self) -> Result<()> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let written = screen.draw(self.view, &mut self.output);
        self.check_written(written)
    }

    /// Gives the terminal back.
    pub(super) fn close_screen(&mut self) -> Result<()> {
        let Some(screen) = self.screen.take() else { return Ok(()) };
        let written = screen.close(self.view, &mut self.output);
        self.check_written(written)
    }
}
