//! The parts of one wait in which tasks ran: one for each cause and group.
//!
//! Each part is an update of a large table, and a wait on a busy CPU can have a part for every slice that is walked. So a
//! wait has at most [`PARTS`]: one for tasks of the waiter's own group, one for each of the first [`EXACT_PARTS`] − 1 others
//! that are added, and one of each cause for the others. The time of the others goes to one of them, drawn with a
//! probability in proportion to its time: the sum of a group is right on average, and the sum of a cause always.

use super::{DividedCause, GROUP_CAUSES, GroupWords, NO_CAUSE};
use crate::branch_free::{choose, is_less, is_some, smaller};

/// Parts that have the time of one group.
pub const EXACT_PARTS: usize = 4;

/// Most parts of a wait.
pub const PARTS: usize = EXACT_PARTS + WITHOUT_GROUP as usize;

/// Causes without a group are added up under this number.
const WITHOUT_GROUP: u64 = GROUP_CAUSES as u64;

/// Room for the parts, and for the time of causes without a group, which is not used: a power of two, so that a mask keeps
/// an index within bounds.
const ROOM: usize = 8;

const _: () = assert!(ROOM == PARTS + 1);

/// The time in which tasks of one group ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupPart {
    /// The group.
    pub group: GroupWords,
    /// Its time in the wait: ns; 0 for none.
    pub ns: u64,
    /// The number of a [`DividedCause`] that [has a group](super::has_group).
    pub cause: u32,
    reserved: u32,
}

impl GroupPart {
    const NONE: Self = Self::new(NO_CAUSE, [0; 2], 0);

    /// Tasks of `group` ran for `ns`.
    #[inline(always)]
    pub const fn new(cause: u32, group: GroupWords, ns: u64) -> Self {
        Self { group, ns, cause, reserved: 0 }
    }
}

/// The parts of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GroupParts {
    /// How many of the [`EXACT_PARTS`] are in use.
    used: u64,
    /// The index after the last part that is in use.
    end: u64,
    /// The last random number.
    random: u64,
    /// Always 0: see [`branch_free`](crate::branch_free).
    zero: u64,
    parts: [GroupPart; ROOM],
}

impl Default for GroupParts {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl GroupParts {
    /// No parts. So are zeros, because no task has a group of zeros.
    pub const EMPTY: Self = Self { used: 0, end: 0, random: 0, zero: 0, parts: [GroupPart::NONE; ROOM] };

    /// 0: see [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub const fn zero(&self) -> u64 {
        self.zero
    }

    /// Begins a wait of a task of the group `own`. All parts of the wait before must have been [taken](Self::take).
    #[inline(always)]
    pub const fn begin(&mut self, own: GroupWords) {
        self.parts[0].group = own;
        self.parts[0].cause = DividedCause::Task as u32;
        self.used = 1;
        self.end = 0;
    }

    /// Adds a time, which may be 0, to the part of this cause and group. A cause without a group has no part.
    ///
    /// Without a branch, so that the verifier follows one way through the slices of a wait.
    #[inline(always)]
    pub const fn add(&mut self, cause: u32, group: GroupWords, ns: u64) {
        let zero = self.zero;
        // The first free part, unless one is of this cause and group.
        let (mut at, mut is_new, mut index) = (self.used, is_some(ns, zero), 0);
        while index < EXACT_PARTS {
            let part = &self.parts[index];
            let differ = (part.cause ^ cause) as u64 | part.group[0] ^ group[0] | part.group[1] ^ group[1];
            let is_other = is_some(differ, zero);
            at = choose(is_other, at, index as u64);
            is_new &= is_other;
            index += 1;
        }
        let has_group = is_less(cause as u64, WITHOUT_GROUP, zero);
        let is_exact = is_less(at, EXACT_PARTS as u64, zero) & has_group;
        self.used += is_new & is_exact & 1;
        let shared = EXACT_PARTS as u64 + smaller(cause as u64, WITHOUT_GROUP, zero);
        let place = choose(is_exact, at, shared);
        let is_last = is_less(self.end, place + 1, zero) & has_group;
        self.end = choose(is_last, place + 1, self.end);
        let part = &mut self.parts[place as usize & (ROOM - 1)];
        part.ns = part.ns.wrapping_add(ns);
        // It becomes the part's group with the probability of its share of the time: always, if it is the only one, and
        // never without time.
        self.random = next(self.random);
        let is_drawn = is_less((self.random >> 40).wrapping_mul(part.ns) >> 24, ns, zero);
        part.group[0] = choose(is_drawn, group[0], part.group[0]);
        part.group[1] = choose(is_drawn, group[1], part.group[1]);
        part.cause = choose(is_drawn, cause as u64, part.cause as u64) as u32;
    }

    /// Sets the only part of a cause that [has a group](super::has_group), by its number. Of the groups that ran, `group` was
    /// drawn.
    #[inline(always)]
    pub const fn add_drawn(&mut self, cause: u32, group: GroupWords, ns: u64) {
        let place = EXACT_PARTS + cause as usize;
        self.parts[place & (ROOM - 1)] = GroupPart::new(cause, group, ns);
        self.end = place as u64 + 1;
    }

