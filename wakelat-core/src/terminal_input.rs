//! What a terminal sends, independent of how it is read.

/// An input of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalInput {
    /// A key.
    Key(TerminalKey),
    /// The first button of the mouse was pressed in this cell, counted from 0 at the top left.
    Click {
        /// From the left.
        column: u16,
        /// From the top.
        row: u16,
    },
    /// The wheel of the mouse was turned by one step.
    Scroll {
        /// Towards the first row.
        up: bool,
    },
    /// The size of the terminal has changed, or the process was continued after it was suspended.
    Resized,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalKey {
    /// A character.
    Char(char),
    /// A letter with Ctrl, in lower case.
    Ctrl(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace.
    Backspace,
}
