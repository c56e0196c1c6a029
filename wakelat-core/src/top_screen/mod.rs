//! The screens of an interactive `top`. Pure.
//!
//! Everything comes from the events, so that a running measurement and a recording look the same. `data` adds up
//! waits and run times of each task in short intervals; `view` selects a part of the time, groups and a filter, and
//! computes the figures; `state` is what the keys have led to; `draw` draws it. Selecting something else needs no
//! new events.

mod canvas;
mod data;
mod draw;
mod keys;
mod look;
mod settings;
mod state;
mod view;
mod view_cache;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod sum_tests;
#[cfg(test)]
mod testing;

use ratatui::Frame;

use self::{
    canvas::Canvas,
    data::measured_time::{MeasuredTime, Measuring},
    draw::{
        context::Context,
        cpu_page, details,
        details::NamedDetails,
        frame::{foot, head, status, time_bar},
        table, text_page, wait_page,
    },
    look::Look,
    state::{
        filter_line::FilterLine,
        hit::HitAreas,
        page::{GroupsPage, ScreenPage},
        time_bar::TimeBar,
    },
    view::cpu_rows::CpuRows,
    view_cache::{DataKey, FigureSource, ViewCache},
};
use crate::{
    aggregate::key::Names,
    render,
    report::Report,
    terminal_input::{TerminalInput, TerminalKey},
    timeline::event::Event,
};

pub use settings::TopScreenSettings;

/// Smallest terminal: columns and rows.
const SMALLEST: (usize, usize) = (40, 10);

/// From this width on, details are beside the table instead of below it.
const BESIDE: usize = 160;

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
    look: Look,
    measuring: Measuring,
    /// What is shown while the screen is frozen.
    frozen: Option<Box<MeasuredTime>>,
    report: Option<Report>,
    /// The pages that led to the last one, which is shown.
    pages: Vec<ScreenPage>,
    filter: FilterLine,
    bar: TimeBar,
    cache: ViewCache,
    hits: HitAreas,
    message: Option<String>,
}

impl TopScreen {
    /// Nothing measured yet.
    pub fn new(settings: TopScreenSettings) -> Self {
        let text =
            render::Style { unicode: settings.unicode, files: settings.files.clone(), ..render::Style::default() };
        // A recording has a bar of its time from the beginning.
        let is_visible = settings.files.iter().next().is_some();
        Self {
            look: Look { color: settings.color, text },
            measuring: Measuring::new(settings.from, settings.files.are_several()),
            frozen: None,
            report: None,
            pages: vec![ScreenPage::Groups(GroupsPage::first())],
            filter: FilterLine::default(),
            bar: TimeBar::new(is_visible),
            cache: ViewCache::default(),
            hits: HitAreas::default(),
            message: None,
            settings,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names) {
        self.measuring.event(event, unix_offset_ns, names);
    }

    /// The warm-up has ended: forgets the waits so far.
    pub fn start_window(&mut self) {
        self.measuring.start_window();
        self.frozen = None;
        self.report = None;
    }

    /// Ends an interval: `report` has its coverage.
    pub fn report(&mut self, report: &Report) {
        self.measuring.end_report();
        self.report = Some(Report { groups: Vec::new(), ..report.clone() });
    }

    /// Shows a message, for example where a file was written, until the next key.
    pub fn message(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Handles an input.
    pub fn input(&mut self, input: TerminalInput) -> ScreenAction {
        let had_message = input != TerminalInput::Resized && self.message.take().is_some();
        let action = match input {
            TerminalInput::Resized => ScreenAction::Redraw,
            TerminalInput::Key(TerminalKey::Ctrl('c')) => ScreenAction::Quit,
            TerminalInput::Key(key) => self.key(key),
            TerminalInput::Click { column, row } => self.click(column, row),
            TerminalInput::Scroll { up } => self.scroll(up),
        };
        if action == ScreenAction::Nothing && had_message { ScreenAction::Redraw } else { action }
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut Frame) {
        let Self { settings, look, measuring, frozen, report, pages, filter, bar, cache, hits, message } = self;
        hits.clear();
        let measured = frozen.as_deref().unwrap_or(&measuring.measured);
        let (names, style, span) = (&measuring.names, &look.text, bar.span);
        let context = Context { measured, names, settings, report: report.as_ref(), span, style };
        let key = DataKey { generation: measured.generation, span, filter: filter.text().to_owned() };
        let source = FigureSource { measured, names, style, key, filter: filter.active() };
        let mut canvas = Canvas::new(frame.buffer_mut(), hits, look);
        let (width, height) = (canvas.width(), canvas.height());
        if (width, height.min(SMALLEST.1)) < (SMALLEST.0, SMALLEST.1) || height < SMALLEST.1 {
            let text = format!("too small: {} x {} needed", SMALLEST.0, SMALLEST.1);
            canvas.text((0, 0), &text, look.warning());
            return;
        }
        let Some(page) = pages.last_mut() else { return };
        head(&mut canvas, &context, page);
        status(&mut canvas.rows(1, 1), &context, page, filter, frozen.is_some());
        let top = if bar.is_visible && (bar.has_keys || height >= 20) {
            time_bar(&mut canvas.rows(2, 2), &context, bar);
            4
        } else {
            2
        };
        foot(&mut canvas.rows(height - 1, 1), page, filter, bar, message.as_deref());
        let mut body = canvas.rows(top, height - 1 - top);
        match page {
            ScreenPage::Groups(page) => draw_groups(&mut body, &context, &source, cache, page),
            ScreenPage::Wait(page) => wait_page::draw(&mut body, &context, page),
            ScreenPage::Cpus(position) => {
                let rows = CpuRows::new(measured, &span.tables(measured));
                cpu_page::draw(&mut body, &context, &rows, position);
            }
            ScreenPage::Trust(position) => text_page::draw(&mut body, &text_page::trust(&context, width), position),
            ScreenPage::Help(position) => text_page::draw(&mut body, &text_page::help(look, width), position),
        }
    }
}

/// Draws the table of groups, with the details of the selected one below it or beside it; or only details.
fn draw_groups(
    body: &mut Canvas<'_>,
    context: &Context<'_>,
    source: &FigureSource<'_>,
    cache: &mut ViewCache,
    page: &mut GroupsPage,
) {
    let (width, height) = (body.width(), body.height());
    let mut of_details = (0, 0, width, height);
    if let Some(mut shown) = page.table.clone() {
        let rows = cache.rows(source, page, &shown);
        let is_beside = width >= BESIDE;
        let below = if height < 14 { 0 } else { height / 2 };
        let table = if is_beside {
            (width * 55 / 100, height)
        } else {
            // A short table leaves its room to the details.
            (width, (height - below).min(rows.rows() + 2))
        };
        let has_keys = page.panel == state::hit::Panel::Groups;
        table::draw(&mut body.part((0, 0), table), context, rows, &mut shown, has_keys);
        page.table = Some(shown);
        of_details = match is_beside {
            true => (table.0 + 2, 0, width - table.0 - 2, height),
            false => (0, table.1, width, height - table.1),
        };
    }
    let (x, y, columns, rows) = of_details;
    let (of_group, caused) = cache.details(source, page);
    if rows < 4 {
        return;
    }
    // A row of space between the table and the details.
    let space = usize::from(y > 0);
    let mut part = body.part((x, y + space), (columns, rows - space));
    details::draw(&mut part, context, &NamedDetails { details: of_group, caused: *caused }, page);
}
