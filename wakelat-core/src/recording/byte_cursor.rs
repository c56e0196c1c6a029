//! Numbers with seven bits a byte, the lowest first: the highest bit of a byte is set if another one follows.

/// The bytes of one event, in memory that is used for one after the other. They are at most [`MAX_EVENT_BYTES`], so that
/// no byte needs a check for room.
#[derive(Clone, Debug)]
pub(super) struct EventBytes {
    bytes: [u8; MAX_EVENT_BYTES],
    length: u8,
}

/// More than the 196 bytes of a switch with all that it can have: two new tasks, a wait, and the longest numbers.
pub(super) const MAX_EVENT_BYTES: usize = 256;

impl Default for EventBytes {
    fn default() -> Self {
        Self { bytes: [0; MAX_EVENT_BYTES], length: 0 }
    }
}

impl EventBytes {
    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends `byte`.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes[usize::from(self.length)] = byte;
        self.length += 1;
    }

    /// Appends these bytes.
    #[inline]
    pub fn extend(&mut self, bytes: impl IntoIterator<Item = u8>) {
        bytes.into_iter().for_each(|byte| self.byte(byte));
    }

    /// Appends `number`.
    #[inline]
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Appends the difference from `before` to `after`, whose sign is the lowest bit.
    #[inline]
    pub fn difference(&mut self, after: u64, before: u64) {
        let difference = after.wrapping_sub(before) as i64;
        self.number((difference << 1 ^ difference >> 63) as u64);
    }

    /// Appends all bytes so far to `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        const FEW: usize = 32;
        let length = usize::from(self.length);
        if length <= FEW {
            // A copy of a fixed length needs no call.
            let end = out.len() + length;
            out.extend_from_slice(&self.bytes[..FEW]);
            out.truncate(end);
        } else {
            out.extend_from_slice(self.as_slice());
        }
    }

    /// All bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A cursor over bytes: each method takes the first ones. It returns `None` if they do not have what it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteCursor<'a>(pub &'a [u8]);

impl ByteCursor<'_> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// A number of [`EventBytes::number`].
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if byte < 0x80 {
                return (bits << shift >> shift == bits).then_some(number);
            }
        }
        None
    }

    /// A number of [`EventBytes::number`] that has at most 32 bits.
    pub fn short_number(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// What differs from `before` by a difference of [`EventBytes::difference`].
    pub fn difference_to(&mut self, before: u64) -> Option<u64> {
        let bits = self.number()?;
        Some(before.wrapping_add(bits >> 1 ^ (bits & 1).wrapping_neg()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_number_and_difference_is_read_as_it_was_written(bits: u64, by in 0u32..64, before: u64) {
            let (number, mut bytes) = (bits >> by, EventBytes::default());
            bytes.number(number);
            bytes.difference(number, before);
            bytes.byte(7);
            let mut cursor = ByteCursor(bytes.as_slice());
            prop_assert_eq!(cursor.number(), Some(number));
            prop_assert_eq!(cursor.difference_to(before), Some(number));
            prop_assert_eq!((cursor.byte(), cursor.byte()), (Some(7), None));
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let of = |last| [&[0xff; 9][..], &[last]].concat();
        assert_eq!(ByteCursor(&of(1)).number(), Some(u64::MAX));
        assert_eq!(ByteCursor(&of(2)).number(), None);
        assert_eq!(ByteCursor(&[0x80; 12]).number(), None);
        assert_eq!(ByteCursor(&[0x80]).number(), None);
    }
}
