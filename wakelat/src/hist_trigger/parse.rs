//! Reads what the kernel prints of hist triggers, one histogram at a time, line by line: garbage of any size is refused at
//! its first line, and an input that stops in the middle is told from one that is whole.

use std::io::BufRead;

use super::lines::{Lines, MAX_ENTRY, beginning};
use super::{Entry, Histogram, Totals, Trigger, entry};

/// The largest table a trigger can have: `1 << TRACING_MAP_BITS_MAX` (kernel/trace/tracing_map.h).
const MAX_ENTRIES: usize = 1 << 17;

/// Whether the end may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Every histogram ends with its `Totals:`, and has as many entries as these say.
    #[default]
    Whole,
    /// The input is an excerpt, as in a document: the end of the last histogram may be missing.
    Excerpt,
}

/// Why an input is not the output of a hist trigger.
#[derive(Debug)]
pub struct ParseError {
    /// The line at fault, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: ErrorKind,
}

/// What is wrong with a line.
#[derive(Debug)]
pub enum ErrorKind {
    /// It cannot be read.
    Io(std::io::Error),
    /// It is longer than the kernel writes.
    TooLong,
    /// Something else was expected.
    Unexpected {
        /// What was expected.
        expected: &'static str,
        /// The line's beginning.
        found: String,
    },
    /// The input ends before this was found.
    Cut {
        /// What was expected.
        expected: &'static str,
    },
    /// Entries are missing, or there are some too many.
    Count {
        /// What `Entries:` says.
        said: u64,
        /// How many were read.
        read: u64,
    },
    /// More entries than the kernel's largest table has.
    TooMany,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            ErrorKind::Io(error) => error.fmt(f),
            ErrorKind::TooLong => write!(f, "more than {MAX_ENTRY} bytes, which no hist trigger writes"),
            ErrorKind::Unexpected { expected, found } => write!(f, "expected {expected}, found `{found}`"),
            ErrorKind::Cut { expected } => {
                write!(f, "the input ends here, before {expected}; save the whole output of `cat events/…/hist`")
            }
            ErrorKind::Count { said, read } => {
                write!(f, "`Entries: {said}`, but {read} were read: lines are missing or were added")
            }
            ErrorKind::TooMany => write!(f, "more than {MAX_ENTRIES} entries, which no hist trigger has"),
        }
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The histograms of an input, one after the other: an event has one for each of its hist triggers. Ends after the
/// first error. An input without any (an event without hist triggers) is an empty iteration.
pub struct Histograms<R> {
    lines: Lines<R>,
    extent: Extent,
    ended: bool,
}

impl<R: BufRead> Histograms<R> {
    /// Reads from `input`, one histogram in memory at a time.
    pub fn new(input: R, extent: Extent) -> Self {
        Self { lines: Lines::new(input), extent, ended: false }
    }
}

/// All histograms of an input.
///
/// # Errors
/// The first line that no hist trigger writes, or the one at which the input stops too early.
pub fn parse(input: impl BufRead, extent: Extent) -> Result<Vec<Histogram>, ParseError> {
    Histograms::new(input, extent).collect()
}

impl<R: BufRead> Iterator for Histograms<R> {
    type Item = Result<Histogram, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.histogram().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<R: BufRead> Histograms<R> {
    fn histogram(&mut self) -> Result<Option<Histogram>, ParseError> {
        loop {
            match self.lines.next()? {
                None => return Ok(None),
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(b"# event histogram") => break,
                Some(_) => return Err(self.lines.unexpected("`# event histogram`")),
            }
        }
        let mut section = Section::new(self.head()?);
        loop {
            let Some(line) = self.lines.next()? else {
                section.end_entry(&self.lines)?;
                if self.extent == Extent::Excerpt {
                    return Ok(Some(section.histogram));
                }
                return Err(self.lines.cut("`Totals:`"));
            };
            if line == b"Totals:" {
                break;
            }
            // An excerpt may leave the end of any histogram out.
            if line == b"# event histogram" && self.extent == Extent::Excerpt {
                section.end_entry(&self.lines)?;
                self.lines.held = true;
                return Ok(Some(section.histogram));
            }
            section.take(&self.lines)?;
        }
        section.end_entry(&self.lines)?;
        let totals = self.totals()?;
        let read = section.histogram.entries.len() as u64;
        if totals.entries != read && self.extent == Extent::Whole {
            return Err(self.lines.error(ErrorKind::Count { said: totals.entries, read }));
        }
        section.histogram.totals = Some(totals);
        Ok(Some(section.histogram))
    }

    /// Reads up to the entries.
    fn head(&mut self) -> Result<Trigger, ParseError> {
        loop {
            match self.lines.next()? {
                None => return Err(self.lines.cut("`# trigger info:`")),
                Some(b"#") => {}
                Some(line) => {
                    return line
                        .strip_prefix(b"# trigger info: ")
                        .and_then(|text| Trigger::parse(&String::from_utf8_lossy(text)))
                        .ok_or_else(|| self.lines.unexpected("`# trigger info: hist:keys=…`"));
                }
            }
        }
    }

    fn totals(&mut self) -> Result<Totals, ParseError> {
        Ok(Totals {
            hits: self.total(b"Hits:", "`Hits:` and a number")?,
            entries: self.total(b"Entries:", "`Entries:` and a number")?,
            dropped: self.total(b"Dropped:", "`Dropped:` and a number")?,
        })
    }

    fn total(&mut self, name: &[u8], expected: &'static str) -> Result<u64, ParseError> {
        let Some(line) = self.lines.next()? else {
            return Err(self.lines.cut(expected));
        };
        line.trim_ascii()
            .strip_prefix(name)
            .and_then(|number| std::str::from_utf8(number).ok()?.trim().parse().ok())
            .ok_or_else(|| self.lines.unexpected(expected))
    }
}

/// A histogram on its way, with the entry that is not at its end yet.
struct Section {
    histogram: Histogram,
    open: Open,
    text: Vec<u8>,
    text_line: u64,
}

enum Open {
    Nothing,
    Entry,
    Tracked,
    Snapshot,
}

impl Section {
    fn new(trigger: Trigger) -> Self {
        let histogram = Histogram {
            trigger,
            key_names: Vec::new(),
            value_names: Vec::new(),
            entries: Vec::new(),
            snapshot: Vec::new(),
            totals: None,
        };
        Self { histogram, open: Open::Nothing, text: Vec::new(), text_line: 0 }
    }

