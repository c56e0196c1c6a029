//! The wait that stands for a histogram: the longest of the last minute, with its task.

use std::borrow::Cow;

use super::{cgroup_labels::Labels, series::WaitSeries};
use crate::why::counted::LongestGroupWait;

/// A wait of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitExemplar {
    /// Its length: ns.
    pub latency_ns: u64,
    /// When it ended: ns since 1970-01-01 UTC.
    pub at_unix_ns: u64,
    /// Thread ID and name of the task. All of it has fewer than the 128 characters that OpenMetrics allows: a name has up to
    /// 15 bytes, each of which takes up to four characters if it is no printable character.
    pub labels: Labels,
}

impl WaitExemplar {
    /// The longest wait of the last 60 to 70 seconds: the one of `wakelat_wait_recent_max_seconds`. `None` without waits.
    /// `unix_offset_ns` is the offset from CLOCK_MONOTONIC to the Unix epoch.
    pub fn of(series: &WaitSeries, unix_offset_ns: i64, now_s: u64) -> Option<Self> {
        let LongestGroupWait { latency_ns, at_ns, tid, comm } = series.recent_longest(now_s)?;
        let labels = vec![("tid", Cow::Owned(tid.to_string())), ("comm", Cow::Owned(comm.to_string()))];
        Some(Self { latency_ns, at_unix_ns: at_ns.saturating_add_signed(unix_offset_ns), labels })
    }
}
