//! The screens of an interactive `top`. Pure.

use ratatui::{Frame, widgets::Paragraph};

use crate::{
    aggregate::key::Names,
    files::Files,
    report::{LatencyFrom, Report},
    terminal_input::{TerminalInput, TerminalKey},
    timeline::event::Event,
};

/// What the screens show, and how.
#[derive(Clone, Debug)]
pub struct TopScreenSettings {
    /// Where the latency of a wakeup begins.
    pub from: LatencyFrom,
    /// Where the waits come from: the machine, or the name of the recording.
    pub source: String,
    /// The recordings that the waits are of.
    pub files: Files,
    /// The PIDs of wakelat itself.
    pub own_pids: Vec<u32>,
    /// Causes that are not separated from run time, in words.
    pub not_collected: Vec<&'static str>,
    /// Colours may be used.
    pub color: bool,
    /// Characters beyond ASCII may be used.
    pub unicode: bool,
}

/// What has to be done after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenAction {
    /// Nothing: the input has no meaning.
    Nothing,
    /// Draw again.
    Redraw,
    /// Write a recording of the last seconds.
    SaveRecording,
    /// Write an HTML report of what was measured.
    SaveReport,
    /// End.
    Quit,
}

/// The screens, and what they show.
pub struct TopScreen {
    settings: TopScreenSettings,
    message: Option<String>,
}

impl TopScreen {
    /// Nothing measured yet.
    pub fn new(settings: TopScreenSettings) -> Self {
        Self { settings, message: None }
    }

    /// Adds an event.
    pub fn event(&mut self, _event: &Event, _unix_offset_ns: i64, _names: &dyn Names) {}

    /// The warm-up has ended: forgets the waits so far.
    pub fn start_window(&mut self) {}

    /// Ends an interval: `report` has its coverage.
    pub fn report(&mut self, _report: &Report) {}

    /// Shows a message, for example where a file was written, until the next key.
    pub fn message(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Handles an input.
    pub fn input(&mut self, input: TerminalInput) -> ScreenAction {
        match input {
            TerminalInput::Key(TerminalKey::Char('q')) => ScreenAction::Quit,
            TerminalInput::Key(TerminalKey::Char('s')) => ScreenAction::SaveRecording,
            TerminalInput::Key(TerminalKey::Char('h')) => ScreenAction::SaveReport,
            TerminalInput::Resized => ScreenAction::Redraw,
            _ => ScreenAction::Nothing,
        }
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut Frame) {
        let text = self.message.clone().unwrap_or_else(|| self.settings.source.clone());
        frame.render_widget(Paragraph::new(text), frame.area());
    }
}
