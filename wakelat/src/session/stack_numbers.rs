//! The numbers that stacks have in user space. The kernel's maps keep a fixed number of stacks, and a run can be of any
//! length: stacks that no task has had for a while are removed, and an ID in the map then names several stacks, one
//! after the other. Each of them has a number of its own.

use wakelat_common::stack::MAX_STACKS;

/// A stack that no task has had for this long can be removed: ns.
const UNUSED_NS: u64 = 5_000_000_000;

/// Number of buckets that are searched for such stacks at once. Looking at all of them takes eight readings, of which
/// none keeps the reader away from the events for longer than a millisecond.
const AT_ONCE: u32 = MAX_STACKS / 8;

/// Number of stacks from which on room is short: a new stack then finds its bucket occupied once in eight times.
const MANY: u32 = MAX_STACKS / 8;

/// The stacks of one map.
#[derive(Debug)]
pub struct StackNumbers {
    /// By ID.
    buckets: Vec<Bucket>,
    /// Number of buckets whose stack an event has had.
    used: u32,
    /// The next bucket to search; `MAX_STACKS` if room is not short.
    next: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Number of stacks that were removed from it.
    removed: u32,
    /// When the last one was removed: ns of CLOCK_MONOTONIC.
    removed_at_ns: u64,
    /// When a task had its stack last: ns of CLOCK_MONOTONIC. `None` if no event with the stack has been read.
    used_at_ns: Option<u64>,
}

impl Default for StackNumbers {
    fn default() -> Self {
        Self { buckets: vec![Bucket::default(); MAX_STACKS as usize], used: 0, next: MAX_STACKS }
    }
}

impl StackNumbers {
    /// The number of the stack with this ID that a task had at `at_ns`; `None` if the stack has been removed before
    /// this event was read. Before the first removal, it is the ID.
    pub fn number(&mut self, id: u32, at_ns: u64) -> Option<u32> {
        let bucket = self.buckets.get_mut(id as usize)?;
        // The program looks up the stack after `at_ns`: only of later events is it certain that they have the next
        // stack.
        if at_ns <= bucket.removed_at_ns {
            return None;
        }
        self.used += u32::from(bucket.used_at_ns.is_none());
        bucket.used_at_ns = bucket.used_at_ns.max(Some(at_ns));
        Some(bucket.number(id))
    }

    /// The ID of the stack with this number.
    pub const fn id(number: u32) -> u32 {
        number % MAX_STACKS
    }

    /// Whether the stack with this number has not been removed.
    pub fn is_kept(&self, number: u32) -> bool {
        let id = Self::id(number);
        self.buckets.get(id as usize).is_some_and(|bucket| bucket.number(id) == number)
    }

    /// Whether [`Self::remove_unused`] has to search for unused stacks: room is short, or a stack was lost (`has_lost`)
    /// because there was none, or the last search has not ended.
    pub fn is_room_short(&self, has_lost: bool) -> bool {
        has_lost || self.used >= MANY || self.next < MAX_STACKS
    }

    /// Removes unused stacks if room is short, or if a stack was lost (`has_lost`) because there was none. Call this a
    /// few times a second, when the events so far have been read. `remove` removes the stack with a number from the
    /// map, and returns whether there was one; `now_ns` reads CLOCK_MONOTONIC.
    pub fn remove_unused(&mut self, has_lost: bool, now_ns: impl Fn() -> u64, mut remove: impl FnMut(u32) -> bool) {
        if self.next == MAX_STACKS && (has_lost || self.used >= MANY) {
            self.next = 0;
        }
        let (first, end) = (self.next, (self.next + AT_ONCE).min(MAX_STACKS));
        self.next = end;
        let unused_since_ns = now_ns().saturating_sub(UNUSED_NS);
        for (id, bucket) in (first..end).zip(self.buckets.iter_mut().skip(first as usize)) {
            // If no event has had the stack, its record was lost.
            if bucket.used_at_ns.is_some_and(|at_ns| at_ns > unused_since_ns) || !remove(bucket.number(id)) {
                continue;
            }
            self.used -= u32::from(bucket.used_at_ns.is_some());
            *bucket = Bucket { removed: bucket.removed.wrapping_add(1), removed_at_ns: now_ns(), used_at_ns: None };
        }
    }
}

