//! How the waits of a window were measured: from which event, and where they were aggregated.

use serde::{Deserialize, Serialize};

/// The event at which the latency of a `wakeup` starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LatencyFrom {
    /// `sched_wakeup`: the task has entered a run queue.
    #[default]
    Wakeup,
    /// `sched_waking`: wake delivery and wakeup latency together.
    Waking,
    /// The kernel has put the task on a run queue, by the queue's own clock.
    Queued,
}

impl LatencyFrom {
    /// The value of `--from`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakeup => "wakeup",
            Self::Waking => "waking",
            Self::Queued => "queued",
        }
    }
}

/// Where waits are aggregated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// In user space, from one sample per wait.
    #[default]
    Samples,
    /// In the kernel: cheaper, but percentiles are only as exact as the buckets.
    Aggregate,
}
