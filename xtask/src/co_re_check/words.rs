//! Sections of an object file as words.

use anyhow::Context as _;
use object::{Endian as _, Endianness};

/// Bytes read as 32-bit words.
#[derive(Clone, Copy)]
pub struct WordReader<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Their order within a word.
    pub endian: Endianness,
}

impl WordReader<'_> {
    /// Reads the word at an offset in bytes.
    pub fn word(&self, offset: usize) -> anyhow::Result<usize> {
        let bytes = self.bytes.get(offset..offset + 4).context("a section is cut short")?;
        Ok(self.endian.read_u32(bytes.try_into()?) as usize)
    }
}
