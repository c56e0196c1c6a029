//! Parses the output of hist triggers, one histogram at a time, line by line. Skips and counts lines before
//! and between histograms that are not part of one, so that logs and terminal sessions can be read, but
//! rejects binary data at its first line. A histogram without totals is incomplete.

use std::io::BufRead;

use super::error::{MAX_ENTRIES, MAX_ENTRY};
use super::line_reader::{LineReader, beginning};
use super::{HistogramEntry, HistogramTotals, TriggerHistogram, TriggerSpec, entry};

pub use super::error::{HistErrorKind, HistParseError};

/// The first line of a histogram.
const TITLE: &[u8] = b"# event histogram";

/// Whether the end of a histogram may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// Every histogram ends with `Totals:` and has as many entries as these declare.
    #[default]
    Whole,
    /// The input is an excerpt, for example from a document or a truncated log: the end of any histogram
    /// may be missing.
    Excerpt,
}

/// Iterates over the histograms of an input: an event has one for each of its hist triggers. Ends after the
/// first error. Yields nothing for an input without histograms, such as an event without hist triggers.
pub struct HistogramReader<R> {
    lines: LineReader<R>,
    completeness: Completeness,
    ended: bool,
    skipped: SkippedLines,
}

/// Lines that are not the output of a hist trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Number of lines.
    pub lines: u64,
    /// The number of the first one, counted from 1, and its beginning.
    pub first: Option<(u64, String)>,
}

impl SkippedLines {
    fn add(&mut self, number: u64, line: &[u8]) {
        self.lines += 1;
        self.first.get_or_insert_with(|| (number, beginning(line)));
    }
}

impl<R: BufRead> HistogramReader<R> {
    /// Creates a reader of `input` that holds one histogram in memory at a time.
    pub fn new(input: R, completeness: Completeness) -> Self {
        Self { lines: LineReader::new(input), completeness, ended: false, skipped: SkippedLines::default() }
    }
}

impl<R> HistogramReader<R> {
    /// The lines skipped so far.
    pub fn skipped(&self) -> &SkippedLines {
        &self.skipped
    }
}

/// Parses all histograms of an input.
///
/// # Errors
/// The first line that no hist trigger writes, or the one at which the input ends too early.
pub fn parse(input: impl BufRead, extent: Completeness) -> Result<Vec<TriggerHistogram>, HistParseError> {
    HistogramReader::new(input, extent).collect()
}

