//! Formats instants for people.

use jiff::{Timestamp, Zoned, tz::TimeZone};

/// Formats an instant of CLOCK_MONOTONIC as perf(1) does: seconds and microseconds, `123456.789012`.
pub fn monotonic(at_ns: u64) -> String {
    format!("{}.{:06}", at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000)
}

/// Converts an instant of CLOCK_MONOTONIC to ns since 1970-01-01 UTC.
pub fn unix_ns(at_ns: u64, unix_offset_ns: i64) -> u64 {
    at_ns.saturating_add_signed(unix_offset_ns)
}

/// Formats the time of day: `14:03:22.123456`. `unix_ns` is ns since 1970-01-01 UTC.
pub fn time_of_day(unix_ns: u64, zone: &TimeZone) -> String {
    zoned(unix_ns, zone).strftime("%H:%M:%S%.6f").to_string()
}

/// Formats the date and the time of day to the second: `2026-11-20 14:03:22`.
pub fn date(unix_ns: u64, zone: &TimeZone) -> String {
    zoned(unix_ns, zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats the time of day, preceded by the date if that differs from the date of `beside_unix_ns`.
pub fn time_beside(unix_ns: u64, beside_unix_ns: u64, zone: &TimeZone) -> String {
    let (instant, beside) = (zoned(unix_ns, zone), zoned(beside_unix_ns, zone));
    let format = if instant.date() == beside.date() { "%H:%M:%S%.6f" } else { "%Y-%m-%d %H:%M:%S%.6f" };
    instant.strftime(format).to_string()
}

fn zoned(unix_ns: u64, zone: &TimeZone) -> Zoned {
    // A u64 of ns ends in 2554, well before 9999, the last year that jiff can represent.
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::MAX).to_zoned(zone.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_700_000_000_000_000_000;

    #[test]
    fn monotonic_times_look_like_those_of_perf() {
        assert_eq!(monotonic(123_456_789_012_345), "123456.789012");
        assert_eq!(monotonic(1_000_000_999), "1.000000");
        assert_eq!(monotonic(0), "0.000000");
    }

    #[test]
    fn times_of_day_are_in_the_time_zone() {
        assert_eq!(time_of_day(NOON + 123_456_789, &TimeZone::UTC), "22:13:20.123456");
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(time_of_day(NOON, &zone), "00:13:20.000000");
        assert_eq!(date(NOON, &zone), "2023-11-15 00:13:20");
    }

    #[test]
    fn the_date_is_shown_if_it_differs() {
        let day = 86_400_000_000_000;
        assert_eq!(time_beside(NOON, NOON, &TimeZone::UTC), "22:13:20.000000");
        assert_eq!(time_beside(NOON + day, NOON, &TimeZone::UTC), "2023-11-15 22:13:20.000000");
    }

    #[test]
    fn no_instant_panics() {
        for (at_ns, offset) in [(0, i64::MIN), (u64::MAX, i64::MAX), (0, 0)] {
            time_of_day(unix_ns(at_ns, offset), &TimeZone::UTC);
        }
    }
}
