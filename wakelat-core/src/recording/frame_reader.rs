//! Decodes the frames of blocks, of each format that is read.

use std::borrow::Cow;

use super::{
    COMPACT_FORMAT, Frame,
    byte_cursor::ByteCursor,
    compact_events::{self, EventContext},
    histograms::IntervalHistograms,
    row_histograms,
};

/// The number of [`Frame::Histograms`] in postcard's encoding.
const HISTOGRAMS: u8 = 13;

/// Decodes the frames of blocks, one after the other.
#[derive(Clone, Debug)]
pub(super) struct FrameReader {
    format: u32,
    events: EventContext,
}

impl FrameReader {
    /// A reader of blocks of this format.
    pub fn new(format: u32) -> Self {
        Self { format, events: EventContext::default() }
    }

    /// Begins the next block.
    pub fn begin_block(&mut self) {
        self.events.clear();
    }

    /// The frame that `bytes` begin with, and its length; `None` if they begin with none.
    pub fn frame(&mut self, bytes: &[u8]) -> Option<(Frame<'static>, usize)> {
        let is_compact = self.format >= COMPACT_FORMAT;
        let (frame, rest) = match bytes {
            [first, ..] if is_compact && *first >= compact_events::INTERRUPT => {
                let mut cursor = ByteCursor(bytes);
                (Frame::Event(Cow::Owned(self.events.event(&mut cursor)?)), cursor.0)
            }
            [HISTOGRAMS, numbers @ ..] if !is_compact => {
                let (numbers, rest): (Vec<u64>, _) = postcard::take_from_bytes(numbers).ok()?;
                (Frame::Histograms(IntervalHistograms::new(row_histograms::unpack(numbers)?)), rest)
            }
            _ => postcard::take_from_bytes(bytes).ok()?,
        };
        if let Frame::Event(event) = &frame
            && bytes[0] < compact_events::INTERRUPT
        {
            self.events.pass(event.cpu, event.seq);
        }
        Some((frame, bytes.len() - rest.len()))
    }
}
