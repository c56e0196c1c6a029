//! The line in which a filter is typed.

use crate::{terminal_input::TerminalKey, top_screen::view::wait_filter::WaitFilter};

/// Most characters of a filter.
const LENGTH: usize = 200;

/// The filter, as it is typed.
#[derive(Clone, Default)]
pub struct FilterLine {
    kept: String,
    typed: Option<String>,
    active: (String, WaitFilter),
    error: Option<String>,
}

impl FilterLine {
    /// Whether a filter is being typed.
    pub fn is_open(&self) -> bool {
        self.typed.is_some()
    }

    /// Begins to type.
    pub fn open(&mut self) {
        self.typed = Some(self.kept.clone());
    }

    /// What is being typed.
    pub fn typed(&self) -> Option<&str> {
        self.typed.as_deref()
    }

    /// What is wrong with it, in words.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The filter that is in force: the last valid one.
    pub fn active(&self) -> &WaitFilter {
        &self.active.1
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.active.0
    }

    /// Handles a key while a filter is typed. Returns whether it has a meaning.
    pub fn key(&mut self, key: TerminalKey) -> bool {
        let Some(typed) = &mut self.typed else { return false };
        match key {
            TerminalKey::Char(character) if !character.is_control() && typed.chars().count() < LENGTH => {
                typed.push(character);
            }
            TerminalKey::Backspace if typed.is_empty() => self.typed = None,
            TerminalKey::Backspace => _ = typed.pop(),
            TerminalKey::Ctrl('u') => typed.clear(),
            TerminalKey::Enter if self.error.is_none() => self.kept = self.typed.take().unwrap_or_default(),
            TerminalKey::Escape => {
                self.typed = None;
                self.kept.clear();
            }
            _ => return false,
        }
        self.parse();
        true
    }

    /// Drops the filter. Returns whether there was one.
    pub fn drop(&mut self) -> bool {
        let had_one = !self.kept.is_empty();
        self.kept.clear();
        self.parse();
        had_one
    }

    fn parse(&mut self) {
        let text = self.typed.as_ref().unwrap_or(&self.kept);
        match WaitFilter::parse(text) {
            Ok(filter) => (self.active, self.error) = ((text.trim().to_owned(), filter), None),
            Err(error) => self.error = Some(error),
        }
    }
}
