//! Points in the time of a recording, as people type them: `10s`, `1m30s`, `2026-11-24T10:03:07`.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{ConfigError, duration};
use wakelat_core::recording::{TimePoint, TimeRange};

/// Parses a point in time: a span since the begin of the recording, in which a bare number is seconds, or a date and time,
/// in the local time zone unless it has an offset.
///
/// # Errors
/// If it is neither, or before 1970.
pub fn time_point(text: &str) -> Result<TimePoint, String> {
    in_zone(text, TimeZone::system())
}

fn in_zone(text: &str, zone: TimeZone) -> Result<TimePoint, String> {
    let is_date = text.get(4..5) == Some("-");
    if !is_date {
        let span = duration::seconds_or_zero(text).map(TimePoint::SinceBegin);
        return span.map_err(|why| format!("{why}; or a date and time, such as 2026-11-24T10:03:07"));
    }
    let local = || Some(text.parse::<DateTime>().ok()?.to_zoned(zone).ok()?.timestamp());
    let at = text.parse::<Timestamp>().ok().or_else(local);
    let unix_ns = at.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
    unix_ns.map(TimePoint::Unix).ok_or_else(|| {
        format!("`{text}` is not a time; expected one such as 2026-11-24T10:03:07, or a span such as 1m30s")
    })
}

/// A range of time, if its ends are in order, as far as they can be compared.
///
/// # Errors
/// If they are not.
pub(crate) fn time_range(since: Option<TimePoint>, until: Option<TimePoint>) -> Result<TimeRange, ConfigError> {
    let is_empty = match (since, until) {
        (Some(TimePoint::Unix(since)), Some(TimePoint::Unix(until))) => since >= until,
        (Some(TimePoint::SinceBegin(since)), Some(TimePoint::SinceBegin(until))) => since >= until,
        (_, Some(TimePoint::SinceBegin(0))) => true,
        _ => false,
    };
    if is_empty {
        return Err(ConfigError::usage("--until", "must be later than `--since` and the beginning of the recording"));
    }
    Ok(TimeRange { since, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_a_span_or_a_date_in_the_local_zone_or_that_given() {
        const HOUR: u64 = 3_600_000_000_000;
        let of = |text: &str| in_zone(text, TimeZone::get("Europe/Berlin").expect("a zone"));
        assert_eq!(of("1m30s"), Ok(TimePoint::SinceBegin(90_000_000_000)));
        assert_eq!((of("0"), of("2")), (Ok(TimePoint::SinceBegin(0)), Ok(TimePoint::SinceBegin(2_000_000_000))));
        let at = |hour: u64| Ok(TimePoint::Unix(1_795_478_400_000_000_000 + hour * HOUR));
        assert_eq!((of("2026-11-24T01:00:00"), of("2026-11-24 01:00")), (at(0), at(0)));
        assert_eq!((of("2026-11-24T01:00:00Z"), of("2026-11-24T01:00:00-02:00")), (at(1), at(3)));
        assert!(of("2026-11-31T00:00:00").unwrap_err().contains("is not a time"));
        assert!(of("1969-12-31T00:00:00Z").is_err() && of("yesterday").unwrap_err().contains("2026-11-24T10:03:07"));
    }

    #[test]
    fn a_range_ends_after_it_begins() {
        let [one, two] = [1, 2].map(TimePoint::SinceBegin);
        assert!(time_range(Some(one), Some(two)).is_ok() && time_range(None, Some(one)).is_ok());
        assert!(time_range(Some(two), Some(one)).is_err() && time_range(Some(one), Some(one)).is_err());
        assert!(time_range(None, Some(TimePoint::SinceBegin(0))).is_err());
        assert!(time_range(Some(TimePoint::Unix(5)), Some(TimePoint::Unix(5))).is_err());
        assert!(time_range(Some(TimePoint::Unix(5)), Some(one)).is_ok());
    }
}
