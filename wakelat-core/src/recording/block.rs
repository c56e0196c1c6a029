//! Blocks: the unit of compression, of checksums, and of reading.
//!
//! A block is a head of [`HEAD_BYTES`] and a body. The head is the length of the body, a byte that is 1 if the block
//! ends a segment, and a checksum; numbers have four bytes, little-endian. The checksum is the CRC-32 of zip and
//! Ethernet over the block's number in the file, the other fields of the head and the body: a missing, repeated or
//! misplaced block is detected, too. The body is compressed with LZ4
//! (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>) behind its uncompressed length, and has frames in
//! postcard's encoding (<https://postcard.jamesmunns.com/wire-format>), one after another.

use crc32fast::Hasher;
use lz4_flex::block::{compress_prepend_size, decompress, uncompressed_size};

use super::MAX_FRAME_BYTES;

/// Length of the head of a block: bytes.
pub const HEAD_BYTES: usize = 9;

/// The longest body: bytes. LZ4 makes bytes that it cannot compress longer by at most 1/255 and a few bytes.
const MAX_BODY_BYTES: u32 = MAX_FRAME_BYTES + MAX_FRAME_BYTES / 128;

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Length of the body: bytes.
    pub length: u32,
    /// The block is the last one of a segment.
    pub ends_segment: bool,
    checksum: u32,
}

impl BlockHead {
    /// The head in these bytes; `None` if no block begins with them.
    pub fn parse(bytes: [u8; HEAD_BYTES]) -> Option<Self> {
        let [l0, l1, l2, l3, ends @ 0..=1, c0, c1, c2, c3] = bytes else { return None };
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let checksum = u32::from_le_bytes([c0, c1, c2, c3]);
        (length <= MAX_BODY_BYTES).then_some(Self { length, ends_segment: ends == 1, checksum })
    }

    /// Whether `body` is the body of this block, and the block is the `number`th of its file.
    pub fn is_of(&self, number: u32, body: &[u8]) -> bool {
        self.checksum == checksum(number, self.length, self.ends_segment, body)
    }
}

/// Appends the `number`th block of a file to `out`, with encoded `frames` of at most [`MAX_FRAME_BYTES`].
pub fn append(number: u32, ends_segment: bool, frames: &[u8], out: &mut Vec<u8>) {
    append_body(number, ends_segment, &compress_prepend_size(frames), out);
}

/// Appends `blocks`, which are whole, to `out` as the blocks from the `number`th on of another file. Returns the number
/// after the last one.
pub fn append_renumbered(mut number: u32, mut blocks: &[u8], out: &mut Vec<u8>) -> u32 {
    while let Some((head, rest)) = blocks.split_first_chunk::<HEAD_BYTES>() {
        let Some(head) = BlockHead::parse(*head) else { break };
        let Some((body, after)) = rest.split_at_checked(head.length as usize) else { break };
        append_body(number, head.ends_segment, body, out);
        (number, blocks) = (number.wrapping_add(1), after);
    }
    number
}

fn append_body(number: u32, ends_segment: bool, body: &[u8], out: &mut Vec<u8>) {
    let length = body.len() as u32;
    out.extend(length.to_le_bytes());
    out.push(ends_segment.into());
    out.extend(checksum(number, length, ends_segment, body).to_le_bytes());
    out.extend(body);
}

/// The encoded frames in the body of a block; `None` if it is no body. Never returns more than [`MAX_FRAME_BYTES`].
pub fn frames(body: &[u8]) -> Option<Vec<u8>> {
    let (length, compressed) = uncompressed_size(body).ok()?;
    if length > MAX_FRAME_BYTES as usize {
        return None;
    }
    decompress(compressed, length).ok().filter(|frames| frames.len() == length)
}

fn checksum(number: u32, length: u32, ends_segment: bool, body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(&[ends_segment.into()]);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frames_fit_whatever_their_bytes() {
        let mut state = 1u32;
        let random = (0..MAX_FRAME_BYTES).map(|_| {
            // xorshift32: no repetition that LZ4 could use.
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        });
        let (random, mut block) = (random.collect::<Vec<u8>>(), Vec::new());
        append(3, true, &random, &mut block);
        let (head, body) = block.split_first_chunk().unwrap();
        let head = BlockHead::parse(*head).expect("the body is not too long");
        assert!(head.ends_segment && head.is_of(3, body) && !head.is_of(4, body));
        assert_eq!(frames(body).unwrap(), random);
    }

    #[test]
    fn a_body_that_claims_more_than_a_block_has_is_refused_without_memory_for_it() {
        let body = [&u32::MAX.to_le_bytes()[..], &[0; 16]].concat();
        assert_eq!(frames(&body), None);
        assert_eq!(frames(&[1, 2]), None);
        assert_eq!(BlockHead::parse([0xff; HEAD_BYTES]), None);
    }
}