impl Bucket {
    /// The number of its current stack. It is used again after a million others in this bucket.
    const fn number(&self, id: u32) -> u32 {
        self.removed.wrapping_mul(MAX_STACKS) | id
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Removes unused stacks at `now_ns`, as many readings as it takes. Returns the numbers whose removal was tried.
    fn removed(numbers: &mut StackNumbers, has_lost: bool, now_ns: u64) -> Vec<u32> {
        let mut tried = Vec::new();
        let mut remove = |number: u32| {
            tried.push(number);
            true
        };
        for reading in 0..MAX_STACKS / AT_ONCE {
            numbers.remove_unused(has_lost && reading == 0, || now_ns, &mut remove);
        }
        tried
    }

    #[test]
    fn a_recorder_of_any_length_has_room_for_new_stacks() {
        let (mut numbers, mut in_map) = (StackNumbers::default(), vec![false; MAX_STACKS as usize]);
        let (mut seen, mut lost) = (std::collections::HashSet::new(), 0);
        // Each second has a hundred new stacks, each in the next bucket, and one that is always there.
        for second in 10..2_000 {
            let now_ns = second * SECOND;
            for new in 0..100 {
                let id = ((second * 100 + new) % u64::from(MAX_STACKS - 1)) as u32;
                if std::mem::replace(&mut in_map[id as usize], true) {
                    lost += 1;
                } else {
                    let number = numbers.number(id, now_ns).expect("a stack that was not removed");
                    assert!(seen.insert(number), "two stacks have the number {number}");
                }
            }
            assert_eq!(numbers.number(MAX_STACKS - 1, now_ns), Some(MAX_STACKS - 1), "it is in use");
            let remove = |number| std::mem::replace(&mut in_map[StackNumbers::id(number) as usize], false);
            numbers.remove_unused(false, || now_ns + 1, remove);
        }
        assert_eq!(lost, 0);
    }

    #[test]
    fn an_event_from_before_the_removal_of_its_stack_has_none() {
        let mut numbers = StackNumbers::default();
        assert_eq!((numbers.number(7, SECOND), numbers.number(8, 5 * SECOND)), (Some(7), Some(8)));
        let at_ns = SECOND + UNUSED_NS;
        let tried = removed(&mut numbers, true, at_ns);
        assert!(tried.contains(&7) && !tried.contains(&8), "only unused ones");
        assert!(!numbers.is_kept(7) && numbers.is_kept(8));
        assert_eq!((numbers.number(7, at_ns), numbers.number(8, at_ns)), (None, Some(8)));
        let next = numbers.number(7, at_ns + 1).expect("the next stack");
        assert_eq!((StackNumbers::id(next), next == 7, numbers.is_kept(next)), (7, false, true));
    }

    #[test]
    fn stacks_are_removed_only_if_room_is_short() {
        let mut numbers = StackNumbers::default();
        for id in 0..MANY - 1 {
            numbers.number(id, SECOND);
        }
        assert!(!numbers.is_room_short(false) && numbers.is_room_short(true));
        assert!(removed(&mut numbers, false, 100 * SECOND).is_empty());
        // Also those that no event had, because their records were lost.
        assert_eq!(removed(&mut numbers, true, 100 * SECOND).len(), MAX_STACKS as usize);
        for id in 0..MANY {
            numbers.number(id, 101 * SECOND);
        }
        assert!(numbers.is_room_short(false));
        assert_eq!(removed(&mut numbers, false, 200 * SECOND).len(), MAX_STACKS as usize);
        assert!(!numbers.is_room_short(false));
        assert!(removed(&mut numbers, false, 300 * SECOND).is_empty());
    }

    #[test]
    fn a_bucket_without_a_stack_keeps_its_number() {
        let (mut numbers, calls) = (StackNumbers::default(), Cell::new(0));
        let none = |_: u32| {
            calls.set(calls.get() + 1);
            false
        };
        numbers.remove_unused(true, || 100 * SECOND, none);
        assert_eq!((calls.get(), numbers.number(0, SECOND)), (AT_ONCE, Some(0)));
    }
}
