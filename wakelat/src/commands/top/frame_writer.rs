//! Drawing on a terminal through a buffer: as the bytes that change the last frame into the next one.

use std::{
    cell::RefCell,
    io::{self, Write},
    rc::Rc,
};

use ratatui::{
    Frame, Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{queue, style::force_color_output, terminal},
    layout::Rect,
};
use rustix::termios::tcgetwinsize;

/// Makes the bytes of frames.
pub struct FrameWriter {
    bytes: Bytes,
    /// None if the next frame has to be drawn as a whole.
    terminal: Option<Terminal<CrosstermBackend<Bytes>>>,
}

/// Bytes that the terminal gets later.
#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FrameWriter {
    /// The first frame is drawn as a whole. Whether there are colours is decided by what is drawn.
    pub fn new() -> Self {
        // Whatever NO_COLOR says: `--color always` overrides it.
        force_color_output(true);
        Self { bytes: Bytes::default(), terminal: None }
    }

    /// The size of the terminal may have changed, or what it shows.
    pub fn reset(&mut self) {
        self.terminal = None;
    }

    /// Draws a frame of the terminal's size with `draw`, and writes the bytes to `out`.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>), out: &mut dyn Write) -> io::Result<()> {
        let mut terminal = match self.terminal.take() {
            Some(terminal) => terminal,
            None => self.whole(size())?,
        };
        terminal.draw(draw)?;
        self.terminal = Some(terminal);
        out.write_all(&std::mem::take(&mut *self.bytes.0.borrow_mut()))
    }

    /// An empty terminal. ratatui does not get its size: it would try files and programs that the sandbox refuses.
    fn whole(&mut self, (columns, rows): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Bytes>>> {
        self.bytes.0.borrow_mut().clear();
        queue!(self.bytes, terminal::Clear(terminal::ClearType::All))?;
        let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
        Terminal::with_options(CrosstermBackend::new(self.bytes.clone()), TerminalOptions { viewport })
    }
}

/// The columns and rows of the terminal.
fn size() -> (u16, u16) {
    const UNKNOWN: (u16, u16) = (80, 24);
    let size = tcgetwinsize(rustix::stdio::stdout()).map(|size| (size.ws_col, size.ws_row));
    size.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use ratatui::widgets::Paragraph;

    use super::*;

    fn drawn(frames: &mut FrameWriter, text: &str) -> String {
        let mut out = Vec::new();
        frames.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_changed_is_written_until_a_reset() {
        let mut frames = FrameWriter::new();
        let first = drawn(&mut frames, "waits: 10");
        assert!(first.starts_with("\x1b[2J") && first.contains("waits:") && first.contains("10"), "{first:?}");
        let second = drawn(&mut frames, "waits: 11");
        assert!(second.contains('1') && !second.contains("waits") && !second.contains("\x1b[2J"), "{second:?}");
        frames.reset();
        let third = drawn(&mut frames, "waits: 11");
        assert!(third.starts_with("\x1b[2J") && third.contains("waits:") && third.contains("11"), "{third:?}");
    }
}
