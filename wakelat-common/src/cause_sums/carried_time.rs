//! Time of waits that is in no pair yet.

use crate::wait_division::{GroupParts, GroupWords};

/// Waiting time of a group for one cause that is not yet in a pair. It comes from several waits, and belongs to one of the
/// groups that ran, drawn with a probability in proportion to its time. So the time of a pair is right on average, and the
/// sum of all pairs is exact.
///
/// It costs less than a pair for each wait, and needs no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CarriedTime {
    /// The group that was drawn.
    pub running: GroupWords,
    /// The time: ns; 0 for none.
    pub ns: u64,
    /// Number of waits, each counted once for each group that ran.
    pub waits: u64,
    /// The time when the pair had no room: ns; 0 if that has not happened.
    without_room_ns: u64,
}

/// Time is carried until it is this power of 1/2 of the group's waiting time.
const MOST_SHIFT: u32 = 4;

impl CarriedTime {
    /// None.
    pub const NONE: Self = Self { running: [0; 2], ns: 0, waits: 0, without_room_ns: 0 };

    /// Adds more than 0 ns in as many waits, in which `running` ran or was drawn.
    #[inline(always)]
    pub const fn add(&mut self, running: GroupWords, ns: u64, waits: u64, random: &mut GroupParts) {
        self.ns = self.ns.wrapping_add(ns);
        self.waits = self.waits.wrapping_add(waits);
        if random.random_below(self.ns) < ns {
            self.running = running;
        }
    }

    /// Puts back what was [taken](Self::take), because its pair had no room.
    #[inline(always)]
    pub const fn put_back(&mut self, running: GroupWords, ns: u64, waits: u64) {
        *self = Self { running, ns, waits, without_room_ns: ns };
    }

    /// Removes and returns all of it, once it is a sixteenth of `sum_ns`, the group's waiting time so far, and twice what was
    /// put back. Of few waits, each is taken at once.
    #[inline(always)]
    pub const fn take(&mut self, sum_ns: u64) -> Option<Self> {
        if self.ns < sum_ns >> MOST_SHIFT || self.ns < self.without_room_ns << 1 {
            return None;
        }
        let taken = *self;
        *self = Self::NONE;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn few_waits_are_not_carried_and_many_are_until_they_are_a_sixteenth() {
        let (mut carried, mut random, mut takes, mut taken_ns) = (CarriedTime::NONE, GroupParts::EMPTY, 0, 0);
        for wait in 1..=1_000 {
            carried.add([1, 0], 10, 1, &mut random);
            let taken = carried.take(wait * 10);
            // Only then is the sum more than 16 times as much as one wait.
            assert!(wait > 16 || taken.is_some(), "{wait}");
            takes += u64::from(taken.is_some());
            taken_ns += taken.map_or(0, |taken| taken.ns);
        }
        // It grows by a fifteenth from one to the next.
        assert!((60..=80).contains(&takes), "{takes}");
        assert_eq!(taken_ns + carried.ns, 10_000);
    }

    #[test]
    fn what_had_no_room_is_taken_once_it_has_doubled() {
        let (mut carried, mut random) = (CarriedTime::NONE, GroupParts::EMPTY);
        carried.put_back([1, 0], 10, 1);
        carried.add([1, 0], 9, 1, &mut random);
        assert_eq!(carried.take(0), None);
        carried.add([1, 0], 1, 1, &mut random);
        let taken = carried.take(0).expect("twice as much");
        assert_eq!((taken.running, taken.ns, taken.waits), ([1, 0], 20, 3));
        assert_eq!(carried, CarriedTime::NONE);
    }

    #[test]
    fn a_group_has_its_time_on_average() {
        const WAITS: u64 = 200_000;
        let (mut carried, mut random) = (CarriedTime::NONE, GroupParts::EMPTY);
        let mut sums = BTreeMap::<u64, [u64; 2]>::new();
        // Of four waits, group 1 has one of 3, group 2 has three of 1.
        for wait in 0..WAITS {
            let (group, ns) = if wait % 4 == 0 { (1, 3) } else { (2, 1) };
            carried.add([group, 0], ns, 1, &mut random);
            if let Some(taken) = carried.take(160) {
                let [ns, waits] = sums.entry(taken.running[0]).or_default();
                (*ns, *waits) = (*ns + taken.ns, *waits + taken.waits);
            }
        }
        let [[one_ns, one_waits], [two_ns, two_waits]] = [sums[&1], sums[&2]];
        assert_eq!(one_ns + two_ns + carried.ns, WAITS / 4 * 6);
        assert_eq!(one_waits + two_waits + carried.waits, WAITS);
        // Half of the time each; the standard deviation is 0.4 % of it.
        let share = one_ns as f64 / (one_ns + two_ns) as f64;
        assert!((share - 0.5).abs() < 0.02, "{share}");
    }
}
