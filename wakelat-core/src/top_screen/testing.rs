//! Screens of the demo recording, as text.

use ratatui::{Terminal, backend::TestBackend};

use super::{ScreenAction, TopScreen, TopScreenSettings};
use crate::{
    aggregate::key::Names,
    files::{FileName, Files},
    recording::{Frame, RecordedNames, Recording},
    report::{LatencyFrom, Report},
    terminal_input::{TerminalInput, TerminalKey},
    timeline::event::Event,
};

static DEMO: &[u8] = include_bytes!("../../../wakelat/demo/demo.wakelat");

/// What the screens of a recording are shown with.
pub fn settings() -> TopScreenSettings {
    TopScreenSettings {
        from: LatencyFrom::Wakeup,
        source: "demo.wakelat".to_owned(),
        files: Files::new([FileName { file: "demo.wakelat".to_owned(), host: "demo".to_owned() }]),
        own_pids: Vec::new(),
        not_collected: vec!["stolen time"],
        color: true,
        unicode: true,
    }
}

/// Calls `event` with each event of the demo recording; with none at the end of its warm-up. Returns the report at its
/// end.
pub fn demo(mut event: impl FnMut(Option<&Event>, i64, &dyn Names)) -> Report {
    let mut recording = Recording::open(DEMO).unwrap();
    let (mut names, mut offset_ns) = (RecordedNames::default(), 0);
    while let Some(frame) = recording.frame().unwrap() {
        names.learn(&frame);
        match frame {
            Frame::UnixOffset(ns) => offset_ns = ns,
            Frame::Event(of) => event(Some(&of), offset_ns, &names),
            Frame::WarmedUp => event(None, offset_ns, &names),
            Frame::End(report) => return *report,
            _ => {}
        }
    }
    panic!("the recording has no end");
}

/// The screens of the demo recording.
pub fn demo_screen(settings: TopScreenSettings) -> TopScreen {
    let mut screen = TopScreen::new(settings);
    let report = demo(|event, offset_ns, names| match event {
        Some(event) => screen.event(event, offset_ns, names),
        None => screen.start_window(),
    });
    screen.report(&report);
    screen
}

/// A screen, drawn.
pub fn drawn(screen: &mut TopScreen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().to_string().lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

/// Sends a key, and draws the screen as a terminal would.
pub fn press(screen: &mut TopScreen, key: TerminalKey) -> ScreenAction {
    let action = screen.input(TerminalInput::Key(key));
    drawn(screen, 120, 40);
    action
}

/// Types text.
pub fn type_text(screen: &mut TopScreen, text: &str) {
    text.chars().for_each(|character| _ = press(screen, TerminalKey::Char(character)));
}
