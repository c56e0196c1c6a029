//! What all pages are drawn from.

use ratatui::style::Style;

use crate::{
    render::{
        self,
        text_line::{fit, width},
        units,
    },
    report::Report,
    timeline::component::Actor,
    top_screen::{
        canvas::Canvas,
        data::{measured_time::MeasuredTime, task_names::TaskNames},
        settings::TopScreenSettings,
        view::selection::TimeSpan,
    },
    why::render::labels::Cgroups,
};

/// What all pages are drawn from.
pub struct Context<'a> {
    /// The data.
    pub measured: &'a MeasuredTime,
    /// The names in it.
    pub names: &'a TaskNames,
    /// What the screens show, and how.
    pub settings: &'a TopScreenSettings,
    /// The last report.
    pub report: Option<&'a Report>,
    /// The part of the time that is shown.
    pub span: TimeSpan,
    /// How text is written.
    pub style: &'a render::Style,
}

impl Context<'_> {
    /// A duration, for people.
    pub fn time(&self, ns: u64) -> String {
        units::duration(ns, self.style.unicode)
    }

    /// The path of the cgroup of an actor, by ID.
    pub fn cgroups_of(&self, actor: &Actor) -> Cgroups {
        crate::why::render::labels::cgroup_of(actor, self.names)
    }

    /// An instant, in ns of CLOCK_MONOTONIC, as the time since the start.
    pub fn since_start(&self, at_ns: u64) -> String {
        self.time(at_ns.saturating_sub(self.measured.start_ns.unwrap_or(at_ns)))
    }
}

/// Cuts text that ends in a path: its end is what distinguishes it.
pub fn fit_path(text: &str, columns: usize, style: &render::Style) -> String {
    let path = if text.starts_with('/') { Some(0) } else { text.find(" /").map(|space| space + 1) };
    let Some(path) = path.filter(|path| width(text) > columns && columns > width(&text[..*path]) + 4) else {
        return fit(text, columns, style);
    };
    let (before, path) = text.split_at(path);
    let mut room = columns - width(before) - 1;
    let taken = path.chars().rev().take_while(|character| {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    });
    let end: String = taken.collect::<Vec<_>>().into_iter().rev().collect();
    format!("{before}{}{end}", style.pick('…', '~'))
}

/// Writes pieces of text with dots between them, as many whole ones as fit. Returns the column behind them.
pub fn pieces(canvas: &mut Canvas<'_>, at: (usize, usize), texts: &[String], style: Style) -> usize {
    let end = canvas.width();
    pieces_before(canvas, at, end, texts, style)
}

/// Does the same in the columns before `end`. The first piece is always written.
pub fn pieces_before(
    canvas: &mut Canvas<'_>,
    (mut x, y): (usize, usize),
    end: usize,
    texts: &[String],
    style: Style,
) -> usize {
    let dot = canvas.look.dot();
    for (index, text) in texts.iter().filter(|text| !text.is_empty()).enumerate() {
        let between = if index > 0 { dot } else { "" };
        if x + width(between) + width(text) > end && index > 0 {
            break;
        }
        x = canvas.text((x, y), between, canvas.look.dim());
        x = canvas.text((x, y), text, style);
    }
    x
}
