//! Counters of all the ways in which a wait can end or be lost, kept by the programs, per CPU.
//!
//! Wakeups (classes `wakeup` and `new`) and preemptions each satisfy:
//!
//! ```text
//! seen = measured + already_running + already_queued + filtered + not_sampled
//!      + task_table_full + ring_buffer_full + invalid + missed_switch + still_waiting
//! ```
//!
//! `still_waiting` is the only term that is not just a counter: it is the number of tasks found waiting
//! when a run ends, plus those that were gone by then.

/// One term of the accounting identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Events that began a wait or could have: each is counted in exactly one of the other terms.
    Seen,
    /// Waits put in the ring buffer.
    Measured,
    /// Wakeups that found the task on a CPU: no wait begins.
    AlreadyRunning,
    /// Wakeups that found the task already waiting: the earlier start is kept.
    AlreadyQueued,
    /// Rejected by the filter or the threshold that the user set.
    Filtered,
    /// The part of `Filtered` that passed the filter but was below the threshold.
    BelowThreshold,
    /// No room in the task table.
    TaskTableFull,
    /// No room in the ring buffer.
    RingBufferFull,
    /// The end was before the start, or the event that starts the clock was not seen.
    Invalid,
    /// Waits whose switch-in was never seen.
    MissedSwitch,
    /// Wakeups and preemptions of tasks that are not sampled ([`crate::task_sampling`]); the filter has not
    /// tested them.
    NotSampled,
}

/// Number of counters.
pub const COUNTERS: usize = 11;

impl Counter {
    /// All counters, in the order of [`Counters`].
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

/// One CPU's counters of a [`Subject`], indexed by [`Counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters(pub [u64; COUNTERS]);

impl core::ops::Index<Counter> for Counters {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

/// What a set of counters is about: its index in [`CpuWords::counters`](crate::cpu_words::CpuWords::counters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Subject {
    /// Classes `wakeup` and `new`.
    Wakeups = 0,
    /// Class `preempted`.
    Preemptions = 1,
}

/// Number of subjects.
pub const SUBJECTS: u32 = 2;
