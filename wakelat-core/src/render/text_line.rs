//! Lines of text for people: styled spans, measured in columns of a terminal.

use unicode_width::UnicodeWidthChar;

use super::style::{Style, TextStyle};

/// A line under construction. It tracks its width in columns, excluding escape sequences.
#[derive(Clone, Debug, Default)]
pub struct TextLine {
    spans: Vec<(TextStyle, String)>,
    width: usize,
}

impl TextLine {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// A line with a single span.
    pub fn of(ink: TextStyle, text: impl Into<String>) -> Self {
        Self::new().and(ink, text)
    }

    /// Returns this line with a span appended.
    #[must_use]
    pub fn and(mut self, ink: TextStyle, text: impl Into<String>) -> Self {
        self.push(ink, text);
        self
    }

    /// Appends a span.
    pub fn push(&mut self, ink: TextStyle, text: impl Into<String>) {
        let text = text.into();
        self.width += width(&text);
        self.spans.push((ink, text));
    }

    /// Appends all spans of another line.
    pub fn append(&mut self, other: Self) {
        self.width += other.width;
        self.spans.extend(other.spans);
    }

    /// The width of the line, in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The words of the line, each with its style.
    fn words(&self) -> Vec<Self> {
        let mut words = Vec::new();
        let mut word = Self::new();
        for (ink, text) in &self.spans {
            for (index, part) in text.split(' ').enumerate() {
                if index > 0 {
                    words.push(std::mem::take(&mut word));
                }
                word.push(*ink, part);
            }
        }
        words.push(word);
        words.retain(|word| word.width > 0);
        words
    }

    /// Appends the line to `out`, cut to the width of `style`, without trailing spaces.
    pub fn finish(&self, style: &Style, out: &mut String) {
        self.finish_within(style.columns(), style, out);
    }

    /// Appends the line to `out`, cut to `columns`, without trailing spaces.
    pub fn finish_within(&self, columns: usize, style: &Style, out: &mut String) {
        let last = self.spans.iter().rposition(|(_, text)| !text.trim_end().is_empty());
        let mut spans: Vec<_> = self.spans[..last.map_or(0, |last| last + 1)].iter().map(|(i, t)| (*i, &**t)).collect();
        if let Some((_, text)) = spans.last_mut() {
            *text = text.trim_end();
        }
        let whole = spans.iter().map(|(_, text)| width(text)).sum::<usize>() <= columns;
        let mut room = columns;
        for (ink, text) in spans {
            if whole || width(text) < room {
                room = room.saturating_sub(width(text));
                out.push_str(&style.paint(ink, text));
            } else {
                // An extra column makes `fit` show the cut even if it falls between two spans.
                out.push_str(&style.paint(ink, &fit(&format!("{text} "), room, style)));
                break;
            }
        }
        out.push('\n');
    }
}

/// Lays out pieces with `separator` between them, on as many lines as necessary. The first line begins with
/// `head`, and the others are indented by its width. A piece that is too long for a line is broken between
/// words.
pub fn flow(head: TextLine, pieces: Vec<TextLine>, separator: &str, style: &Style, out: &mut String) {
    let indent = head.width();
    let mut line = head;
    let mut empty = true;
    let last = pieces.len().saturating_sub(1);
    for (index, piece) in pieces.into_iter().enumerate() {
        // If another line follows, this one ends with the visible part of the separator.
        let behind = if index < last { width(separator.trim_end()) } else { 0 };
        if !empty && line.width() + width(separator) + piece.width() + behind > style.columns() {
            // The visible part of a separator belongs to the piece before it.
            line.push(TextStyle::Dim, separator.trim_end());
            line.finish(style, out);
            line = TextLine::of(TextStyle::Plain, " ".repeat(indent));
            empty = true;
        }
        if !empty {
            line.push(TextStyle::Dim, separator);
        }
        empty = false;
        if line.width() + piece.width() + behind <= style.columns() {
            line.append(piece);
            continue;
        }
        let words = piece.words();
        let last_word = words.len().saturating_sub(1);
        for (index, word) in words.into_iter().enumerate() {
            let behind = if index == last_word { behind } else { 0 };
            if index > 0 && line.width() + 1 + word.width() + behind > style.columns() {
                line.finish(style, out);
                line = TextLine::of(TextStyle::Plain, " ".repeat(indent));
            } else if index > 0 {
                line.push(TextStyle::Plain, " ");
            }
            line.append(word);
        }
    }
    if !empty {
        line.finish(style, out);
    }
}

/// Appends text of any length after `head`, broken between words, but not between a number and its unit.
pub fn paragraph(head: TextLine, ink: TextStyle, text: &str, style: &Style, out: &mut String) {
    let mut words: Vec<TextLine> = Vec::new();
    let mut follows_number = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(number) if follows_number && is_unit(word) => number.push(ink, format!(" {word}")),
            _ => words.push(TextLine::of(ink, word)),
        }
        follows_number = word.ends_with(|last: char| last.is_ascii_digit());
    }
    flow(head, words, " ", style, out);
}

/// Whether a word is a unit, possibly followed by punctuation.
fn is_unit(word: &str) -> bool {
    let name = word.trim_end_matches(|end: char| end.is_ascii_punctuation() && end != '%');
    ["%", "ns", "µs", "us", "ms", "s", "KiB", "MiB"].contains(&name)
}

