//! Where tables have the sums of culprits, so that most shares are added without a hash function.

use crate::timeline::culprit_number::CulpritNumber;

/// Where a table last had the sum of each culprit, by number: a place for
/// [`crate::aggregate::space_saving::SpaceSaving::entry_near`].
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<u32>);

impl Places {
    /// The place of a culprit.
    #[inline]
    pub fn of(&mut self, number: CulpritNumber) -> &mut u32 {
        if self.0.len() <= number.index() {
            self.0.resize(number.index() + 1, 0);
        }
        &mut self.0[number.index()]
    }
}
