//! The interactive screens of `top`.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;

use super::{
    super::{measurement::Source, record_view, terminal_style::style},
    frame_writer::FrameWriter,
    last_seconds::{LENGTH_NS, LastSeconds},
    new_files::NewFiles,
    page::{self, SavedPage},
};
use crate::{
    collect::TimelineSettings,
    config::{Config, RecordConfig, TableConfig},
    session::{InputAction, StopReason, View},
    status::status,
};
use wakelat_core::{
    aggregate::key::Names,
    recording::CollectedEvents,
    render::{self, Style, units},
    report::Report,
    terminal_input::TerminalInput,
    timeline::event::Event,
    top_screen::{ScreenAction, TopScreen, TopScreenSettings},
};

/// Shows the waits of `source` on interactive screens.
///
/// # Errors
/// Errors of [`Source::show`], or if the current directory does not exist.
pub fn show(source: Source, config: &Config, table: TableConfig) -> Result<StopReason> {
    // The screens have groups of their own.
    let config = Config { by: Vec::new(), ..config.clone() };
    let headers = source.headers();
    let collected = headers.iter().map(|header| header.collected).reduce(CollectedEvents::both);
    let collected = collected.unwrap_or(table.collect);
    let (style, _) = style(&config.output);
    let settings = TopScreenSettings {
        from: config.from,
        source: name(&source, &config, table),
        files: config.output.files.clone(),
        own_pids: source.own_pids(),
        not_collected: collected.not_collected(),
        color: style.colour,
        unicode: style.unicode,
    };
    let kept = match &source {
        Source::Saved(_) => Kept::Page(Box::new(SavedPage::new(&config, &headers))),
        Source::Live(_) | Source::LiveRecorded(..) => Kept::LastSeconds(Box::new(LastSeconds::new(&config, table)?)),
    };
    let mut view = InteractiveTop {
        screen: TopScreen::new(settings),
        frames: FrameWriter::new(),
        timeline: TimelineSettings::of(collected),
        kept,
        files: NewFiles::new()?,
        requested: None,
        last_report: None,
        has_ended: false,
        style,
    };
    let stop = source.show(&config, &mut view)?;
    view.files.written().iter().for_each(|name| status(format_args!("wrote `{name}`")));
    Ok(stop)
}

/// Where the waits come from: the host that is measured, or the files.
fn name(source: &Source, config: &Config, table: TableConfig) -> String {
    let saved = config.input.as_ref().filter(|input| input.measured.is_none());
    match (source.headers().first(), saved) {
        (_, Some(input)) if input.is_demo() => "demo recording".to_owned(),
        (_, Some(input)) => input.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        (Some(header), None) => header.machine.host.clone(),
        (None, None) => {
            let record = RecordConfig::of_events(table.collect, std::collections::BTreeMap::new());
            record_view::header(config, &record).machine.host
        }
    }
}

/// What files are made of.
enum Kept {
    /// The last seconds of a measurement.
    LastSeconds(Box<LastSeconds>),
    /// The page of saved input.
    Page(Box<SavedPage>),
}

/// A file that is written at the next report.
#[derive(Clone, Copy)]
enum RequestedFile {
    Recording,
    Page,
}

struct InteractiveTop {
    screen: TopScreen,
    frames: FrameWriter,
    timeline: TimelineSettings,
    kept: Kept,
    files: NewFiles,
    requested: Option<RequestedFile>,
    last_report: Option<Report>,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    style: Style,
}

impl InteractiveTop {
    /// Begins to write a file, or requests the report that it needs before.
    fn save(&mut self, file: RequestedFile) -> InputAction {
        if self.files.is_busy() || self.requested.is_some() {
            self.screen.message("the last file is still being written".to_owned());
            return InputAction::Redraw;
        }
        match (&self.kept, file) {
            (Kept::LastSeconds(_), file) => {
                self.requested = Some(file);
                return InputAction::Report;
            }
            (Kept::Page(_), RequestedFile::Recording) => {
                self.screen.message("this is a recording already".to_owned());
            }
            (Kept::Page(page), RequestedFile::Page) => match page.html().map(<[u8]>::to_vec) {
                None => self.screen.message("the input is still being read".to_owned()),
                Some(html) => self.begin("html", move |out| Ok(out.write_all(&html)?)),
            },
        }
        InputAction::Redraw
    }