impl<R: BufRead> Iterator for HistogramReader<R> {
    type Item = Result<TriggerHistogram, HistParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.histogram().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<R: BufRead> HistogramReader<R> {
    fn histogram(&mut self) -> Result<Option<TriggerHistogram>, HistParseError> {
        if !self.find_title()? {
            return Ok(None);
        }
        let mut section = Section::new(self.head()?);
        let whole = self.completeness == Completeness::Whole;
        loop {
            let Some(line) = self.lines.next()? else {
                self.end_section(&mut section)?;
                return if whole { Err(self.lines.cut("`Totals:`")) } else { Ok(Some(section.histogram)) };
            };
            if line == b"Totals:" {
                break;
            }
            // In an excerpt, the end of any histogram may be missing.
            if !whole && line.ends_with(TITLE) {
                self.lines.held = true;
                self.end_section(&mut section)?;
                return Ok(Some(section.histogram));
            }
            match section.take(&self.lines) {
                Ok(true) => {}
                Ok(false) => self.skipped.add(self.lines.number, &self.lines.line),
                Err(error) => {
                    self.skip_entry(error)?;
                    return Ok(Some(section.histogram));
                }
            }
        }
        self.end_section(&mut section)?;
        let totals = self.totals()?;
        let read = section.histogram.entries.len() as u64;
        if totals.entries != read && whole {
            return Err(self.lines.error(HistErrorKind::Count { declared: totals.entries, read }));
        }
        section.histogram.totals = Some(totals);
        Ok(Some(section.histogram))
    }

    /// Ends the current entry.
    fn end_section(&mut self, section: &mut Section) -> Result<(), HistParseError> {
        section.end_entry(&self.lines).or_else(|error| self.skip_entry(error))
    }

    /// In an excerpt, skips a truncated entry, with the lines after it that were read as part of it.
    fn skip_entry(&mut self, error: HistParseError) -> Result<(), HistParseError> {
        match error {
            HistParseError { line, kind: HistErrorKind::Entry { found, .. } }
                if self.completeness == Completeness::Excerpt =>
            {
                self.skipped.add(line, found.as_bytes());
                self.skipped.lines += self.lines.number.saturating_sub(line);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Advances to the next histogram; false at the end of the input. A byte order mark or a prompt may
    /// precede the title.
    fn find_title(&mut self) -> Result<bool, HistParseError> {
        loop {
            self.lines.carriage_returns = false;
            let Some(line) = self.lines.next()? else { return Ok(false) };
            if line.contains(&0) {
                return Err(self.lines.error(HistErrorKind::Binary));
            }
            let text = line.trim_ascii_end();
            if text.ends_with(TITLE) {
                self.lines.carriage_returns = line.ends_with(b"\r");
                return Ok(true);
            }
            if !text.is_empty() {
                self.skipped.add(self.lines.number, &self.lines.line);
            }
        }
    }

    /// Reads the lines before the entries.
    fn head(&mut self) -> Result<TriggerSpec, HistParseError> {
        loop {
            match self.lines.next()? {
                None => return Err(self.lines.cut("`# trigger info:`")),
                Some(b"#") => {}
                Some(line) => {
                    return line
                        .strip_prefix(b"# trigger info: ")
                        .and_then(|text| TriggerSpec::parse(&String::from_utf8_lossy(text)))
                        .ok_or_else(|| self.lines.unexpected("`# trigger info: hist:keys=…`"));
                }
            }
        }
    }

    fn totals(&mut self) -> Result<HistogramTotals, HistParseError> {
        Ok(HistogramTotals {
            hits: self.total(b"Hits:", "`Hits:` and a number")?,
            entries: self.total(b"Entries:", "`Entries:` and a number")?,
            dropped: self.total(b"Dropped:", "`Dropped:` and a number")?,
        })
    }

    fn total(&mut self, name: &[u8], expected: &'static str) -> Result<u64, HistParseError> {
        let Some(line) = self.lines.next()? else {
            return Err(self.lines.cut(expected));
        };
        line.trim_ascii()
            .strip_prefix(name)
            .and_then(|number| std::str::from_utf8(number).ok()?.trim().parse().ok())
            .ok_or_else(|| self.lines.unexpected(expected))
    }
}

/// A partially read histogram, with the entry that is still open.
struct Section {
    histogram: TriggerHistogram,
    open: Open,
    text: Vec<u8>,
    text_line: u64,
}

enum Open {
    Nothing,
    Entry,
    TrackData,
    Snapshot,
}

impl Section {
    fn new(trigger: TriggerSpec) -> Self {
        let histogram = TriggerHistogram {
            trigger,
            key_names: Vec::new(),
            value_names: Vec::new(),
            entries: Vec::new(),
            snapshot: Vec::new(),
            totals: None,
        };
        Self { histogram, open: Open::Nothing, text: Vec::new(), text_line: 0 }
    }

    /// Takes one line between the head and the totals. False if it is not a line of a histogram.
    fn take<R>(&mut self, lines: &LineReader<R>) -> Result<bool, HistParseError> {
        let line = lines.line.as_slice();
        match self.open {
            Open::Snapshot if !line.is_empty() => {
                if self.histogram.snapshot.len() >= MAX_ENTRY / 64 {
                    return Err(lines.error(HistErrorKind::TooLong));
                }
                self.histogram.snapshot.push(String::from_utf8_lossy(line).into_owned());
            }
            // A key contains a line break: the entry continues.
            Open::Entry => self.go_on(lines)?,
            _ if line.starts_with(b"{ ") => {
                self.end_entry(lines)?;
                self.begin(Open::Entry, lines);
                self.close_if_complete(lines)?;
            }
            _ if (line.starts_with(b"\tmax: ") || line.starts_with(b"\tchanged: "))
                && !self.histogram.entries.is_empty() =>
            {
                self.end_entry(lines)?;
                self.begin(Open::TrackData, lines);
            }
            _ if line.starts_with(b"Snapshot taken") => {
                self.end_entry(lines)?;
                self.open = Open::Snapshot;
                self.histogram.snapshot.push(String::from_utf8_lossy(line).into_owned());
            }
            _ if line.trim_ascii().is_empty() || line == b"#" && self.histogram.entries.is_empty() => {
                self.end_entry(lines)?;
            }
            Open::TrackData => self.go_on(lines)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn begin<R>(&mut self, open: Open, lines: &LineReader<R>) {
        self.open = open;
        self.text.clear();
        self.text.extend_from_slice(&lines.line);
        self.text_line = lines.number;
    }

    fn go_on<R>(&mut self, lines: &LineReader<R>) -> Result<(), HistParseError> {
        if self.text.len() + lines.line.len() > MAX_ENTRY {
            return Err(self.not_an_entry());
        }
        self.text.push(b'\n');
        self.text.extend_from_slice(&lines.line);
        self.close_if_complete(lines)
    }

    fn close_if_complete<R>(&mut self, lines: &LineReader<R>) -> Result<(), HistParseError> {
        let trigger = &self.histogram.trigger;
        if matches!(self.open, Open::Entry)
            && entry::may_end(&lines.line, trigger)
            && entry::parse(&self.text, trigger).is_some()
        {
            return self.end_entry(lines);
        }
        Ok(())
    }

    /// Parses the collected text as an entry or as a handler's data.
    fn end_entry<R>(&mut self, lines: &LineReader<R>) -> Result<(), HistParseError> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing | Open::Snapshot => Ok(()),
            Open::Entry => {
                let Some(named) = entry::parse(&self.text, &self.histogram.trigger) else {
                    return Err(self.not_an_entry());
                };
                if self.histogram.entries.is_empty() {
                    self.histogram.key_names = named.key_names;
                    self.histogram.value_names = named.value_names;
                } else if self.histogram.key_names != named.key_names || self.histogram.value_names != named.value_names
                {
                    return Err(lines.unexpected("the same keys and values as in the entries above"));
                }
                if self.histogram.entries.len() == MAX_ENTRIES {
                    return Err(lines.error(HistErrorKind::TooMany));
                }
                self.histogram.entries.push(named.entry);
                Ok(())
            }
            Open::TrackData => match (entry::parse_track_data(&self.text), self.histogram.entries.last_mut()) {
                (Some(tracked), Some(HistogramEntry { track_data: all, .. })) if all.len() < MAX_ENTRY / 64 => {
                    all.push(tracked);
                    Ok(())
                }
                _ => Err(self.not_an_entry()),
            },
        }
    }

    fn not_an_entry(&self) -> HistParseError {
        let expected = match &self.histogram.trigger.keys[..] {
            [_] => "an entry with the one key of the trigger and its values",
            _ => "an entry with the keys of the trigger and its values",
        };
        HistParseError { line: self.text_line, kind: HistErrorKind::Entry { expected, found: beginning(&self.text) } }
    }
}
