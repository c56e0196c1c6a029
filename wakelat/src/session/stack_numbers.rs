//! The numbers that stacks have in user space. The kernel's maps keep a fixed number of stacks, and a run can be of any
//! length: stacks that no task has had for a while are removed, and an ID in the map then names several stacks, one
//! after the other. Each of them has a number of its own, which it has again if it occurs after its removal: the kernel
//! derives the ID from the frames, so that it is in the same bucket.

use wakelat_common::stack::MAX_STACKS;

/// A stack that no task has had for this long can be removed: ns.
const UNUSED_NS: u64 = 5_000_000_000;

/// Number of buckets that are searched for such stacks at once. Looking at all of them takes eight readings, of which
/// none keeps the reader away from the events for longer than a millisecond.
const AT_ONCE: u32 = MAX_STACKS / 8;

/// Number of stacks from which on room is short: a new stack then finds its bucket occupied once in eight times.
const MANY: u32 = MAX_STACKS / 8;

/// Number of removed stacks of a bucket whose numbers are kept. Those of all buckets are as many as the lines of folded
/// stacks.
const MAX_FORMER: usize = 16;

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

#[derive(Clone, Debug, Default)]
struct Bucket {
    /// Its stack. `None` if no event with it has been read.
    current: Option<CurrentStack>,
    /// The stacks that were removed from it last, the last one at the end.
    former: Vec<FormerStack>,
    /// Number of stacks that have a number.
    numbered: u32,
    /// When the last one was removed: ns of CLOCK_MONOTONIC.
    removed_at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct CurrentStack {
    number: u32,
    /// When a task had it last: ns of CLOCK_MONOTONIC.
    used_at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct FormerStack {
    number: u32,
    /// The hash of its frames.
    hash: u64,
}

impl Default for StackNumbers {
    fn default() -> Self {
        Self { buckets: vec![Bucket::default(); MAX_STACKS as usize], used: 0, next: MAX_STACKS }
    }
}

impl StackNumbers {
    /// The number of the stack with this ID that a task had at `at_ns`; `None` if the stack has been removed before
    /// this event was read. Before the first removal, it is the ID. `hash` reads the frames of the stack with this ID from
    /// the map, and returns their hash.
    pub fn number(&mut self, id: u32, at_ns: u64, hash: impl FnOnce() -> Option<u64>) -> Option<u32> {
        let bucket = self.buckets.get_mut(id as usize)?;
        // The program looks up the stack after `at_ns`: only of later events is it certain that they have the next
        // stack.
        if at_ns <= bucket.removed_at_ns {
            return None;
        }
        let current = match bucket.current {
            Some(current) => CurrentStack { used_at_ns: current.used_at_ns.max(at_ns), ..current },
            None => {
                self.used += 1;
                CurrentStack { number: bucket.next_number(id, hash), used_at_ns: at_ns }
            }
        };
        bucket.current = Some(current);
        Some(current.number)
    }

    /// The ID of the stack with this number.
    pub const fn id(number: u32) -> u32 {
        number % MAX_STACKS
    }

    /// Whether the stack with this number has not been removed.
    pub fn is_kept(&self, number: u32) -> bool {
        let id = Self::id(number);
        let current = self.buckets.get(id as usize).and_then(|bucket| bucket.current);
        current.is_some_and(|current| current.number == number)
    }

    /// Whether [`Self::remove_unused`] has to search for unused stacks: room is short, or a stack was lost (`has_lost`)
    /// because there was none, or the last search has not ended.
    pub fn is_room_short(&self, has_lost: bool) -> bool {
        has_lost || self.used >= MANY || self.next < MAX_STACKS
    }

    /// Removes unused stacks if room is short, or if a stack was lost (`has_lost`) because there was none. Call this a
    /// few times a second, when the events so far have been read. `remove` removes the stack with an ID, which has a number
    /// if an event with it has been read, from the map, and returns the hash of its frames, or `None` if there is no such
    /// stack; `now_ns` reads CLOCK_MONOTONIC.
    pub fn remove_unused(
        &mut self,
        has_lost: bool,
        now_ns: impl Fn() -> u64,
        mut remove: impl FnMut(u32, Option<u32>) -> Option<u64>,
    ) {
        if self.next == MAX_STACKS && (has_lost || self.used >= MANY) {
            self.next = 0;
        }
        let (first, end) = (self.next, (self.next + AT_ONCE).min(MAX_STACKS));
        self.next = end;
        let unused_since_ns = now_ns().saturating_sub(UNUSED_NS);
        for (id, bucket) in (first..end).zip(self.buckets.iter_mut().skip(first as usize)) {
            // If no event has had the stack, its record was lost.
            if bucket.current.is_some_and(|current| current.used_at_ns > unused_since_ns) {
                continue;
            }
            let number = bucket.current.map(|current| current.number);
            let Some(hash) = remove(id, number) else { continue };
            self.used -= u32::from(number.is_some());
            bucket.remove(hash, now_ns());
        }
    }
}

impl Bucket {
    /// The number of a stack that comes into the bucket with this ID. A new one is used again after a million others in
    /// this bucket.
    fn next_number(&mut self, id: u32, hash: impl FnOnce() -> Option<u64>) -> u32 {
        let hash = if self.former.is_empty() { None } else { hash() };
        let former = hash.and_then(|hash| self.former.iter().position(|former| former.hash == hash));
        if let Some(former) = former {
            return self.former.remove(former).number;
        }
        let number = self.numbered.wrapping_mul(MAX_STACKS) | id;
        self.numbered = self.numbered.wrapping_add(1);
        number
    }

    /// Its stack, whose frames have this hash, is removed.
    fn remove(&mut self, hash: u64, at_ns: u64) {
        self.removed_at_ns = at_ns;
        let Some(CurrentStack { number, .. }) = self.current.take() else { return };
        if self.former.len() == MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(FormerStack { number, hash });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The number of the only stack that the bucket `id` ever has.
    fn number(numbers: &mut StackNumbers, id: u32, at_ns: u64) -> Option<u32> {
        numbers.number(id, at_ns, || None)
    }

    /// Removes unused stacks at `now_ns`, as many readings as it takes. The hash of a stack is its ID. Returns the IDs
    /// whose removal was tried.
    fn removed(numbers: &mut StackNumbers, has_lost: bool, now_ns: u64) -> Vec<u32> {
        let mut tried = Vec::new();
        let mut remove = |id: u32, _: Option<u32>| {
            tried.push(id);
            Some(u64::from(id))
        };
        for reading in 0..MAX_STACKS / AT_ONCE {
            numbers.remove_unused(has_lost && reading == 0, || now_ns, &mut remove);
        }
        tried
    }

    #[test]
    fn a_recorder_of_any_length_has_room_for_new_stacks() {
        let (mut numbers, mut in_map) = (StackNumbers::default(), vec![None; MAX_STACKS as usize]);
        let (mut seen, mut lost) = (std::collections::HashSet::new(), 0);
        // Each second has a hundred new stacks, each in the next bucket, and one that is always there.
        for second in 10..2_000 {
            let now_ns = second * SECOND;
            for new in 0..100 {
                let hash = second * 100 + new;
                let id = (hash % u64::from(MAX_STACKS - 1)) as u32;
                if in_map[id as usize].replace(hash).is_some() {
                    lost += 1;
                } else {
                    let number = numbers.number(id, now_ns, || Some(hash)).expect("a stack that was not removed");
                    assert!(seen.insert(number), "two stacks have the number {number}");
                }
            }
            assert_eq!(number(&mut numbers, MAX_STACKS - 1, now_ns), Some(MAX_STACKS - 1), "it is in use");
            numbers.remove_unused(false, || now_ns + 1, |id, _| in_map[id as usize].take());
        }
        assert_eq!(lost, 0);
    }

    #[test]
    fn an_event_from_before_the_removal_of_its_stack_has_none() {
        let mut numbers = StackNumbers::default();
        assert_eq!((number(&mut numbers, 7, SECOND), number(&mut numbers, 8, 5 * SECOND)), (Some(7), Some(8)));
        let at_ns = SECOND + UNUSED_NS;
        let tried = removed(&mut numbers, true, at_ns);
        assert!(tried.contains(&7) && !tried.contains(&8), "only unused ones");
        assert!(!numbers.is_kept(7) && numbers.is_kept(8));
        assert_eq!((number(&mut numbers, 7, at_ns), number(&mut numbers, 8, at_ns)), (None, Some(8)));
        let next = number(&mut numbers, 7, at_ns + 1).expect("the next stack");
        assert_eq!((StackNumbers::id(next), next == 7, numbers.is_kept(next)), (7, false, true));
    }

    #[test]
    fn stacks_are_removed_only_if_room_is_short() {
        let mut numbers = StackNumbers::default();
        for id in 0..MANY - 1 {
            number(&mut numbers, id, SECOND);
        }
        assert!(!numbers.is_room_short(false) && numbers.is_room_short(true));
        assert!(removed(&mut numbers, false, 100 * SECOND).is_empty());
        // Also those that no event had, because their records were lost.
        assert_eq!(removed(&mut numbers, true, 100 * SECOND).len(), MAX_STACKS as usize);
        for id in 0..MANY {
            number(&mut numbers, id, 101 * SECOND);
        }
        assert!(numbers.is_room_short(false));
        assert_eq!(removed(&mut numbers, false, 200 * SECOND).len(), MAX_STACKS as usize);
        assert!(!numbers.is_room_short(false));
        assert!(removed(&mut numbers, false, 300 * SECOND).is_empty());
    }

    #[test]
    fn a_bucket_without_a_stack_keeps_its_number() {
        let (mut numbers, calls) = (StackNumbers::default(), Cell::new(0));
        let none = |_: u32, _: Option<u32>| {
            calls.set(calls.get() + 1);
            None
        };
        numbers.remove_unused(true, || 100 * SECOND, none);
        assert_eq!((calls.get(), number(&mut numbers, 0, SECOND)), (AT_ONCE, Some(0)));
    }

    /// A run of any length with the same stacks has the same lines.
    #[test]
    fn a_stack_that_occurs_again_has_its_number() {
        let mut numbers = StackNumbers::default();
        let mut now_ns = 0;
        let mut number_of = |frames: u64| {
            now_ns += 10 * SECOND;
            let number = numbers.number(7, now_ns, || Some(frames));
            let remove = |id: u32, _: Option<u32>| (id == 7).then_some(frames);
            for reading in 0..MAX_STACKS / AT_ONCE {
                numbers.remove_unused(reading == 0, || now_ns + UNUSED_NS, remove);
            }
            number.expect("a stack that was not removed")
        };
        let first: Vec<u32> = (0..MAX_FORMER as u64).map(&mut number_of).collect();
        for frames in [0, 3, 3, 0, 15] {
            assert_eq!(number_of(frames), first[frames as usize], "{frames}");
        }
        // One more than are kept: 1 was removed first.
        assert!(!first.contains(&number_of(99)));
        assert_eq!([2, 15].map(&mut number_of), [first[2], first[15]]);
        assert!(!first.contains(&number_of(1)));
    }
}
