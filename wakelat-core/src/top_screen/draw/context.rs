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

/// Cuts the name of a task, which may be followed by its recording, before its ID: names are often the same.
fn fit_task(text: &str, columns: usize, style: &render::Style) -> Option<String> {
    /// Minimum width of what is left of the name of a task, and of that of a recording, in columns.
    const SHORT: usize = 4;
    let after_id = |at: usize| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        (digits > 0 && matches!(text.as_bytes().get(end), None | Some(b' '))).then_some((at, end))
    };
    let (at, end) = text.match_indices('/').find_map(|(at, _)| after_id(at))?;
    let (name, id, rest) = (&text[..at], &text[at..end], &text[end..]);
    if name.contains(" /") {
        // The end of a path.
        return None;
    }
    let room = columns.checked_sub(id.len() + SHORT)? + SHORT;
    let file = rest.strip_prefix(" in ").map(|file| file.strip_suffix(".wakelat").unwrap_or(file));
    match file {
        // A space is before the end of the file's name.
        Some(file) if room > 2 * SHORT => {
            let name = fit(name, (room - 1 - SHORT.min(width(file))).min(width(name)).min((room - 1) / 2), style);
            let left = room - 1 - width(&name);
            Some(format!("{name}{id} {}", fit_end(file, left, style)))
        }
        _ if width(name) < room => Some(fit(text, columns, style)),
        _ => Some(format!("{}{id}", fit(name, room, style))),
    }
}

/// Cuts text whose end distinguishes it.
fn fit_end(text: &str, columns: usize, style: &render::Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let taken = text.chars().rev().take_while(|character| {
        let wide = width(character.encode_utf8(&mut [0; 4]));
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    });
    let end: String = taken.collect::<Vec<_>>().into_iter().rev().collect();
    format!("{}{end}", style.pick('…', '~'))
}

/// Cuts text that is the name of a task or ends in a path: its end is what distinguishes it.
pub fn fit_path(text: &str, columns: usize, style: &render::Style) -> String {
    if width(text) > columns
        && !text.starts_with('/')
        && let Some(task) = fit_task(text, columns, style)
    {
        return task;
    }
    let path = if text.starts_with('/') { Some(0) } else { text.find(" /").map(|space| space + 1) };
    let Some(path) = path.filter(|path| width(text) > columns && columns > width(&text[..*path]) + 4) else {
        return fit(text, columns, style);
    };
    let (before, path) = text.split_at(path);
    format!("{before}{}", fit_end(path, columns - width(before), style))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_id_and_the_end_of_its_recording() {
        let style = render::Style { unicode: true, ..render::Style::default() };
        for (text, columns, expected) in [
            ("qemu-system-x86/2456", 20, "qemu-system-x86/2456"),
            ("qemu-system-x86/2456", 16, "qemu-syste…/2456"),
            ("ksoftirqd/1/17", 10, "ksofti…/17"),
            ("kworker/u16:3-ev/2345678", 16, "kworker…/2345678"),
            ("qemu-system-x86/2456 (itself)", 16, "qemu-syste…/2456"),
            ("qemu-system-x86/2456 (itself)", 24, "qemu-system-x86/2456 (i…"),
            ("qemu-system-x86/2456 in runs/base-01.wakelat", 20, "qemu-s…/2456 …ase-01"),
            ("hog/7 in web-1.wakelat", 16, "hog/7 web-1"),
            ("throttled /system.slice/a", 16, "throttled …ice/a"),
            ("throttled /system.slice/12", 16, "throttled …ce/12"),
            ("/system.slice/a/12", 8, "…ce/a/12"),
        ] {
            let fitted = fit_path(text, columns, &style);
            assert_eq!((&*fitted, width(&fitted) <= columns), (expected, true), "{text}");
        }
    }
}
