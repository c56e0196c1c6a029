//! What a service and its capture process write to each other: a line of JSON for each message.

use serde::{Deserialize, Serialize};
use wakelat_core::service::capture_condition::CaptureReason;

use crate::config::CaptureRule;

/// The longest message: bytes. A path of a cgroup has up to 1,024, each of which JSON may escape.
pub const MAX_MESSAGE: u64 = 16 << 10;

/// A request of the service: record now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// The index of the condition.
    condition: usize,
    cgroup: String,
    value_ns: u64,
    held_ns: u64,
}

impl From<&CaptureReason> for CaptureRequest {
    fn from(reason: &CaptureReason) -> Self {
        let CaptureReason { condition, cgroup, value_ns, held_ns, .. } = reason.clone();
        Self { condition, cgroup, value_ns, held_ns }
    }
}

impl CaptureRequest {
    /// The reason, if there is such a condition.
    pub fn reason(self, conditions: &[CaptureRule]) -> Option<CaptureReason> {
        let Self { condition, cgroup, value_ns, held_ns } = self;
        let statistic = conditions.get(condition)?.condition.statistic;
        Some(CaptureReason { condition, cgroup, statistic, value_ns, held_ns })
    }
}

/// What the capture process reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureReply {
    /// It accepts requests.
    Ready,
    /// The recording is whole.
    Written {
        /// The name of the file in the directory of the captures.
        file: String,
        /// Its length.
        bytes: u64,
    },
    /// There is no recording.
    Failed {
        /// Why.
        why: String,
    },
}

/// The line of a message.
pub fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_else(|error| unreachable!("messages are JSON: {error}"));
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::service::capture_condition::WaitStatistic;

    #[test]
    fn a_request_has_the_reason_and_fits() {
        let conditions: [CaptureRule; 2] = ["max>1s", "p99>20ms for 30s"].map(|text| text.parse().unwrap());
        let cgroup = "\u{1}".repeat(1_024);
        let statistic = WaitStatistic::P99;
        let reason = CaptureReason { condition: 1, cgroup, statistic, value_ns: u64::MAX, held_ns: u64::MAX };
        let line = line(&CaptureRequest::from(&reason));
        assert!(line.len() as u64 <= MAX_MESSAGE, "{}", line.len());
        let request: CaptureRequest = serde_json::from_slice(&line).unwrap();
        assert_eq!(request.clone().reason(&conditions), Some(reason));
        assert_eq!(request.reason(&conditions[..1]), None);
    }
}
