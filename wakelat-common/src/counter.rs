//! Every way in which a wait can end or be lost, counted in the kernel, per CPU.
//!
//! For wakeups (classes `wakeup` and `new`), and for preemptions by themselves:
//!
//! ```text
//! seen = delivered + woken_running + woken_waiting + filtered + not_watched + start_map_full
//!      + ring_full + discarded + stale + censored
//! ```
//!
//! `censored` is the only term that is more than a counter: it is the number of tasks found waiting when a run ends, and
//! of those that were gone by then.

/// One term of the accounting identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Waits that began, or would have: each ends up in exactly one of the other terms.
    Seen,
    /// Samples put in the ring buffer.
    Measured,
    /// Wakeups that found the task on a CPU: nothing waits.
    AlreadyRunning,
    /// Wakeups that found the task waiting already: the earlier start stays.
    AlreadyQueued,
    /// Refused by what the user asked for: the filter or the threshold.
    Filtered,
    /// Those of `Filtered` that passed the filter and fell below the threshold.
    BelowThreshold,
    /// No room in the map of starts.
    TaskTableFull,
    /// No room in the ring buffer.
    RingBufferFull,
    /// The end was before the start, or nobody saw the event from which to count.
    Invalid,
    /// A start whose switch-in was never seen.
    MissedSwitch,
    /// Of tasks that were not drawn, where not all are watched ([`crate::share`]); no filter has judged them.
    NotSampled,
}

/// How many counters there are.
pub const COUNTERS: usize = 11;

impl Counter {
    /// All of them, in the order of [`Counters`].
    pub const ALL: [Self; COUNTERS] = [
        Self::Seen,
        Self::Measured,
        Self::AlreadyRunning,
        Self::AlreadyQueued,
        Self::Filtered,
        Self::BelowThreshold,
        Self::TaskTableFull,
        Self::RingBufferFull,
        Self::Invalid,
        Self::MissedSwitch,
        Self::NotSampled,
    ];
}

/// One CPU's counters, indexed by [`Counter`]. The map has two such entries, see [`Subject`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters(pub [u64; COUNTERS]);

impl core::ops::Index<Counter> for Counters {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

/// What an identity is about: the key of the counter map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Subject {
    /// Classes `wakeup` and `new`.
    Wakeups = 0,
    /// Class `preempted`.
    Preemptions = 1,
}

/// How many subjects there are.
pub const SUBJECTS: u32 = 2;
