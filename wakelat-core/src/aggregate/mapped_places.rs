//! Where a table has the sums of keys, so that most are found without a hash of the whole key.

/// The number of slots of [`MappedPlaces`].
const SLOTS: usize = 1 << 12;

/// Where a table last had the sum of each key: a place for [`super::space_saving::SpaceSaving::entry_near`]. Each key
/// has one of a fixed number of slots.
#[derive(Clone, Debug)]
pub struct MappedPlaces(Box<[u32; SLOTS]>);

impl Default for MappedPlaces {
    fn default() -> Self {
        Self(Box::new([0; SLOTS]))
    }
}

impl MappedPlaces {
    /// The place of a key with this hash, which other keys may have, too.
    #[inline]
    pub fn of(&mut self, hash: u64) -> &mut u32 {
        // Fibonacci hashing: the high bits of the product depend on all bits.
        let slot = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.trailing_zeros());
        &mut self.0[slot as usize]
    }
}
