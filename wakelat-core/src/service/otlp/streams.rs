//! The state that a stream of points needs between two exports: when it began, and its last value.

use std::collections::HashMap;

use super::super::cgroup_labels::Labels;
use crate::why::counted::GroupTotal;

/// What identifies a stream: its metric and its labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamKey {
    pub metric: String,
    pub labels: Labels,
    pub label: Option<(&'static str, &'static str)>,
}

/// A value that only grows while its series lasts.
#[derive(Clone, Debug)]
pub(super) enum StreamValue {
    Sum(u128),
    Waits(Box<GroupTotal>),
}

#[derive(Debug)]
struct Stream {
    /// The number of its series: a cgroup that is removed and comes back has another one.
    series: u64,
    start_unix_ns: u64,
    last: StreamValue,
    export: u64,
}

/// A point without its attributes.
pub(super) struct StreamPoint {
    pub start_unix_ns: u64,
    pub value: StreamValue,
    /// Whether the maximum of [`StreamValue::Waits`] is that of these very waits.
    pub has_max: bool,
}

/// All streams of the last export.
#[derive(Debug, Default)]
pub(super) struct Streams {
    by_key: HashMap<StreamKey, Stream>,
    /// The number of the current export.
    export: u64,
    /// Until when the exports before the current one count.
    previous_end_unix_ns: Option<u64>,
}

impl Streams {
    /// Until when the previous export counted, or since when the first one counts.
    pub fn previous_end_unix_ns(&self, began_unix_ns: u64) -> u64 {
        self.previous_end_unix_ns.unwrap_or(began_unix_ns)
    }

    /// The point of a stream with this cumulative value, in an export of everything since `began_unix_ns`. Under `delta`,
    /// `None` if nothing was added.
    pub fn point(
        &mut self,
        key: StreamKey,
        series: u64,
        value: StreamValue,
        began_unix_ns: u64,
        delta: bool,
    ) -> Option<StreamPoint> {
        let previous_end_unix_ns = self.previous_end_unix_ns(began_unix_ns);
        let known = self.by_key.get(&key).filter(|stream| stream.series == series);
        // A stream that the previous export did not have was 0 at its end.
        let start_unix_ns = known.map_or(previous_end_unix_ns, |stream| stream.start_unix_ns);
        let point = if delta {
            let (value, has_max) = difference(&value, known.map(|stream| &stream.last));
            let is_empty = match &value {
                StreamValue::Sum(sum) => *sum == 0,
                StreamValue::Waits(total) => total.waits == 0,
            };
            (!is_empty).then_some(StreamPoint { start_unix_ns: previous_end_unix_ns, value, has_max })
        } else {
            Some(StreamPoint { start_unix_ns, value: value.clone(), has_max: true })
        };
        self.by_key.insert(key, Stream { series, start_unix_ns, last: value, export: self.export });
        point
    }

    /// Ends an export of everything until `end_unix_ns`. Forgets the streams that it did not have.
    pub fn end_export(&mut self, end_unix_ns: u64) {
        let export = self.export;
        self.by_key.retain(|_, stream| stream.export == export);
        self.export += 1;
        self.previous_end_unix_ns = Some(end_unix_ns);
    }
}

/// What has been added to `last`, and whether the maximum of waits is that of these.
fn difference(value: &StreamValue, last: Option<&StreamValue>) -> (StreamValue, bool) {
    match (value, last) {
        (StreamValue::Sum(value), Some(StreamValue::Sum(last))) => {
            (StreamValue::Sum(value.saturating_sub(*last)), true)
        }
        (StreamValue::Waits(value), Some(StreamValue::Waits(last))) => {
            (StreamValue::Waits(Box::new(value.since(last))), value.max_ns > last.max_ns)
        }
        _ => (value.clone(), true),
    }
}
