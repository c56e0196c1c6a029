//! Parsers of plain numbers within limits.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// No kernel has more threads, or higher thread ids (`PID_MAX_LIMIT`, include/linux/threads.h), so no
/// task table needs more room.
const MAX_TASKS: u32 = 4 * 1024 * 1024;

/// Parses the id of a process or thread. Rejects 0, the idle task, which never waits.
pub fn id(text: &str) -> Result<u32, String> {
    at_least_one(text, MAX_TASKS)
}

/// Parses the id of a process or thread to measure. Rejects a name with the flag that takes names.
pub fn measured_id(text: &str) -> Result<u32, String> {
    let is_name = text.starts_with(|first: char| first.is_alphabetic());
    id(text).map_err(|why| {
        if is_name { format!("`{text}` is not a number; to select tasks by name, use `--comm {text}`") } else { why }
    })
}

/// Parses the number of intervals: at least 1.
pub fn count(text: &str) -> Result<u64, String> {
    at_least_one(text, u64::MAX)
}

/// Parses the number of runs per arm: 1 to a thousand.
pub fn runs(text: &str) -> Result<usize, String> {
    within(text, 1..=1000)
}

/// Parses the number of rows: at least 1.
pub fn rows(text: &str) -> Result<usize, String> {
    at_least_one(text, usize::MAX)
}

/// Parses the number of waits to show: 0 to a thousand.
pub fn worst(text: &str) -> Result<usize, String> {
    within(text, 0..=1000)
}

/// Parses the width of a histogram bucket, as rtla takes it: 1 to a million.
pub fn bucket_size(text: &str) -> Result<u64, String> {
    within(text, 1..=1_000_000)
}

/// Parses the number of histogram buckets: 1 to ten million.
pub fn entries(text: &str) -> Result<u64, String> {
    within(text, 1..=10_000_000)
}

/// Parses the number of groups: 1 to a million, which keeps them within a few GB.
pub fn groups(text: &str) -> Result<usize, String> {
    within(text, 1..=1_000_000)
}

/// Parses the number of cgroups with series of their own: 1 to 100,000, which keeps an exposition within a few 100 MB.
pub fn series(text: &str) -> Result<usize, String> {
    within(text, 1..=100_000)
}

/// Parses the capacity of the task table: 2 to the highest number of threads a kernel can have.
pub fn max_tasks(text: &str) -> Result<u32, String> {
    within(text, 2..=MAX_TASKS)
}

/// Parses a real-time priority: 1 to 99.
pub fn rt_priority(text: &str) -> Result<u8, String> {
    within(text, 1..=99)
}

/// Parses the reader's real-time priority: 1 to 99, or 0 for none.
pub fn reader_priority(text: &str) -> Result<u8, String> {
    within(text, 0..=99)
}

/// Parses the longest C-state exit latency: µs, 0 to ten seconds, as `/dev/cpu_dma_latency` takes it (an
/// s32).
pub fn dma_latency(text: &str) -> Result<i32, String> {
    within(text, 0..=10_000_000)
}

/// Parses a share of the time of all CPUs: percent, from a hundredth to a hundred. Returns millionths.
pub fn percent_as_ppm(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>();
    match percent {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok((percent * 1e4).round() as u32),
        _ => Err(format!("`{text}` is not accepted; expected a percentage from `0.01%` to `100%`, such as `0.5%`")),
    }
}

fn within<T: FromStr + PartialOrd + Display>(text: &str, accepted: RangeInclusive<T>) -> Result<T, String> {
    match text.parse() {
        Ok(number) if accepted.contains(&number) => Ok(number),
        _ => {
            Err(format!("`{text}` is not accepted; expected a number from {} to {}", accepted.start(), accepted.end()))
        }
    }
}

fn at_least_one<T: FromStr + PartialOrd + From<u8> + Display>(text: &str, most: T) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= T::from(1) && number <= most => Ok(number),
        Ok(number) if number < T::from(1) => Err(format!("`{text}` is not accepted; expected a number of at least 1")),
        // It is a number, but has more digits than any accepted one.
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("`{text}` is too large; expected at most {most}"))
        }
        _ => Err(format!("`{text}` is not accepted; expected a number of at least 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_themselves_are_accepted() {
        assert_eq!((rt_priority("1"), rt_priority("99")), (Ok(1), Ok(99)));
        assert_eq!((reader_priority("0"), reader_priority("99")), (Ok(0), Ok(99)));
        assert_eq!(max_tasks("4194304"), Ok(MAX_TASKS));
        assert_eq!(id("4194304"), Ok(MAX_TASKS));
    }

    #[test]
    fn a_share_is_in_percent_with_or_without_the_sign() {
        assert_eq!((percent_as_ppm("0.5%"), percent_as_ppm("0.5")), (Ok(5_000), Ok(5_000)));
        assert_eq!((percent_as_ppm("0.01 %"), percent_as_ppm("100%")), (Ok(100), Ok(1_000_000)));
        for text in ["0", "0.001%", "101%", "-1%", "", "%", "x", "NaN", "inf"] {
            assert!(percent_as_ppm(text).is_err_and(|error| error.contains("from `0.01%` to `100%`")), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_rejected_with_the_maximum() {
        for text in ["4194305", "4294967296", "99999999999"] {
            assert_eq!(id(text), Err(format!("`{text}` is too large; expected at most 4194304")));
        }
        assert!(count("99999999999999999999").is_err_and(|error| error.ends_with("at most 18446744073709551615")));
    }

    #[test]
    fn text_outside_the_limits_is_rejected_with_the_limits() {
        for text in ["0", "100", "256", "-1", "", "x", "1.5", "0x10"] {
            let expected = format!("`{text}` is not accepted; expected a number from 1 to 99");
            assert_eq!(rt_priority(text), Err(expected));
        }
        assert!(id("0").is_err() && count("0").is_err() && rows("0").is_err());
        assert!(groups("1000001").is_err() && max_tasks("4194305").is_err());
    }
}