    /// Takes one line of the part between the head and the totals.
    fn take<R>(&mut self, lines: &Lines<R>) -> Result<(), ParseError> {
        let line = lines.line.as_slice();
        match self.open {
            Open::Snapshot if !line.is_empty() => {
                if self.histogram.snapshot.len() >= MAX_ENTRY / 64 {
                    return Err(lines.error(ErrorKind::TooLong));
                }
                self.histogram.snapshot.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            }
            // A line break in a key: the entry goes on.
            Open::Entry => self.go_on(lines),
            _ if line.starts_with(b"{ ") => {
                self.end_entry(lines)?;
                self.begin(Open::Entry, lines);
                self.close_if_complete(lines)
            }
            _ if (line.starts_with(b"\tmax: ") || line.starts_with(b"\tchanged: "))
                && !self.histogram.entries.is_empty() =>
            {
                self.end_entry(lines)?;
                self.begin(Open::Tracked, lines);
                Ok(())
            }
            _ if line.starts_with(b"Snapshot taken") => {
                self.end_entry(lines)?;
                self.open = Open::Snapshot;
                self.histogram.snapshot.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            }
            _ if line.trim_ascii().is_empty() || line == b"#" && self.histogram.entries.is_empty() => {
                self.end_entry(lines)
            }
            Open::Tracked => self.go_on(lines),
            _ => Err(lines.unexpected("an entry `{ key: value } hitcount: number` or `Totals:`")),
        }
    }

    fn begin<R>(&mut self, open: Open, lines: &Lines<R>) {
        self.open = open;
        self.text.clear();
        self.text.extend_from_slice(&lines.line);
        self.text_line = lines.number;
    }

    fn go_on<R>(&mut self, lines: &Lines<R>) -> Result<(), ParseError> {
        if self.text.len() + lines.line.len() > MAX_ENTRY {
            return Err(self.not_an_entry());
        }
        self.text.push(b'\n');
        self.text.extend_from_slice(&lines.line);
        self.close_if_complete(lines)
    }

    fn close_if_complete<R>(&mut self, lines: &Lines<R>) -> Result<(), ParseError> {
        let trigger = &self.histogram.trigger;
        if matches!(self.open, Open::Entry)
            && entry::may_end(&lines.line, trigger)
            && entry::parse(&self.text, trigger).is_some()
        {
            return self.end_entry(lines);
        }
        Ok(())
    }

    /// What has been gathered is an entry, or an error.
    fn end_entry<R>(&mut self, lines: &Lines<R>) -> Result<(), ParseError> {
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
                    return Err(lines.error(ErrorKind::TooMany));
                }
                self.histogram.entries.push(named.entry);
                Ok(())
            }
            Open::Tracked => match (entry::parse_tracked(&self.text), self.histogram.entries.last_mut()) {
                (Some(tracked), Some(Entry { tracked: all, .. })) if all.len() < MAX_ENTRY / 64 => {
                    all.push(tracked);
                    Ok(())
                }
                _ => Err(self.not_an_entry()),
            },
        }
    }

    fn not_an_entry(&self) -> ParseError {
        let expected = match &self.histogram.trigger.keys[..] {
            [_] => "an entry with one key, as the trigger says, and its values",
            _ => "an entry with the keys that the trigger says, and its values",
        };
        ParseError { line: self.text_line, kind: ErrorKind::Unexpected { expected, found: beginning(&self.text) } }
    }
}
