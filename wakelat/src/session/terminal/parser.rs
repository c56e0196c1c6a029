//! Bytes from a terminal to keys and the mouse. Pure.

use std::collections::VecDeque;

use termina::{
    Event, Parser,
    event::{KeyCode, KeyEvent, KeyEventKind, Modifiers, MouseButton, MouseEventKind},
};

use wakelat_core::terminal_input::{TerminalInput, TerminalKey};

/// Makes inputs of the bytes that a terminal sends.
#[derive(Default)]
pub struct InputParser {
    parser: Parser,
    inputs: VecDeque<TerminalInput>,
}

impl InputParser {
    /// Adds bytes. A sequence may continue in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.parser.parse(bytes, true);
        self.take_events();
    }

    /// No more bytes came: an Escape was the key, and an incomplete sequence is dropped.
    pub fn end_sequence(&mut self) {
        self.parser.parse(&[], false);
        self.take_events();
        self.parser = Parser::default();
    }

    /// The next input.
    pub fn next(&mut self) -> Option<TerminalInput> {
        self.inputs.pop_front()
    }

    fn take_events(&mut self) {
        while let Some(event) = self.parser.pop() {
            match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => self.take_key(key),
                Event::Mouse(mouse) => self.inputs.extend(match mouse.kind {
                    MouseEventKind::Down(MouseButton::Left) => {
                        Some(TerminalInput::Click { column: mouse.column, row: mouse.row })
                    }
                    MouseEventKind::ScrollUp => Some(TerminalInput::Scroll { up: true }),
                    MouseEventKind::ScrollDown => Some(TerminalInput::Scroll { up: false }),
                    _ => None,
                }),
                _ => {}
            }
        }
    }

    fn take_key(&mut self, key: KeyEvent) {
        // No key has a meaning with Alt, which sends an Escape before the key: these are two keys, pressed quickly.
        if key.modifiers.contains(Modifiers::ALT) {
            self.inputs.push_back(TerminalInput::Key(TerminalKey::Escape));
        }
        self.inputs.extend(terminal_key(key).map(TerminalInput::Key));
    }
}

fn terminal_key(key: KeyEvent) -> Option<TerminalKey> {
    Some(match key.code {
        // Enter as some programs send it.
        KeyCode::Char('j') if key.modifiers.contains(Modifiers::CONTROL) => TerminalKey::Enter,
        // Backspace of some terminals.
        KeyCode::Char('h') if key.modifiers.contains(Modifiers::CONTROL) => TerminalKey::Backspace,
        KeyCode::Char(character) if key.modifiers.contains(Modifiers::CONTROL) => TerminalKey::Ctrl(character),
        KeyCode::Char(character) => TerminalKey::Char(character),
        KeyCode::Up => TerminalKey::Up,
        KeyCode::Down => TerminalKey::Down,
        KeyCode::Left => TerminalKey::Left,
        KeyCode::Right => TerminalKey::Right,
        KeyCode::PageUp => TerminalKey::PageUp,
        KeyCode::PageDown => TerminalKey::PageDown,
        KeyCode::Home => TerminalKey::Home,
        KeyCode::End => TerminalKey::End,
        KeyCode::Enter => TerminalKey::Enter,
        KeyCode::Escape => TerminalKey::Escape,
        KeyCode::Tab => TerminalKey::Tab,
        KeyCode::BackTab => TerminalKey::BackTab,
        KeyCode::Backspace => TerminalKey::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inputs(parser: &mut InputParser) -> Vec<TerminalInput> {
        std::iter::from_fn(|| parser.next()).collect()
    }

    fn of(bytes: &[u8]) -> Vec<TerminalInput> {
        let mut parser = InputParser::default();
        parser.push(bytes);
        inputs(&mut parser)
    }

    fn keys(keys: &[TerminalKey]) -> Vec<TerminalInput> {
        keys.iter().copied().map(TerminalInput::Key).collect()
    }

    #[test]
    fn keys_are_recognized_in_both_modes_of_the_cursor_keys() {
        let arrows = keys(&[TerminalKey::Up, TerminalKey::Down, TerminalKey::Right, TerminalKey::Left]);
        assert_eq!(of(b"\x1b[A\x1b[B\x1b[C\x1b[D"), arrows);
        assert_eq!(of(b"\x1bOA\x1bOB\x1bOC\x1bOD"), arrows);
        let pages = [TerminalKey::PageUp, TerminalKey::PageDown, TerminalKey::Home, TerminalKey::End];
        assert_eq!(of(b"\x1b[5~\x1b[6~\x1b[H\x1b[F"), keys(&pages));
        assert_eq!(of(b"\x1b[1~\x1b[4~"), keys(&pages[2..]));
        let others = [TerminalKey::Enter, TerminalKey::Tab, TerminalKey::BackTab, TerminalKey::Backspace];
        assert_eq!(of(b"\r\t\x1b[Z\x7f"), keys(&others));
        assert_eq!(of(b"\n\x08\x02"), keys(&[TerminalKey::Enter, TerminalKey::Backspace, TerminalKey::Ctrl('b')]));
    }

    #[test]
    fn characters_may_have_several_bytes_and_arrive_in_parts() {
        assert_eq!(of("q/ä漢".as_bytes()), keys(&['q', '/', 'ä', '漢'].map(TerminalKey::Char)));
        let mut parser = InputParser::default();
        for byte in "漢\x1b[5~".bytes() {
            parser.push(&[byte]);
        }
        assert_eq!(inputs(&mut parser), keys(&[TerminalKey::Char('漢'), TerminalKey::PageUp]));
    }

    #[test]
    fn an_escape_without_a_sequence_is_the_key() {
        let mut parser = InputParser::default();
        parser.push(b"\x1b");
        assert_eq!(parser.next(), None, "it may begin a sequence");
        parser.end_sequence();
        assert_eq!(inputs(&mut parser), keys(&[TerminalKey::Escape]));
        // The next key was pressed so soon that both arrived together.
        assert_eq!(of(b"\x1bq"), keys(&[TerminalKey::Escape, TerminalKey::Char('q')]));
    }

    #[test]
    fn an_incomplete_sequence_does_not_swallow_the_next_key() {
        for begin in [&b"\x1b["[..], b"\x1bO", b"\x1b[<0;", b"\xe6\xbc", b"\x1b]0;"] {
            let mut parser = InputParser::default();
            parser.push(begin);
            parser.end_sequence();
            inputs(&mut parser);
            parser.push(b"q");
            assert_eq!(inputs(&mut parser), keys(&[TerminalKey::Char('q')]), "{begin:?}");
        }
    }

    #[test]
    fn the_mouse_is_counted_from_zero_and_only_its_first_button_and_wheel_have_a_meaning() {
        let click = TerminalInput::Click { column: 11, row: 4 };
        let scrolls = [true, false].map(|up| TerminalInput::Scroll { up });
        assert_eq!(of(b"\x1b[<0;12;5M\x1b[<0;12;5m"), [click]);
        assert_eq!(of(b"\x1b[<64;1;1M\x1b[<65;1;1M"), scrolls);
        assert_eq!(of(b"\x1b[<1;12;5M\x1b[<2;12;5M"), []);
    }

    proptest! {
        #[test]
        fn whatever_a_terminal_sends_the_next_key_is_seen(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut parser = InputParser::default();
            parser.push(&bytes);
            parser.end_sequence();
            inputs(&mut parser);
            parser.push(b"q");
            prop_assert_eq!(inputs(&mut parser), keys(&[TerminalKey::Char('q')]));
        }
    }
}
