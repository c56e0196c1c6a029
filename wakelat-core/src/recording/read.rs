//! Reads recordings.

use std::io::{ErrorKind, Read};

use crc32fast::Hasher;

use super::{FORMAT, Frame, Header, MAGIC, MAX_FRAME_BYTES, OLDEST_FORMAT, RecordingError};
use crate::report::SwitchInTerms;

/// A recording, read frame by frame.
#[derive(Debug)]
pub struct Recording<R> {
    input: R,
    at: u64,
    /// CRC-32 of all frames so far.
    checksum: Hasher,
    events: u64,
    ended: bool,
    header: Header,
    /// The terms of switch-ins, until the report comes.
    switch_ins: Option<SwitchInTerms>,
}

impl<R: Read> Recording<R> {
    /// Reads the header of a recording.
    ///
    /// # Errors
    /// If the input cannot be read, or is not a recording of a format from [`OLDEST_FORMAT`] to [`FORMAT`].
    pub fn open(input: R) -> Result<Self, RecordingError> {
        let header =
            Header { version: String::new(), from: Default::default(), merged: false, collected: Default::default() };
        let mut recording =
            Self { input, at: 0, checksum: Hasher::new(), events: 0, ended: false, header, switch_ins: None };
        let no_magic = |error| if is_end(&error) { RecordingError::NotARecording } else { error };
        if recording.bytes::<8>().map_err(no_magic)? != MAGIC {
            return Err(RecordingError::NotARecording);
        }
        match u32::from_le_bytes(recording.bytes()?) {
            OLDEST_FORMAT..=FORMAT => {}
            other => return Err(RecordingError::UnsupportedFormat(other)),
        }
        let at = recording.at;
        match recording.frame()? {
            Some(Frame::Header(header)) => Ok(Self { header, ..recording }),
            _ => Err(RecordingError::Damaged { at }),
        }
    }

    /// The header: how the recording was measured.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; none after [`Frame::End`].
    ///
    /// # Errors
    /// If the input cannot be read, is damaged, ends before [`Frame::End`], or continues after it.
    pub fn frame(&mut self) -> Result<Option<Frame<'static>>, RecordingError> {
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        let (length, checksum) = (u32::from_le_bytes(self.bytes()?), u32::from_le_bytes(self.bytes()?));
        if length > MAX_FRAME_BYTES {
            return Err(RecordingError::Damaged { at });
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        self.checksum.update(&bytes);
        if self.checksum.clone().finalize() != checksum {
            return Err(RecordingError::Damaged { at });
        }
        let Ok((mut frame, [])) = postcard::take_from_bytes(&bytes) else { return Err(RecordingError::Damaged { at }) };
        match &mut frame {
            Frame::Event(_) => self.events += 1,
            Frame::SwitchIns(terms) => self.switch_ins = Some(*terms),
            Frame::End(report) => {
                report.coverage.switch_ins = self.switch_ins;
                self.end()?;
            }
            _ => {}
        }
        Ok(Some(frame))
    }

    /// Ends the recording, after which no data may follow.
    fn end(&mut self) -> Result<(), RecordingError> {
        self.ended = true;
        let at = self.at;
        match self.bytes::<1>() {
            Ok(_) => Err(RecordingError::TrailingData { at }),
            Err(error) if is_end(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], RecordingError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RecordingError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => RecordingError::Truncated { events: self.events },
            _ => RecordingError::Io(error),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn is_end(error: &RecordingError) -> bool {
    matches!(error, RecordingError::Truncated { .. })
}
