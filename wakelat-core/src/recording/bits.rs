//! Numbers of any number of bits, the lowest first, one after another.

/// Appends numbers to bytes.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Number of bits in the last byte, or none if it is full.
    used: u32,
}

/// Takes numbers from bytes. A method returns `None` if they have too few bits.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Number of bits that have been taken.
    at: usize,
}

/// The number of bits of an [`BitWriter::elastic`] number with this `shift`.
pub(super) fn elastic_bits(number: u64, shift: u32) -> u32 {
    let high = u128::from(number >> shift) + 1;
    2 * high.ilog2() + 1 + shift
}

impl BitWriter {
    /// The `count` lowest bits of `number`.
    pub fn bits(&mut self, number: u128, count: u32) {
        let mut written = 0;
        while written < count {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let room = (8 - self.used).min(count - written);
            let bits = (number >> written) as u8 & (0xff >> (8 - room));
            *self.bytes.last_mut().expect("a byte with room") |= bits << self.used;
            (self.used, written) = ((self.used + room) % 8, written + room);
        }
    }

    /// A number that is usually small, in an Exp-Golomb code: its lowest `shift` bits, and the rest in `2 n + 1` bits if it is
    /// below `2^(n+1) - 1`.
    pub fn elastic(&mut self, number: u64, shift: u32) {
        let high = u128::from(number >> shift) + 1;
        let length = high.ilog2();
        self.bits(0, length);
        self.bits(1, 1);
        self.bits(high, length);
        self.bits(number.into(), shift);
    }

    /// The bytes. The rest of the last one is zero.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

impl<'a> BitReader<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// A number of `count` bits, at most 128.
    pub fn bits(&mut self, count: u32) -> Option<u128> {
        let (mut number, mut read) = (0, 0);
        while read < count {
            let (byte, used) = (*self.bytes.get(self.at / 8)?, self.at as u32 % 8);
            let taken = (8 - used).min(count - read);
            let bits = byte >> used & (0xff >> (8 - taken));
            number |= u128::from(bits) << read;
            (self.at, read) = (self.at + taken as usize, read + taken);
        }
        Some(number)
    }

    /// A number of at most 64 bits of `count` bits.
    pub fn short(&mut self, count: u32) -> Option<u64> {
        u64::try_from(self.bits(count)?).ok()
    }

    /// Whether the next bit is set.
    pub fn flag(&mut self) -> Option<bool> {
        Some(self.bits(1)? == 1)
    }

    /// A number of [`BitWriter::elastic`].
    pub fn elastic(&mut self, shift: u32) -> Option<u64> {
        let mut length = 0;
        while !self.flag()? {
            length += 1;
        }
        let high = if length <= u64::BITS { self.bits(length)? | 1 << length } else { return None };
        let high = u64::try_from(high - 1).ok()?;
        let number = high << shift;
        (number >> shift == high).then_some(number | self.short(shift)?)
    }

    /// Whether all is taken, but for the zeros at the end of the last byte.
    pub fn is_at_end(&mut self) -> bool {
        let rest = 8 * self.bytes.len() - self.at;
        rest < 8 && self.bits(rest as u32) == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_number_is_read_as_it_was_written(
            numbers in prop::collection::vec((any::<u128>(), 0u32..=128, any::<u64>(), 0u32..64, 0u32..64), 0..20),
        ) {
            let mut writer = BitWriter::default();
            for (bits, count, number, by, shift) in &numbers {
                writer.bits(*bits, *count);
                let before = 8 * writer.bytes.len() as u32 - (8 - writer.used) % 8;
                writer.elastic(number >> by, *shift);
                let after = 8 * writer.bytes.len() as u32 - (8 - writer.used) % 8;
                prop_assert_eq!(after - before, elastic_bits(number >> by, *shift));
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (bits, count, number, by, shift) in numbers {
                let mask = if count == 128 { u128::MAX } else { (1 << count) - 1 };
                prop_assert_eq!(reader.bits(count), Some(bits & mask));
                prop_assert_eq!(reader.elastic(shift), Some(number >> by));
            }
            prop_assert!(reader.is_at_end());
            prop_assert_eq!(reader.bits(8), None);
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), shift in 0u32..64) {
            let mut reader = BitReader::new(&bytes);
            while reader.elastic(shift).is_some() {}
        }
    }

    #[test]
    fn small_numbers_take_few_bits() {
        assert_eq!([0, 1, 2, 3, 7].map(|number| elastic_bits(number, 0)), [1, 3, 3, 5, 7]);
        assert_eq!([0, 15, 16, 47, 48].map(|number| elastic_bits(number, 4)), [5, 5, 7, 7, 9]);
        assert_eq!(elastic_bits(u64::MAX, 0), 129);
    }
}
