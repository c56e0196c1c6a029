//! The style of text for people: plain data, determined once at startup.

use anstyle::{AnsiColor, Style as Ansi};
use jiff::tz::TimeZone;

use super::timestamps;
use crate::files::Files;

/// Minimum width, in columns; narrower terminals get lines of this width, because less is not useful.
pub const MIN_WIDTH: usize = 40;

/// The width if neither the terminal nor COLUMNS gives one.
const DEFAULT_WIDTH: usize = 80;

/// The style of text for people.
#[derive(Clone, Debug)]
pub struct Style {
    /// The width of a line, in columns. See [`Style::columns`].
    pub width: usize,
    /// Whether characters outside ASCII may be used.
    pub unicode: bool,
    /// Whether escape sequences for colour may be used.
    pub colour: bool,
    /// Whether every window and every line shows the time of day.
    pub timestamps: bool,
    /// Whether the output is a terminal, which wraps long lines.
    pub terminal: bool,
    /// Whether escape sequences that move the cursor may be used: the output is a terminal that is not
    /// `dumb`.
    pub cursor: bool,
    /// The time zone of every time of day.
    pub zone: TimeZone,
    /// The recordings that are shown.
    pub files: Files,
}

impl Default for Style {
    /// Plain ASCII, 80 columns, UTC: what suits a file.
    fn default() -> Self {
        Self {
            width: DEFAULT_WIDTH,
            unicode: false,
            colour: false,
            timestamps: false,
            terminal: false,
            cursor: false,
            zone: TimeZone::UTC,
            files: Files::default(),
        }
    }
}

/// The role of a span of text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    /// Ordinary text.
    Plain,
    /// A heading or a name.
    Title,
    /// Text to find rather than to read: labels, units, repetitions.
    Dim,
    /// The figure that most readers look for.
    Strong,
    /// A bar of a chart.
    Bar,
    /// Something that puts the figures in doubt.
    Warning,
}

impl Style {
    /// Determines the style from the environment (`variable`), from whether the output is a terminal, and
    /// from the width of that terminal, if known.
    ///
    /// Characters outside ASCII need a UTF-8 locale: as in setlocale(3), the first of LC_ALL, LC_CTYPE and
    /// LANG that is set and not empty decides. Colour needs a terminal that is not `dumb`, and no NO_COLOR
    /// (<https://no-color.org>: any value but the empty one). The width is that of the terminal, or else
    /// COLUMNS, or else 80, but never below [`MIN_WIDTH`].
    pub fn detect(
        variable: impl Fn(&str) -> Option<String>,
        terminal: bool,
        columns: Option<usize>,
        zone: TimeZone,
    ) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let width = columns
            .filter(|columns| terminal && *columns > 0)
            .or_else(|| variable("COLUMNS")?.trim().parse().ok().filter(|columns| *columns > 0))
            .unwrap_or(DEFAULT_WIDTH);
        let cursor = terminal && variable("TERM").is_none_or(|term| term != "dumb");
        Self {
            width: width.max(MIN_WIDTH),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            colour: cursor && variable("NO_COLOR").is_none(),
            timestamps: false,
            terminal,
            cursor,
            zone,
            files: Files::default(),
        }
    }

    /// The width of a line, in columns: at least [`MIN_WIDTH`].
    pub fn columns(&self) -> usize {
        self.width.max(MIN_WIDTH)
    }

    /// Formats an instant of CLOCK_MONOTONIC: as the time of day if timestamps were requested, or else as
    /// perf(1) does.
    pub fn instant(&self, at_ns: u64, unix_offset_ns: i64) -> String {
        if self.timestamps {
            timestamps::time_of_day(timestamps::unix_ns(at_ns, unix_offset_ns), &self.zone)
        } else {
            timestamps::monotonic(at_ns)
        }
    }

    /// Returns the first value if characters outside ASCII may be used, or else the second.
    pub fn pick<T>(&self, unicode: T, ascii: T) -> T {
        if self.unicode { unicode } else { ascii }
    }

    /// Returns `text` with the escape sequences for `ink`, if colour may be used.
    pub fn paint(&self, ink: TextStyle, text: &str) -> String {
        let ansi = match ink {
            TextStyle::Plain => return text.to_owned(),
            _ if !self.colour => return text.to_owned(),
            TextStyle::Title | TextStyle::Strong => Ansi::new().bold(),
            TextStyle::Dim => Ansi::new().dimmed(),
            TextStyle::Bar => AnsiColor::Cyan.on_default(),
            TextStyle::Warning => AnsiColor::Yellow.on_default().bold(),
        };
        format!("{ansi}{text}{ansi:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)], terminal: bool, columns: Option<usize>) -> Style {
        let variable = |name: &str| variables.iter().find(|(is, _)| *is == name).map(|(_, value)| value.to_string());
        Style::detect(variable, terminal, columns, TimeZone::UTC)
    }

    #[test]
    fn the_locale_enables_unicode_by_the_rules_of_setlocale() {
        assert!(detect(&[("LANG", "de_DE.UTF-8")], true, None).unicode);
        assert!(detect(&[("LANG", "C.utf8")], true, None).unicode);
        assert!(!detect(&[("LANG", "C")], true, None).unicode);
        assert!(!detect(&[], true, None).unicode);
        assert!(!detect(&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], true, None).unicode);
        assert!(!detect(&[("LANG", "en_GB.UTF-8"), ("LC_CTYPE", "POSIX")], true, None).unicode);
        assert!(detect(&[("LC_ALL", "en_GB.UTF-8"), ("LC_CTYPE", "C")], true, None).unicode);
        assert!(detect(&[("LC_ALL", ""), ("LANG", "en_GB.UTF-8")], true, None).unicode);
    }

    #[test]
    fn colour_needs_a_terminal_and_no_no_color() {
        assert!(detect(&[], true, None).colour);
        assert!(!detect(&[], false, None).colour);
        assert!(!detect(&[("NO_COLOR", "1")], true, None).colour);
        assert!(detect(&[("NO_COLOR", "")], true, None).colour);
        assert!(!detect(&[("TERM", "dumb")], true, None).colour);
    }

    #[test]
    fn only_a_terminal_that_is_not_dumb_has_a_cursor_to_move() {
        assert!(detect(&[("TERM", "xterm")], true, None).cursor);
        assert!(!detect(&[("TERM", "dumb")], true, None).cursor && !detect(&[], false, None).cursor);
    }

    #[test]
    fn the_width_is_that_of_the_terminal_or_columns_or_80() {
        assert_eq!(detect(&[("COLUMNS", "100")], true, Some(132)).width, 132);
        assert_eq!(detect(&[("COLUMNS", "100")], true, None).width, 100);
        assert_eq!(detect(&[("COLUMNS", "100")], true, Some(0)).width, 100);
        assert_eq!(detect(&[("COLUMNS", "100")], false, None).width, 100);
        assert_eq!(detect(&[("COLUMNS", "wide")], true, None).width, 80);
        assert_eq!(detect(&[], false, None).width, 80);
        assert_eq!(detect(&[], true, Some(12)).width, MIN_WIDTH);
    }

    #[test]
    fn without_colour_no_escape_sequence_is_written() {
        let plain = Style::default();
        assert_eq!(plain.paint(TextStyle::Warning, "lost"), "lost");
        let colour = Style { colour: true, ..plain };
        assert_eq!(colour.paint(TextStyle::Plain, "count"), "count");
        assert_eq!(colour.paint(TextStyle::Strong, "p99"), "\u{1b}[1mp99\u{1b}[0m");
    }
}
