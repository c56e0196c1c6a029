//! Lines of text for people: styled spans, measured in columns of a terminal.

use textwrap::{WordSeparator, core::Word, wrap_algorithms::wrap_first_fit};
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

    /// The words of the line with their styles, and the space behind each. A number and its unit are one
    /// word.
    fn words(&self) -> Vec<Fragment> {
        let mut words: Vec<Fragment> = Vec::new();
        for (ink, text) in &self.spans {
            for Word { word, whitespace, .. } in WordSeparator::AsciiSpace.find_words(text) {
                let continues = |last: &Fragment| {
                    last.separator.is_empty() || word.is_empty() || last.ends_in_a_digit() && is_unit(word)
                };
                match words.last_mut().filter(|last| continues(last)) {
                    Some(last) => {
                        let space = std::mem::replace(&mut last.separator, whitespace.to_owned());
                        last.text.push(*ink, format!("{space}{word}"));
                    }
                    None => words.push(Fragment { text: Self::of(*ink, word), separator: whitespace.to_owned() }),
                }
            }
        }
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

/// Text that is not broken.
#[derive(Debug)]
struct Fragment {
    text: TextLine,
    /// What follows it. At the end of a line, only the part before trailing spaces.
    separator: String,
}

impl Fragment {
    fn ends_in_a_digit(&self) -> bool {
        self.text.spans.last().is_some_and(|(_, text)| text.ends_with(|last: char| last.is_ascii_digit()))
    }
}

impl textwrap::core::Fragment for Fragment {
    fn width(&self) -> f64 {
        self.text.width() as f64
    }

    fn whitespace_width(&self) -> f64 {
        width(&self.separator) as f64
    }

    fn penalty_width(&self) -> f64 {
        width(self.separator.trim_end()) as f64
    }
}

/// Lays out pieces with `separator` between them, on as many lines as necessary. The first line begins with
/// `head`, and the others are indented by its width. A piece that is too long for a line is broken between
/// words, but not between a number and its unit.
pub fn flow(head: TextLine, pieces: Vec<TextLine>, separator: &str, style: &Style, out: &mut String) {
    let room = style.columns().saturating_sub(head.width());
    let mut fragments = Vec::new();
    for piece in pieces {
        let separator = separator.to_owned();
        if piece.width() + width(separator.trim_end()) <= room {
            fragments.push(Fragment { text: piece, separator });
        } else {
            fragments.extend(piece.words());
            fragments.last_mut().into_iter().for_each(|last| last.separator.clone_from(&separator));
        }
    }
    let Some(last) = fragments.last_mut() else { return };
    last.separator.clear();
    let mut line = head;
    let indent = " ".repeat(line.width());
    for fragments in wrap_first_fit(&fragments, &[room as f64]) {
        let last = fragments.len().saturating_sub(1);
        for (index, Fragment { text, separator }) in fragments.iter().enumerate() {
            line.append(text.clone());
            line.push(TextStyle::Dim, if index < last { separator } else { separator.trim_end() });
        }
        line.finish(style, out);
        line = TextLine::of(TextStyle::Plain, &indent);
    }
}

/// Appends text of any length after `head`, broken between words, but not between a number and its unit.
pub fn paragraph(head: TextLine, ink: TextStyle, text: &str, style: &Style, out: &mut String) {
    flow(head, vec![TextLine::of(ink, text)], "", style, out);
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

    #[test]
    fn a_number_stays_with_its_unit_where_a_piece_is_broken() {
        let style = Style { width: 40, ..Style::default() };
        let title =
            TextLine::of(TextStyle::Title, "delivery + wakeup latency ").and(TextStyle::Strong, "278,604,382 ns");
        let mut out = String::new();
        flow(TextLine::new(), vec![title, TextLine::of(TextStyle::Plain, "CPU 1")], " | ", &style, &mut out);
        assert_eq!(out, "delivery + wakeup latency\n278,604,382 ns | CPU 1\n");
    }

    proptest! {
        #[test]
        fn no_word_is_lost_and_no_line_is_too_long(pieces in prop::collection::vec("[a-z0-9]{1,12}( [a-z0-9]{1,12}){0,9}", 1..9)) {
            let style = Style { width: 40, ..Style::default() };
            let mut out = String::new();
            let lines = pieces.iter().map(|text| TextLine::of(TextStyle::Plain, text)).collect();
            flow(TextLine::of(TextStyle::Plain, "head:"), lines, "; ", &style, &mut out);
            prop_assert!(out.lines().all(|line| width(line) <= 40), "{}", out);
            let words: Vec<&str> = out.split_whitespace().collect();
            prop_assert_eq!(words.join(" "), format!("head:{}", pieces.join("; ")));
        }

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
