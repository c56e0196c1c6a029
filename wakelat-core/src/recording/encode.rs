//! Encodes frames to the bytes of a file.

use std::io;

use postcard::ser_flavors::Flavor;

use super::{
    FORMAT, Frame, FrameSink, MAGIC, MAX_FRAME_BYTES, block,
    byte_cursor::{EventBytes, MAX_EVENT_BYTES},
    compact_events::EventContext,
};
use crate::timeline::decode::KnownSwitch;

/// The bytes of a recording, block by block. A frame is in [`Self::bytes`] when its block is full, and at the latest when
/// its segment ends.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// Number of blocks so far.
    blocks: u32,
    /// The frames of the current block.
    pub(super) frames: Vec<u8>,
    /// What a reader of the current block knows from its events so far.
    events: EventContext,
    /// The last of them.
    event: EventBytes,
    /// In the warm-up, which no reading ends, each block is a segment: however long it is, the reader keeps none of it.
    warming_up: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            bytes: [&MAGIC[..], &FORMAT.to_le_bytes()].concat(),
            blocks: 0,
            frames: Vec::new(),
            events: EventContext::default(),
            event: EventBytes::default(),
            warming_up: false,
        }
    }
}

impl Encoder {
    /// The bytes since the last [`Self::clear`], as the file has them one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the bytes so far, which are written.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    fn end_block(&mut self, ends_segment: bool) {
        block::append(self.blocks, ends_segment, &self.frames, &mut self.bytes);
        self.frames.clear();
        self.events.clear();
        self.blocks = self.blocks.wrapping_add(1);
    }

    /// Appends `frame` to the frames of the current block.
    #[inline]
    fn append(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        if let Frame::Event(event) = frame
            && self.events.encode(event, &mut self.event)
        {
            self.event.append_to(&mut self.frames);
            return Ok(());
        }
        let begin = self.frames.len();
        postcard::serialize_with_flavor(frame, AppendedBytes(&mut self.frames)).map_err(|error| {
            self.frames.truncate(begin);
            io::Error::other(error)
        })
    }
}

impl FrameSink for Encoder {
    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        const MAX_BYTES: usize = MAX_FRAME_BYTES as usize;
        // A reader that looks for a time reads only the blocks with reports.
        if matches!(frame, Frame::Reading(_) | Frame::End(_)) && !self.frames.is_empty() {
            self.end_block(self.warming_up);
        }
        let begin = self.frames.len();
        self.append(frame)?;
        if self.frames.len() > MAX_BYTES && begin > 0 {
            // It begins the next block, where nothing is known from the events of this one.
            self.frames.truncate(begin);
            self.end_block(self.warming_up);
            self.append(frame)?;
        }
        let length = self.frames.len();
        if length > MAX_BYTES {
            self.frames.clear();
            return Err(io::Error::other(format!(
                "a piece of {length} bytes is too long for a recording; the limit is {MAX_BYTES}"
            )));
        }
        match frame {
            Frame::Header(header) => self.warming_up = header.has_warm_up,
            Frame::WarmedUp => self.warming_up = false,
            _ => {}
        }
        Ok(())
    }

    fn known_switch(&mut self, known: &KnownSwitch<'_>) -> bool {
        let has_room = self.frames.len() + MAX_EVENT_BYTES <= MAX_FRAME_BYTES as usize;
        if !has_room || !self.events.encode_known(known, &mut self.event) {
            return false;
        }
        self.event.append_to(&mut self.frames);
        true
    }

    fn end_segment(&mut self) -> io::Result<()> {
        self.end_block(true);
        Ok(())
    }
}

/// Appends what postcard encodes. Most pieces are numbers of a few bytes: copies of a fixed length need no call.
struct AppendedBytes<'a>(&'a mut Vec<u8>);

impl Flavor for AppendedBytes<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        match *bytes {
            [byte] => self.0.push(byte),
            [a, b] => self.0.extend_from_slice(&[a, b]),
            [a, b, c] => self.0.extend_from_slice(&[a, b, c]),
            [a, b, c, d] => self.0.extend_from_slice(&[a, b, c, d]),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
