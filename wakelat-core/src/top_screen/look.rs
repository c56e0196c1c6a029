//! Colours and characters. What a colour shows, a character shows too.

use ratatui::style::{Color, Modifier, Style};

use crate::{render, timeline::component::Component};

/// Colours and characters that may be used.
#[derive(Clone, Debug)]
pub struct Look {
    /// Colours may be used.
    pub color: bool,
    /// Characters beyond ASCII may be used; names of recordings.
    pub text: render::Style,
}

impl Look {
    /// The first value if characters beyond ASCII may be used, or else the second.
    pub fn pick<T>(&self, unicode: T, ascii: T) -> T {
        self.text.pick(unicode, ascii)
    }

    fn colored(&self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Headings.
    pub fn title(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels and units.
    pub fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Bars.
    pub fn bar(&self) -> Style {
        self.colored(Color::Cyan)
    }

    /// The selected row.
    pub fn selected(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The names of keys.
    pub fn key(&self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What puts the figures in doubt.
    pub fn warning(&self) -> Style {
        self.colored(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// A component in a bar: its letter, on its colour. No two neighbouring colours differ only in red and green.
    pub fn component(&self, component: Component) -> (char, Style) {
        let (letter, color) = match component {
            Component::Placement => ('p', Color::LightBlue),
            Component::Ipi => ('i', Color::LightBlue),
            Component::Idle => ('e', Color::LightCyan),
            Component::Higher => ('H', Color::Yellow),
            Component::Same => ('S', Color::Blue),
            Component::Lower => ('L', Color::Cyan),
            Component::Irq => ('I', Color::Magenta),
            Component::Softirq => ('Q', Color::LightMagenta),
            Component::Throttled => ('T', Color::White),
            Component::RtThrottled => ('R', Color::Gray),
            Component::Stolen => ('V', Color::LightYellow),
            Component::Unexplained => ('?', Color::DarkGray),
        };
        let dark = matches!(component, Component::Same | Component::Unexplained);
        let style = Style::new().bg(color).fg(if dark { Color::White } else { Color::Black });
        (letter, if self.color { style } else { Style::new() })
    }

    /// A cell of the heat map, for a level from 0 (nothing) to 4 (most).
    pub fn heat(&self, level: usize) -> (char, Style) {
        let character = self.pick([' ', '░', '▒', '▓', '█'], [' ', '.', ':', '+', '#'])[level.min(4)];
        let color = [Color::Reset, Color::Blue, Color::Cyan, Color::Yellow, Color::White][level.min(4)];
        (character, self.colored(color))
    }

    /// A column of the time bar, for a level from 0 (nothing) to 8 (most).
    pub fn level(&self, level: usize) -> char {
        let blocks = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        self.pick(blocks, [' ', '.', '.', ':', ':', '+', '+', '#', '#'])[level.min(8)]
    }

    /// The dot between parts of a line.
    pub fn dot(&self) -> &'static str {
        self.pick(" · ", " | ")
    }
}
