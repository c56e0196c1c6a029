//! How long a task's group was throttled during a wait.

use crate::queue_clock::TaskTag;

/// How long the queue of a task's group had been throttled when the task left a CPU: two words, each written at once.
///
/// Tasks can share an element, like a [`QueueSlot`](crate::queue_clock::QueueSlot). Both words carry a part of the task's tag, so
/// that no task takes another's clock for its own, even if two CPUs write at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ThrottledClock {
    /// Bits 0–31: the tag; 32–55: the CPU, because a group has a queue, with its own clock, on each; 56–63: the number of
    /// the [measuring period](crate::queue_clock::MeasuringPeriod), because what the task did in a pause is unknown.
    owner: u64,
    /// Bits 0–15: a part of the tag; above: the clock in ns, modulo 2^48 (78 hours).
    clock: u64,
}

/// The bits of a tag in [`ThrottledClock::clock`].
const TAG_BITS: u32 = 16;

impl ThrottledClock {
    /// The two words, as a program reads them.
    #[inline(always)]
    pub const fn from_words([owner, clock]: [u64; 2]) -> Self {
        Self { owner, clock }
    }

    /// The two words, as a program writes them.
    #[inline(always)]
    pub const fn to_words(self) -> [u64; 2] {
        [self.owner, self.clock]
    }

    /// The clock (ns) at which a task leaves a CPU in the measuring period of this number.
    #[inline(always)]
    pub const fn of(tag: TaskTag, cpu: u32, period: u8, throttled_ns: u64) -> Self {
        let low = tag.bits() as u64 & ((1 << TAG_BITS) - 1);
        let owner = (period as u64) << 56 | (cpu as u64 & 0xff_ffff) << 32 | tag.bits() as u64;
        Self { owner, clock: throttled_ns << TAG_BITS | low }
    }

    /// Whether this is the clock at which this task left this CPU in this measuring period.
    #[inline(always)]
    pub const fn is_of(&self, tag: TaskTag, cpu: u32, period: u8) -> bool {
        let own = Self::of(tag, cpu, period, 0);
        self.owner == own.owner && (self.clock ^ own.clock) & ((1 << TAG_BITS) - 1) == 0
    }

    /// How long the queue was throttled since then, if its clock is at `throttled_ns` now: ns. 0 if that clock is behind:
    /// the task has moved to another cgroup, and so to another queue.
    #[inline(always)]
    pub const fn since(&self, throttled_ns: u64) -> u64 {
        let moved = (throttled_ns << TAG_BITS).wrapping_sub(self.clock & !((1 << TAG_BITS) - 1));
        if (moved as i64) < 0 { 0 } else { moved >> TAG_BITS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_clock_is_only_its_tasks_and_its_cpus() {
        let (task, other) = (TaskTag::of(0x1000_0000), TaskTag::of(0x2000_0000));
        let clock = ThrottledClock::of(task, 3, 1, 500);
        assert!(clock.is_of(task, 3, 1) && !clock.is_of(other, 3, 1) && !clock.is_of(task, 2, 1));
        assert!(!clock.is_of(task, 3, 2), "of an earlier period");
        assert!(!ThrottledClock::default().is_of(task, 0, 0));
        assert_eq!(clock.since(1_700), 1_200);
        // The clock wraps; and one word of another task's is noticed.
        assert_eq!(ThrottledClock::of(task, 3, 1, (1 << 48) - 1).since(1 << 48), 1);
        assert_eq!(ThrottledClock::of(task, 3, 1, 10_000_000_000).since(0), 0);
        let [owner, _] = clock.to_words();
        let [_, foreign] = ThrottledClock::of(other, 3, 1, 500).to_words();
        assert!(!ThrottledClock::from_words([owner, foreign]).is_of(task, 3, 1));
    }
}