/// The width of `text` on a terminal, in columns.
pub fn width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Cuts `text` to `columns` and marks the cut. A number is never cut in the middle, but left out if it does
/// not fit.
pub fn fit(text: &str, columns: usize, style: &Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|character| {
            let taken = character.width().unwrap_or(0);
            let fits = taken <= room;
            room = room.saturating_sub(taken);
            fits
        })
        .collect();
    let mut rest = text[short.len()..].chars();
    let is_digit = |next: Option<char>| next.is_some_and(|next| next.is_ascii_digit());
    let cuts_a_number = match rest.next() {
        Some('.' | ',') => is_digit(rest.next()),
        next => is_digit(next),
    };
    if cuts_a_number {
        short.truncate(short.trim_end_matches(|last: char| last.is_ascii_digit() || matches!(last, '.' | ',')).len());
    }
    if columns > 0 {
        short.push(style.pick('…', '~'));
    }
    short
}

/// Left-aligns `text` in exactly `columns`, cutting it if necessary.
pub fn left(text: &str, columns: usize, style: &Style) -> String {
    let text = fit(text, columns, style);
    format!("{text}{}", " ".repeat(columns - width(&text)))
}

/// Right-aligns `text` in at least `columns`. It is never cut, because it may be a number.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Makes text from outside safe for a terminal. Escapes all characters that do not take a column of their
/// own, such as control characters and marks that change the direction of writing, and also non-ASCII
/// characters unless the style allows them.
pub fn clean(text: &str, style: &Style) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        let separates_lines = matches!(character, '\u{2028}' | '\u{2029}');
        let shows = character.width().is_some_and(|width| width > 0) && !separates_lines;
        if shows && (style.unicode || character.is_ascii()) {
            clean.push(character);
        } else {
            clean.extend(character.escape_default());
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unicode() -> Style {
        Style { unicode: true, ..Style::default() }
    }

    #[test]
    fn a_name_cannot_contain_terminal_escapes() {
        assert_eq!(clean("a\u{1b}[2Jb", &unicode()), "a\\u{1b}[2Jb");
        assert_eq!(clean("a\u{202e}b\nc", &unicode()), "a\\u{202e}b\\nc");
        assert_eq!(clean("größer", &unicode()), "größer");
        assert_eq!(clean("größer", &Style::default()), "gr\\u{f6}\\u{df}er");
    }

    #[test]
    fn a_piece_that_is_too_long_for_a_line_loses_no_word() {
        let style = Style { width: 40, ..Style::default() };
        let pieces = ["213,603 measured of 213,613 seen", "0 lost"].map(|text| TextLine::of(TextStyle::Plain, text));
        let mut out = String::new();
        flow(TextLine::of(TextStyle::Dim, "coverage: "), pieces.into(), "; ", &style, &mut out);
        assert_eq!(out, "coverage: 213,603 measured of 213,613\n          seen; 0 lost\n");
    }

    #[test]
    fn a_cut_is_marked() {
        assert_eq!(fit("nginx", 5, &unicode()), "nginx");
        assert_eq!(fit("nginx-worker", 5, &unicode()), "ngin…");
        assert_eq!(fit("nginx-worker", 5, &Style::default()), "ngin~");
        assert_eq!(fit("漢字漢字", 4, &unicode()), "漢…");
        assert_eq!(left("漢字漢字", 4, &unicode()), "漢… ");
    }

    #[test]
    fn a_number_is_never_cut() {
        for (text, columns, cut) in [
            ("wl-pong, prio 120", 16, "wl-pong, prio …"),
            ("wl-pong, prio 120, cpu 1", 18, "wl-pong, prio 120…"),
            ("rustc/2780", 9, "rustc/…"),
            ("delivery 1,234", 11, "delivery …"),
            ("softirqs 0.4 %", 11, "softirqs …"),
            ("1234", 3, "…"),
        ] {
            assert_eq!(fit(text, columns, &unicode()), cut, "{text}");
            assert_eq!(width(&left(text, columns, &unicode())), columns, "{text}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_ends_with_the_sign_of_a_cut() {
        let style = Style { width: 40, unicode: true, ..Style::default() };
        let mut out = String::new();
        TextLine::of(TextStyle::Plain, "x".repeat(40)).and(TextStyle::Plain, "y").finish(&style, &mut out);
        TextLine::of(TextStyle::Plain, "x".repeat(40)).and(TextStyle::Plain, "  ").finish(&style, &mut out);
        assert_eq!(out, format!("{}…\n{}\n", "x".repeat(39), "x".repeat(40)));
    }

    #[test]
    fn lines_break_between_pieces_and_align_below_the_head() {
        let style = Style { width: 40, ..Style::default() };
        let mut out = String::new();
        let pieces =
            ["one piece of text", "another piece", "the last"].map(|text| TextLine::of(TextStyle::Plain, text));
        flow(TextLine::of(TextStyle::Plain, "head: "), pieces.into(), "; ", &style, &mut out);
        assert_eq!(out, "head: one piece of text; another piece;\n      the last\n");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        let style = Style { width: 40, ..Style::default() };
        let (mut out, word) = (String::new(), "x".repeat(29));
        paragraph(
            TextLine::of(TextStyle::Plain, "head: "),
            TextStyle::Plain,
            &format!("{word} 4.2 %, s (3 ms)"),
            &style,
            &mut out,
        );
        assert_eq!(out, format!("head: {word}\n      4.2 %, s (3 ms)\n"));
    }

    proptest! {
        #[test]
        fn left_aligned_text_takes_exactly_its_columns(text: String, columns in 1..60usize, ascii: bool) {
            let style = Style { unicode: !ascii, ..Style::default() };
            prop_assert_eq!(width(&left(&clean(&text, &style), columns, &style)), columns);
        }

        #[test]
        fn clean_ascii_is_ascii(text: String) {
            prop_assert!(clean(&text, &Style::default()).chars().all(|c| c.is_ascii() && !c.is_control()));
        }
    }
}
