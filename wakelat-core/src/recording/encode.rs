//! Encodes frames to the bytes of a file.

use std::io;

use super::{FORMAT, Frame, FrameSink, MAGIC, MAX_FRAME_BYTES, block};

/// The bytes of a recording, block by block. A frame is in [`Self::bytes`] when its block is full, and at the latest when
/// its segment ends.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// Number of blocks so far.
    blocks: u32,
    /// The frames of the current block.
    pub(super) frames: Vec<u8>,
    /// The current frame; kept, so that no frame allocates.
    frame: Vec<u8>,
    /// In the warm-up, which no reading ends, each block is a segment: however long it is, the reader keeps none of it.
    warming_up: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            bytes: [&MAGIC[..], &FORMAT.to_le_bytes()].concat(),
            blocks: 0,
            frames: Vec::new(),
            frame: Vec::new(),
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
        self.blocks = self.blocks.wrapping_add(1);
    }
}

impl FrameSink for Encoder {
    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        const MAX_BYTES: usize = MAX_FRAME_BYTES as usize;
        self.frame.clear();
        self.frame = postcard::to_extend(frame, std::mem::take(&mut self.frame)).map_err(io::Error::other)?;
        let length = self.frame.len();
        if length > MAX_BYTES {
            return Err(io::Error::other(format!(
                "a piece of {length} bytes is too long for a recording; the limit is {MAX_BYTES}"
            )));
        }
        // A reader that looks for a time reads only the blocks with reports.
        let begins_block = matches!(frame, Frame::Reading(_) | Frame::End(_)) && !self.frames.is_empty();
        if begins_block || self.frames.len() + length > MAX_BYTES {
            self.end_block(self.warming_up);
        }
        self.frames.extend_from_slice(&self.frame);
        match frame {
            Frame::Header(header) => self.warming_up = header.has_warm_up,
            Frame::WarmedUp => self.warming_up = false,
            _ => {}
        }
        Ok(())
    }

    fn end_segment(&mut self) -> io::Result<()> {
        self.end_block(true);
        Ok(())
    }
}
