//! What became of the captures of `serve --capture`.

use std::{borrow::Cow, rc::Rc};

use super::{
    cgroup_labels::Labels,
    metric_family::{FamilyKind, FamilyMetric, MetricFamily, MetricNumber, MetricUnit},
};

/// The captures so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Whether the process that records is running.
    pub is_running: bool,
    /// By condition.
    pub conditions: Vec<ConditionCaptures>,
}

/// The captures of one condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionCaptures {
    /// The condition, as in the settings.
    pub condition: String,
    /// Captures that were written.
    pub written: u64,
    /// Captures that failed.
    pub failed: u64,
    /// The last one that was written.
    pub last: Option<LastCapture>,
}

/// A capture that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCapture {
    /// The name of its file.
    pub file: String,
    /// The cgroup whose waits met the condition.
    pub cgroup: String,
    /// When it ended: ns since 1970-01-01 UTC.
    pub unix_ns: u64,
}

/// The metrics of the captures.
pub(super) fn families(counts: &CaptureCounts) -> Vec<MetricFamily<'static>> {
    let CaptureCounts { is_running, conditions } = counts;
    let labels = |pairs: &[(&'static str, &str)]| -> Rc<Labels> {
        Rc::new(pairs.iter().map(|(name, value)| (*name, Cow::Owned((*value).to_owned()))).collect())
    };
    let captures = conditions.iter().flat_map(|of| {
        let labels = labels(&[("condition", &of.condition)]);
        [("written", of.written), ("failed", of.failed)]
            .map(|(result, count)| FamilyMetric::number(&labels, Some(("result", result)), MetricNumber::Count(count)))
    });
    let last = || conditions.iter().filter_map(|of| Some((of.condition.as_str(), of.last.as_ref()?)));
    let times = last().map(|(condition, last)| {
        FamilyMetric::number(&labels(&[("condition", condition)]), None, MetricNumber::Ns(last.unix_ns.into()))
    });
    let files = last().map(|(condition, last)| {
        let labels = labels(&[("condition", condition), ("cgroup", &last.cgroup), ("file", &last.file)]);
        FamilyMetric::number(&labels, None, MetricNumber::Count(1))
    });
    let family = |name, kind, unit, help, metrics| MetricFamily { name, kind, unit, help, metrics };
    let running = FamilyMetric::number(&Rc::default(), None, MetricNumber::Count((*is_running).into()));
    vec![
        family(
            "wakelat_capture_process_up",
            FamilyKind::Gauge,
            MetricUnit::Ratio,
            "Whether the process that records (--capture) is running.",
            vec![running],
        ),
        family(
            "wakelat_captures",
            FamilyKind::Counter,
            MetricUnit::Number("capture"),
            "Recordings that a condition has caused (--capture), by result.",
            captures.collect(),
        ),
        family(
            "wakelat_last_capture_timestamp_seconds",
            FamilyKind::Gauge,
            MetricUnit::Seconds,
            "When the last capture of a condition ended: seconds since 1970-01-01 UTC.",
            times.collect(),
        ),
        family(
            "wakelat_last_capture_info",
            FamilyKind::Gauge,
            MetricUnit::Ratio,
            "The file of the last capture of a condition, and the cgroup whose waits met it.",
            files.collect(),
        ),
    ]
}