    /// A random number below `ns`, which is not 0.
    #[inline(always)]
    pub const fn random_below(&mut self, ns: u64) -> u64 {
        self.random = next(self.random);
        let random = self.random >> 32;
        random * (ns >> 32) + ((random * (ns & 0xffff_ffff)) >> 32)
    }

    /// The index after the last part: at most [`PARTS`].
    #[inline(always)]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Removes and returns the part with this index, below [`Self::end`]. It can be without time.
    #[inline(always)]
    pub const fn take(&mut self, index: usize) -> GroupPart {
        let part = &mut self.parts[index & (ROOM - 1)];
        let taken = *part;
        part.ns = 0;
        part.cause = NO_CAUSE;
        taken
    }
}

/// The random number after this one, whose high bits are the random ones: the generator of MMIX (Knuth, The Art of Computer
/// Programming, volume 2, 3.3.4).
#[inline(always)]
const fn next(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const TASK: u32 = DividedCause::Task as u32;
    const OWN: GroupWords = [1, 0];

    /// The parts of a wait whose slices are these, without those that have no time.
    fn parts_of(parts: &mut GroupParts, slices: &[(u32, u64, u64)]) -> Vec<(u32, GroupWords, u64)> {
        parts.begin(OWN);
        slices.iter().for_each(|(cause, group, ns)| parts.add(*cause, [*group, 0], *ns));
        let taken: Vec<GroupPart> = (0..parts.end() as usize).map(|index| parts.take(index)).collect();
        taken.iter().filter(|part| part.ns > 0).map(|part| (part.cause, part.group, part.ns)).collect()
    }

    #[test]
    fn few_groups_have_their_times_whatever_the_order_of_their_slices() {
        let slices =
            [(TASK, 2, 5), (TASK, 1, 7), (TASK, 3, 1), (TASK, 2, 5), (2, 2, 9), (3, 5, 4), (TASK, 1, 1), (TASK, 9, 0)];
        let found = parts_of(&mut GroupParts::default(), &slices);
        let expected = [(TASK, 1, 8), (TASK, 2, 10), (TASK, 3, 1), (2, 2, 9)];
        assert_eq!(found, expected.map(|(cause, group, ns)| (cause, [group, 0], ns)));
    }

    #[test]
    fn a_group_among_many_has_its_time_on_average() {
        const WAITS: u64 = 100_000;
        // Group 10 + n runs for 10 + n.
        let slices: Vec<_> = (0..40).map(|n| (TASK, 10 + n, 10 + n)).collect();
        let (mut parts, mut sums) = (GroupParts::EMPTY, BTreeMap::<u64, u64>::new());
        for _ in 0..WAITS {
            for (_, [group, _], ns) in parts_of(&mut parts, &slices) {
                *sums.entry(group).or_default() += ns;
            }
        }
        for (_, group, ns) in slices {
            let (found, expected) = (sums[&group] as f64, (WAITS * ns) as f64);
            // The standard deviation of a sum is at most 2.9 % of it.
            assert!((found / expected - 1.0).abs() < 0.1, "{group}: {found} of {expected}");
        }
    }

    proptest! {
        #[test]
        fn each_cause_and_the_own_group_have_their_times(
            waits in prop::collection::vec(prop::collection::vec((0..10u32, 0..20u64, 0..1u64 << 39), 0..64), 1..4),
        ) {
            let mut parts = GroupParts::EMPTY;
            for slices in waits {
                let found = parts_of(&mut parts, &slices);
                prop_assert!(found.len() <= PARTS);
                for cause in 0..3 {
                    let expected: u64 = slices.iter().filter(|(of, ..)| *of == cause).map(|(.., ns)| ns).sum();
                    prop_assert_eq!(found.iter().filter(|(of, ..)| *of == cause).map(|(.., ns)| ns).sum::<u64>(), expected);
                }
                let own: u64 = slices.iter().filter(|(cause, group, _)| (*cause, *group) == (TASK, 1)).map(|(.., ns)| ns).sum();
                let found_own = found.iter().filter(|(cause, group, _)| (*cause, *group) == (TASK, OWN));
                prop_assert_eq!(found_own.map(|(.., ns)| ns).sum::<u64>(), own);
                // Only groups that ran have a part.
                for (cause, [group, _], _) in found {
                    prop_assert!(slices.iter().any(|slice| (slice.0, slice.1) == (cause, group)));
                }
            }
        }

        #[test]
        fn up_to_three_other_groups_have_their_times(
            slices in prop::collection::vec((1..5u64, 0..1u64 << 39), 0..64),
        ) {
            let slices: Vec<_> = slices.into_iter().map(|(group, ns)| (TASK, group, ns)).collect();
            let mut expected = BTreeMap::<(u32, GroupWords), u64>::new();
            slices.iter().for_each(|(cause, group, ns)| *expected.entry((*cause, [*group, 0])).or_default() += ns);
            let found = parts_of(&mut GroupParts::default(), &slices);
            let found: BTreeMap<_, _> = found.into_iter().map(|(cause, group, ns)| ((cause, group), ns)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
