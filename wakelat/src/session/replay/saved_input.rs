//! Saved input of a view: recordings, or the text of another tool's trace.

use std::{
    io::{BufRead, Chain, Cursor, Read as _},
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use super::{
    super::open_input::{self, InputPosition, InputReader},
    unreadable,
};
use crate::config::{ConfigError, RecordedInput};
use wakelat_core::{
    recording::{Header, MAGIC, Recording},
    trace_text::TraceText,
};

/// Saved input.
pub enum SavedInput {
    /// Recordings, of which there is at least one, and whose headers have been read.
    Recordings(Vec<Recording<InputReader>>),
    /// The text of a trace, whose beginning has been read.
    Text(Box<TraceText<TextReader>>),
}

/// Reads text whose first bytes have been read before.
pub type TextReader = AfterFirst<InputReader>;

type AfterFirst<R> = Chain<Cursor<Vec<u8>>, R>;

/// What an input is.
enum Recognized<R> {
    Recording(Box<Recording<R>>),
    Text(Box<TraceText<AfterFirst<R>>>),
}

/// The first bytes of the files that perf and trace-cmd write (tools/perf/util/header.h; trace-cmd.dat(5)), and the
/// command that makes text of them.
const BINARY: [(&[u8], &str); 2] =
    [(b"PERFILE2", "perf script --ns -i FILE"), (b"\x17\x08Dtraci", "trace-cmd report -i FILE")];

impl SavedInput {
    /// Opens all files of `input`.
    ///
    /// # Errors
    /// If a file cannot be read, is neither a recording nor the text of a trace, or has nothing of the range; if one is
    /// text, and `input` requests what only recordings have.
    pub fn open(input: &RecordedInput) -> Result<Self> {
        let mut recordings = Vec::new();
        for path in &input.paths {
            let unreadable = || unreadable(path);
            let opened = open_input::open(path).with_context(unreadable)?;
            let can_seek = opened.get_ref().can_seek();
            match recognize(opened).with_context(unreadable)? {
                Recognized::Recording(recording) => {
                    let within = recording.strict(input.is_strict).within(input.range, can_seek);
                    recordings.push(within.with_context(unreadable)?);
                }
                Recognized::Text(text) => {
                    check_text(path, input)?;
                    return Ok(Self::Text(text));
                }
            }
        }
        Ok(Self::Recordings(recordings))
    }

    /// The positions in the files; none if one of them is no file.
    pub fn positions(&self) -> Vec<InputPosition> {
        let positions: Option<Vec<_>> = match self {
            Self::Recordings(recordings) => {
                recordings.iter().map(|recording| recording.input().get_ref().position()).collect()
            }
            Self::Text(text) => text.input().get_ref().1.get_ref().position().map(|position| vec![position]),
        };
        positions.unwrap_or_default()
    }

    /// What is known of the measurement, for each file.
    pub fn headers(&self) -> Vec<&Header> {
        match self {
            Self::Recordings(recordings) => recordings.iter().map(Recording::header).collect(),
            Self::Text(text) => vec![text.header()],
        }
    }
}

/// Recognizes an input by its beginning.
fn recognize<R: BufRead>(mut input: R) -> Result<Recognized<R>> {
    let mut first = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut first)?;
    if let Some((_, command)) = BINARY.iter().find(|(magic, _)| *magic == first) {
        bail!("a binary file of another tool; convert it to text with `{command}`, and read that");
    }
    if first == MAGIC {
        return Ok(Recognized::Recording(Box::new(Recording::open_after_magic(input)?)));
    }
    Ok(Recognized::Text(Box::new(TraceText::open(Cursor::new(first).chain(input))?)))
}

/// Checks that `input` only requests what the text at `path` can have.
fn check_text(path: &Path, input: &RecordedInput) -> Result<(), ConfigError> {
    let is = format!("{} is the text of a trace", open_input::name(path));
    let refused = |flag, why| Err(ConfigError::usage(flag, format!("{is}, {why}")));
    if input.is_strict {
        return refused("--strict", "which does not show whether it is truncated; leave out the flag");
    }
    if input.paths.len() > 1 {
        return refused("--input", "whose clock is not comparable with those of other files; show it alone");
    }
    let ends = [("--since", input.range.since), ("--until", input.range.until)];
    match ends.into_iter().find_map(|(flag, end)| end.map(|_| flag)) {
        Some(flag) => refused(flag, "which is always shown in full; leave out the flag"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Command;

    fn refused(bytes: &[u8]) -> String {
        recognize(bytes).err().map_or_else(String::new, |error| error.to_string())
    }

    const TEXT: &[u8] =
        b"a 7 [000] 1.000001: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> \
        next_comm=b next_pid=8 next_prio=120\n";

    #[test]
    fn input_is_recognized_by_its_beginning() {
        assert!(matches!(recognize(TEXT), Ok(Recognized::Text(_))));
        assert!(refused(&MAGIC).contains("truncated at byte"));
        assert!(refused(b"PERFILE2..").contains("`perf script --ns -i FILE`"));
        assert!(refused(b"\x17\x08Dtracing6").contains("`trace-cmd report -i FILE`"));
        for other in [&b""[..], b"hello\n", &[0; 100]] {
            assert!(refused(other).contains("neither a recording of `wakelat record` nor the text of a trace"));
        }
    }

    #[test]
    fn text_is_shown_alone_and_whole_and_cannot_be_strict() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.txt");
        std::fs::write(&path, TEXT).unwrap();
        let open = |flags: &str| {
            let line = format!("wakelat hist -i {} {flags}", path.display());
            let parsed = crate::cli::parse(line.split_whitespace().map(Into::into)).unwrap();
            let Command::Hist(config, _) = parsed.command else { panic!("{line}") };
            SavedInput::open(&config.input.unwrap())
        };
        assert!(matches!(open(""), Ok(SavedInput::Text(_))));
        for (flags, flag) in
            [("--strict", "--strict"), ("--since 1s", "--since"), ("--until 1s", "--until"), ("-i demo:", "--input")]
        {
            let Some(error) = open(flags).err() else { panic!("{flags}") };
            assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{flags}: {error:#}");
            let begin = format!("`{flag}`: `{}` is the text of a trace, ", path.display());
            assert!(error.to_string().starts_with(&begin), "{flags}: {error:#}");
        }
    }
}
