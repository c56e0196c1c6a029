//! Decodes the frames of blocks.

use std::borrow::Cow;

use super::{
    Frame,
    byte_cursor::ByteCursor,
    compact_events::{self, EventContext},
};

/// Decodes the frames of blocks, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameReader {
    events: EventContext,
}

impl FrameReader {
    /// Begins the next block.
    pub fn begin_block(&mut self) {
        self.events.clear();
    }

    /// The frame that `bytes` begin with, and its length; `None` if they begin with none.
    pub fn frame(&mut self, bytes: &[u8]) -> Option<(Frame<'static>, usize)> {
        if bytes.first().is_some_and(|first| *first >= compact_events::INTERRUPT) {
            let mut cursor = ByteCursor(bytes);
            let event = self.events.event(&mut cursor)?;
            return Some((Frame::Event(Cow::Owned(event)), bytes.len() - cursor.0.len()));
        }
        let (frame, rest): (Frame<'static>, &[u8]) = postcard::take_from_bytes(bytes).ok()?;
        if let Frame::Event(event) = &frame {
            self.events.pass(event.cpu, event.seq);
        }
        Some((frame, bytes.len() - rest.len()))
    }
}
