//! Spans of time as people type them: `500us`, `30s`, `5m`, `1h30m`.

use jiff::{Span, SpanRelativeTo};

/// The longest span accepted: ten years. A longer one is a typing error, and the sum of two never
/// overflows.
pub const MAX_NS: u64 = 3650 * 24 * 3600 * 1_000_000_000;

/// Parses a span with a unit: ns.
///
/// # Errors
/// If the text has no unit or an unknown one, or is negative, zero, finer than 1 ns or longer than
/// [`MAX_NS`].
pub fn with_unit(text: &str) -> Result<u64, String> {
    if is_bare(text) {
        // Zero is rejected in any unit: a unit would not help.
        if text.parse() == Ok(0.0) {
            return positive(text, 0);
        }
        return Err(format!("`{text}` has no unit; expected one of ns, us, ms, s, m, h, such as `{text}us`"));
    }
    positive(text, nanoseconds(text)?)
}

/// Parses a span in which a bare number is seconds, as in vmstat, iostat and runqlat: ns.
///
/// # Errors
/// As for [`with_unit`], except that a unit is optional.
pub fn seconds(text: &str) -> Result<u64, String> {
    positive(text, seconds_or_zero(text)?)
}

/// Parses a span like [`seconds`], but accepts 0: ns.
///
/// # Errors
/// As for [`seconds`], except that 0 is accepted.
pub fn seconds_or_zero(text: &str) -> Result<u64, String> {
    if is_bare(text) { nanoseconds(&format!("{text}s")).map_err(|_| refused(text)) } else { nanoseconds(text) }
}

/// Parses a span in which a bare number is microseconds, as in the tracers' files and in rtla: whole µs.
///
/// # Errors
/// As for [`seconds`], and if the span is not a whole number of microseconds.
pub fn microseconds(text: &str) -> Result<u64, String> {
    match microseconds_as_ns(text)? {
        ns if ns % 1000 == 0 => Ok(ns / 1000),
        _ => Err(format!("`{text}` is too precise for the tracer; expected whole microseconds")),
    }
}

/// Parses a span in which a bare number is microseconds, with fractions: ns.
///
/// # Errors
/// As for [`seconds`].
pub fn microseconds_as_ns(text: &str) -> Result<u64, String> {
    let ns =
        if is_bare(text) { nanoseconds(&format!("{text}us")).map_err(|_| refused(text))? } else { nanoseconds(text)? };
    positive(text, ns)
}

/// A span as people type it, in the largest unit that divides it. The parsers here accept it.
pub fn text(ns: u64) -> String {
    let units =
        [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (unit_ns, unit) =
        units.into_iter().find(|(unit_ns, _)| ns > 0 && ns.is_multiple_of(*unit_ns)).unwrap_or((1, "ns"));
    format!("{}{unit}", ns / unit_ns)
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn positive(text: &str, ns: u64) -> Result<u64, String> {
    if ns == 0 {
        return Err(format!("`{text}` must be greater than zero"));
    }
    Ok(ns)
}

fn too_long(text: &str) -> String {
    format!("`{text}` is too long; expected at most `3650d`")
}

fn refused(text: &str) -> String {
    format!(
        "`{text}` is not a time; expected a number with a unit (ns, us, ms, s, m, h, d), such as `30s` or `1h30m`, \
         and at most `3650d`"
    )
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    // Of all that jiff parses, accept only the format of the examples: not ISO 8601, not `2 days ago`.
    if !text.starts_with(|first: char| first.is_ascii_digit()) || text.contains(char::is_whitespace) {
        return Err(refused(text));
    }
    // Two characters look like a mu; jiff accepts only the micro sign.
    let span: Span = text.replace('\u{3bc}', "\u{b5}").parse().map_err(|_| refused(text))?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| refused(text))?;
    match u64::try_from(duration.as_nanos()) {
        Ok(ns) if ns <= MAX_NS => Ok(ns),
        _ => Err(too_long(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_means_what_its_unit_says() {
        for (text, ns) in [
            ("1ns", 1),
            ("830ns", 830),
            ("500us", 500_000),
            ("500\u{b5}s", 500_000),
            ("500\u{3bc}s", 500_000),
            ("1.5ms", 1_500_000),
            ("30s", 30_000_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("2d", 172_800_000_000_000),
            ("3650d", MAX_NS),
        ] {
            assert_eq!(with_unit(text), Ok(ns), "{text}");
            assert_eq!(seconds(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_seconds_if_no_unit_is_required() {
        assert_eq!(seconds("1"), Ok(1_000_000_000));
        assert_eq!(seconds("0.5"), Ok(500_000_000));
        assert_eq!(seconds_or_zero("0"), Ok(0));
        assert_eq!(seconds_or_zero("0s"), Ok(0));
    }

    #[test]
    fn a_bare_number_of_a_tracer_is_microseconds() {
        assert_eq!([microseconds("50"), microseconds("50us"), microseconds("2ms")], [Ok(50), Ok(50), Ok(2_000)]);
        assert_eq!([microseconds_as_ns("50"), microseconds_as_ns("0.5")], [Ok(50_000), Ok(500)]);
        assert!(microseconds("0.5").unwrap_err().contains("expected whole microseconds"));
        assert!(microseconds_as_ns("0").unwrap_err().contains("greater than zero"));
    }

    #[test]
    fn a_threshold_without_a_unit_is_rejected() {
        assert_eq!(
            with_unit("500"),
            Err("`500` has no unit; expected one of ns, us, ms, s, m, h, such as `500us`".to_owned())
        );
    }

    #[test]
    fn a_span_is_written_as_it_is_parsed() {
        for text in ["7ns", "1500us", "20ms", "30s", "90s", "10m", "36h"] {
            assert_eq!(with_unit(text).map(self::text).as_deref(), Ok(text));
        }
        assert_eq!(seconds_or_zero(&text(0)), Ok(0));
    }

    #[test]
    fn zero_is_rejected() {
        for text in ["0s", "0ns", "0h"] {
            assert!(with_unit(text).unwrap_err().contains("greater than zero"), "{text}");
            assert!(seconds(text).unwrap_err().contains("greater than zero"), "{text}");
        }
        for text in ["0", "0.0"] {
            assert!(seconds(text).is_err(), "{text}");
            assert!(with_unit(text).unwrap_err().contains("greater than zero"), "{text}");
        }
    }

    #[test]
    fn a_span_that_is_too_long_is_rejected_and_never_wraps() {
        for text in ["3651d", "87601h", "99999999999999999999s", "99999999999999999999", "18446744073709551616ns"] {
            let error = seconds(text).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is ")) && error.ends_with("at most `3650d`"), "{error}");
        }
    }

    #[test]
    fn garbage_is_rejected_with_the_accepted_format() {
        for text in [
            "", "s", "5x", "-5s", "5 s", "1h ago", "PT5S", "5s5", "1e3s", "0x10s", "5sm", "1.2.3", "1month", "1y",
            "٣s", "1ms2s",
        ] {
            let error = seconds(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")) && error.contains("is not a time"), "{text}: {error}");
            assert!(with_unit(text).is_err(), "{text}");
        }
    }
}
