//! Histograms of waits per interval, as the log that the tools of HdrHistogram read
//! (<https://github.com/HdrHistogram/HdrHistogram>): a line for each interval and class. Pure.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::{Duration, UNIX_EPOCH},
};

use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};
use wakelat_common::Class;

/// Significant digits of the values in the log.
const DIGITS: u8 = 3;

/// Interval_Max is in ms, as the tools expect it; the values of the histograms are ns.
const NS_PER_MS: f64 = 1e6;

/// Writes histograms of waits, in ns, interval by interval.
#[derive(Default)]
pub struct IntervalLog {
    /// The waits of the current interval.
    waits: BTreeMap<&'static str, Histogram<u64>>,
    serializer: V2DeflateSerializer,
    /// When the first interval began: ns since 1970-01-01 UTC. Times in the log are relative to it.
    base_unix_ns: Option<u64>,
}

impl IntervalLog {
    /// Adds a wait to the current interval.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn record(&mut self, class: Class, latency_ns: u64) -> io::Result<()> {
        self.record_n(class.name(), latency_ns, 1)
    }

    /// Adds waits of the same length to the current interval, with this tag.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn record_n(&mut self, tag: &'static str, latency_ns: u64, count: u64) -> io::Result<()> {
        let histogram = match self.waits.get_mut(tag) {
            Some(histogram) => histogram,
            None => {
                let histogram = Histogram::new(DIGITS).map_err(io::Error::other)?;
                self.waits.entry(tag).or_insert(histogram)
            }
        };
        histogram.record_n(latency_ns, count).map_err(io::Error::other)
    }

    /// Writes the interval, which began at `start_unix_ns` (ns since 1970-01-01 UTC), and begins the next one.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn end_interval(&mut self, start_unix_ns: u64, duration_ns: u64, out: &mut dyn Write) -> io::Result<()> {
        let is_first = self.base_unix_ns.is_none();
        let base_unix_ns = *self.base_unix_ns.get_or_insert(start_unix_ns);
        let (mut text, mut log) = (Vec::new(), IntervalLogWriterBuilder::new());
        let base = UNIX_EPOCH + Duration::from_nanos(base_unix_ns);
        log.add_comment("waits for a CPU in ns, by wakelat").with_start_time(base).with_base_time(base);
        let mut log = log.with_max_value_divisor(NS_PER_MS).begin_log_with(&mut text, &mut self.serializer)?;
        let start = Duration::from_nanos(start_unix_ns.saturating_sub(base_unix_ns));
        for (class, waits) in &mut self.waits {
            log.write_histogram(waits, start, Duration::from_nanos(duration_ns), Tag::new(class))
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
            waits.reset();
        }
        // Each part begins with the head of a log, which only the first one needs.
        let of_head = |line: &&[u8]| line.starts_with(b"#") || line.starts_with(b"\"");
        text.split_inclusive(|byte| *byte == b'\n')
            .filter(|line| is_first || !of_head(line))
            .try_for_each(|line| out.write_all(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    };

    #[test]
    fn a_reader_gets_the_waits_of_each_interval_and_class() {
        const SECOND: u64 = 1_000_000_000;
        let (mut log, mut text) = (IntervalLog::default(), Vec::new());
        let begun = 1_795_524_841_500_000_000;
        for waits in
            [&[(Class::Wakeup, 1_000), (Class::Wakeup, 3_000), (Class::New, 7)][..], &[], &[(Class::Wakeup, 5)]]
        {
            for (class, latency_ns) in waits {
                log.record(*class, *latency_ns).unwrap();
            }
            let intervals = text.iter().filter(|byte| **byte == b'#').count();
            let start = begun + if intervals == 0 { 0 } else { 2 * SECOND };
            log.end_interval(start, SECOND, &mut text).unwrap();
        }
        let head = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(head.matches("[StartTime: 1795524841.5").count(), 1, "{head}");
        let mut deserializer = Deserializer::new();
        let read: Vec<_> = IntervalLogIterator::new(&text)
            .filter_map(|entry| match entry.expect("an entry") {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .filter_map(|interval| {
                let bytes = base64(interval.encoded_histogram());
                let histogram: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).expect("a histogram");
                let tag = interval.tag().expect("a tag").as_str().to_owned();
                let start = interval.start_timestamp().as_secs();
                (!histogram.is_empty()).then(|| (tag, start, histogram.len(), histogram.max() / 1_000))
            })
            .collect();
        let of = |tag: &str, start, count, max| (tag.to_owned(), start, count, max);
        assert_eq!(read, [of("new", 0, 1, 0), of("wakeup", 0, 2, 3), of("wakeup", 2, 1, 0)]);
    }

    /// Decodes base64 (RFC 4648).
    fn base64(text: &str) -> Vec<u8> {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
        let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
        for digit in digits {
            (bits, count) = (bits << 6 | digit as u32, count + 6);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        bytes
    }
}
