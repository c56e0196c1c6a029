//! Saved input of a view: a recording, or the text of another tool's trace.

use std::io::{BufRead, Cursor, Read as _};

use anyhow::{Result, bail};

use wakelat_core::{
    recording::{Frame, Header, MAGIC, Recording},
    trace_text::TraceText,
};

/// Saved input.
pub enum SavedInput {
    /// A recording, whose header has been read.
    Recording(Box<Recording<Box<dyn BufRead>>>),
    /// The text of a trace, whose beginning has been read.
    Text(Box<TraceText<Box<dyn BufRead>>>),
}

/// The first bytes of the files that perf and trace-cmd write (tools/perf/util/header.h; trace-cmd.dat(5)), and the
/// command that makes text of them.
const BINARY: [(&[u8], &str); 2] =
    [(b"PERFILE2", "perf script --ns -i FILE"), (b"\x17\x08Dtraci", "trace-cmd report -i FILE")];

impl SavedInput {
    /// Recognizes the input by its beginning. With `is_strict`, the end of a recording must not be missing.
    ///
    /// # Errors
    /// If the input cannot be read, is neither, or is text and `is_strict`.
    pub fn open(mut input: Box<dyn BufRead>, is_strict: bool) -> Result<Self> {
        let mut first = Vec::new();
        input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut first)?;
        if let Some((_, command)) = BINARY.iter().find(|(magic, _)| *magic == first) {
            bail!("a binary file of another tool; convert it to text with `{command}`, and read that");
        }
        let is_recording = first == MAGIC;
        let input: Box<dyn BufRead> = Box::new(Cursor::new(first).chain(input));
        if is_recording {
            return Ok(Self::Recording(Box::new(Recording::open(input)?.strict(is_strict))));
        }
        let text = TraceText::open(input)?;
        if is_strict {
            bail!("the text of a trace does not show whether its end is missing; leave out `--strict`");
        }
        Ok(Self::Text(Box::new(text)))
    }

    /// What is known of the measurement.
    pub fn header(&self) -> &Header {
        match self {
            Self::Recording(recording) => recording.header(),
            Self::Text(text) => text.header(),
        }
    }

    /// The next frame; none after [`Frame::End`].
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn frame(&mut self) -> Result<Option<Frame<'static>>> {
        Ok(match self {
            Self::Recording(recording) => recording.frame()?,
            Self::Text(text) => text.frame()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(bytes: &[u8], is_strict: bool) -> Result<SavedInput> {
        SavedInput::open(Box::new(Cursor::new(bytes.to_vec())), is_strict)
    }

    fn refused(bytes: &[u8], is_strict: bool) -> String {
        open(bytes, is_strict).err().map_or_else(String::new, |error| error.to_string())
    }

    const TEXT: &[u8] =
        b"a 7 [000] 1.000001: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> \
        next_comm=b next_pid=8 next_prio=120\n";

    #[test]
    fn input_is_recognized_by_its_beginning() {
        assert!(matches!(open(TEXT, false), Ok(SavedInput::Text(_))));
        assert!(refused(&MAGIC, false).contains("truncated at byte"));
        assert!(refused(b"PERFILE2..", false).contains("`perf script --ns -i FILE`"));
        assert!(refused(b"\x17\x08Dtracing6", false).contains("`trace-cmd report -i FILE`"));
        for other in [&b""[..], b"hello\n", &[0; 100]] {
            assert!(refused(other, false).contains("neither a recording of `wakelat record` nor the text of a trace"));
        }
    }

    #[test]
    fn only_a_recording_can_be_strict() {
        assert!(refused(TEXT, true).contains("leave out `--strict`"));
    }
}