    /// Begins to write the requested file of the last seconds.
    fn save_last_seconds(&mut self, file: RequestedFile) {
        let Kept::LastSeconds(last) = &self.kept else { return };
        let Some(part) = last.part() else { return };
        let header = last.header().clone();
        let length = units::duration(part.length_ns().min(LENGTH_NS), self.style.unicode);
        match file {
            RequestedFile::Recording => self.begin("wakelat", move |out| Ok(part.write(&header, out)?)),
            RequestedFile::Page => self.begin("html", move |out| page::write_last(&part, &header, out)),
        }
        if self.files.is_busy() {
            self.screen.message(format!("writing the last {length}"));
        }
    }

    fn begin(
        &mut self,
        extension: &'static str,
        write: impl FnOnce(&mut io::BufWriter<std::fs::File>) -> Result<()> + Send + 'static,
    ) {
        if let Err(error) = self.files.begin(extension, write) {
            self.screen.message(format!("cannot start a thread: {error}"));
        }
    }
}

impl View for InteractiveTop {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(self.timeline)
    }

    fn is_cumulative(&self) -> bool {
        true
    }

    fn makes_recording(&self) -> bool {
        true
    }

    fn is_interactive(&self) -> bool {
        true
    }

    fn writes_in(&self) -> Vec<PathBuf> {
        vec![self.files.directory().to_owned()]
    }

    fn input(&mut self, input: TerminalInput) -> InputAction {
        if input == TerminalInput::Resized {
            self.frames.reset();
        }
        match self.screen.input(input) {
            ScreenAction::Nothing if input == TerminalInput::Resized => InputAction::Redraw,
            ScreenAction::Nothing => InputAction::Nothing,
            ScreenAction::Redraw => InputAction::Redraw,
            ScreenAction::SaveRecording => self.save(RequestedFile::Recording),
            ScreenAction::SaveReport => self.save(RequestedFile::Page),
            ScreenAction::Quit => InputAction::Quit,
        }
    }

    fn has_news(&mut self) -> bool {
        let Some(message) = self.files.finished(false) else { return false };
        self.screen.message(message);
        true
    }

    fn reading(&mut self, percent: u128) {
        self.screen.message(format!("reading: {percent} %"));
    }

    fn draw(&mut self, frame: &mut dyn Write) -> io::Result<()> {
        let screen = &mut self.screen;
        self.frames.draw(|frame| screen.draw(frame), frame)
    }

    fn closed(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(message) = self.files.finished(true).filter(|message| !message.starts_with("wrote")) {
            status(message);
        }
        match &self.last_report {
            Some(report) => render::coverage::write(report, &self.style, out),
            None => Ok(()),
        }
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.screen.start_window();
        match &mut self.kept {
            Kept::LastSeconds(last) => last.warmed_up(),
            Kept::Page(page) => page.warmed_up(),
        }
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.screen.event(event, unix_offset_ns, names);
        match &mut self.kept {
            Kept::LastSeconds(last) => last.event(event, unix_offset_ns, names),
            Kept::Page(page) => page.event(event, unix_offset_ns, names),
        }
    }

    fn report(&mut self, report: &Report, _: &mut dyn Write) -> io::Result<()> {
        self.last_report = Some(report.clone());
        match &mut self.kept {
            Kept::LastSeconds(last) if !self.has_ended => last.report(report)?,
            Kept::Page(page) if self.has_ended => page.end(report)?,
            _ => {}
        }
        match self.requested.take() {
            // This report did not end an interval.
            Some(file) if !self.has_ended => self.save_last_seconds(file),
            _ => self.screen.report(report),
        }
        Ok(())
    }
}
