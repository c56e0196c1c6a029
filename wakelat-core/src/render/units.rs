//! Formats numbers for people. µs and ms exist only here; all other code counts in ns.

/// Units of time: the number of ns, the name, and the name in plain ASCII.
const UNITS: [(u128, &str, &str); 4] =
    [(1, "ns", "ns"), (1_000, "µs", "us"), (1_000_000, "ms", "ms"), (1_000_000_000, "s", "s")];

/// Formats a duration with one decimal: `830 ns`, `12.4 µs`, `3.1 ms`, `15.0 s`.
///
/// Rounds to nearest, and selects the unit by the rounded number: 999,950 ns is `1.0 ms`.
pub fn duration(ns: impl Into<u128>, unicode: bool) -> String {
    let ns = ns.into();
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let (tenths, unit) = in_the_first_unit_below(&UNITS[1..], ns, 10, 10_000);
    format!("{}.{} {}", thousands(tenths / 10), tenths % 10, name(unit, unicode))
}

/// Formats a bound of a row of a chart with three significant digits: `1.02 µs`, `16.4 µs`, `131 µs`.
///
/// This is enough to distinguish any two neighbouring buckets.
pub fn bound(ns: u64, unicode: bool) -> String {
    let ns = u128::from(ns);
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    for unit in &UNITS[1..] {
        // Two decimals below 10, one below 100, none above, each decided by the rounded number.
        for (scale, limit, decimals) in [(100, 1_000, 2), (10, 1_000, 1), (1, 1_000, 0)] {
            let scaled = rounded(ns * scale, unit.0);
            if scaled < limit {
                let name = name(unit, unicode);
                return match decimals {
                    0 => format!("{scaled} {name}"),
                    _ => format!("{}.{:0decimals$} {name}", scaled / scale, scaled % scale),
                };
            }
        }
    }
    format!("{} s", thousands(rounded(ns, UNITS[3].0)))
}

/// Formats a duration without loss, as a user would type it: `500 µs`, `1 ms`, `1.5 ms`.
pub fn exact(ns: u64, unicode: bool) -> String {
    let ns = u128::from(ns);
    let unit = UNITS.iter().rev().find(|unit| ns >= unit.0).unwrap_or(&UNITS[0]);
    let digits = unit.0.ilog10() as usize;
    let fraction = format!("{:0digits$}", ns % unit.0);
    let fraction = if digits == 0 { "" } else { fraction.trim_end_matches('0') };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction} {}", thousands(ns / unit.0), name(unit, unicode))
}

/// Formats a count in full, in groups of three digits: `204,723`.
pub fn thousands(count: impl Into<u128>) -> String {
    let digits = count.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things: `1 wait`, `204,723 waits`.
pub fn counted(count: impl Into<u128>, thing: &str) -> String {
    let count = count.into();
    format!("{} {thing}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// Abbreviates a count: `830`, `12.4k`, `1.0M`.
pub fn short(count: u64) -> String {
    if count < 1_000 {
        return count.to_string();
    }
    let steps = [(1_000, "k", "k"), (1_000_000, "M", "M"), (1_000_000_000, "G", "G")];
    let (tenths, step) = in_the_first_unit_below(&steps, u128::from(count), 10, 10_000);
    format!("{}.{}{}", tenths / 10, tenths % 10, step.1)
}

/// Formats a share in percent. A share above 0 is never shown as 0 %, nor one below 1 as 100 %.
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    if part >= whole {
        return "100 %".to_owned();
    }
    match rounded(u128::from(part) * 1_000, u128::from(whole)) {
        0 => "<0.1 %".to_owned(),
        1_000 => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Formats a small share in percent, with two decimals.
pub fn small_share(part: u64, whole: u64) -> String {
    match rounded(u128::from(part) * 10_000, u128::from(whole.max(1))) {
        0 if part > 0 => "<0.01 %".to_owned(),
        hundredths => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    }
}

/// Formats a share in percent, as [`share`] does, of numbers that may exceed u64.
pub fn share_of(part: u128, whole: u128) -> String {
    let shift = whole.checked_ilog2().map_or(0, |bits| bits.saturating_sub(62));
    let small = |number: u128| u64::try_from(number >> shift).unwrap_or(u64::MAX);
    share(small(part), small(whole))
}

/// Formats a duration in ns, unrounded: `39,960 ns`.
pub fn full(ns: u64) -> String {
    format!("{} ns", thousands(ns))
}

/// Scales `value` times `scale` to the first of the units in which it is below `limit`, or else to the last
/// one.
fn in_the_first_unit_below<'a>(
    units: &'a [(u128, &'a str, &'a str)],
    value: u128,
    scale: u128,
    limit: u128,
) -> (u128, &'a (u128, &'a str, &'a str)) {
    let last = units.len() - 1;
    units
        .iter()
        .enumerate()
        .map(|(index, unit)| (index, rounded(value.saturating_mul(scale), unit.0), unit))
        .find(|(index, scaled, _)| *scaled < limit || *index == last)
        .map(|(_, scaled, unit)| (scaled, unit))
        .expect("the last unit takes any value")
}

/// Divides `value` by `by`, rounding to nearest, halves up.
fn rounded(value: u128, by: u128) -> u128 {
    value / by + u128::from(value % by >= by.div_ceil(2) && by > 1)
}

fn name(unit: &(u128, &'static str, &'static str), unicode: bool) -> &'static str {
    if unicode { unit.1 } else { unit.2 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (0, "0 ns"),
            (830, "830 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (12_449, "12.4 µs"),
            (12_450, "12.5 µs"),
            (3_100_000, "3.1 ms"),
            (15_000_000_000, "15.0 s"),
            (3_600_000_000_000, "3,600.0 s"),
            (u64::MAX, "18,446,744,073.7 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns, true), text);
        }
        assert_eq!(duration(12_400u64, false), "12.4 us");
    }

    #[test]
    fn rounding_up_over_the_edge_of_a_unit_changes_the_unit() {
        assert_eq!(duration(999_949u64, true), "999.9 µs");
        assert_eq!(duration(999_950u64, true), "1.0 ms");
        assert_eq!(duration(999_950_000u64, true), "1.0 s");
        assert_eq!(bound(9_994, true), "9.99 µs");
        assert_eq!(bound(9_995, true), "10.0 µs");
        assert_eq!(bound(99_950, true), "100 µs");
        assert_eq!(bound(999_500, true), "1.00 ms");
        assert_eq!(short(999_949), "999.9k");
        assert_eq!(short(999_950), "1.0M");
    }

    #[test]
    fn bounds_have_three_significant_digits() {
        let texts = [512, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 33].map(|ns| bound(ns, true));
        assert_eq!(texts, ["512 ns", "1.02 µs", "16.4 µs", "131 µs", "1.05 ms", "8.59 s"]);
    }

    #[test]
    fn exact_durations_look_as_typed() {
        let texts = [0, 500, 500_000, 1_000_000, 1_500_000, 15_000_000_000, 1_000_001].map(|ns| exact(ns, true));
        assert_eq!(texts, ["0 ns", "500 ns", "500 µs", "1 ms", "1.5 ms", "15 s", "1.000001 ms"]);
    }

    #[test]
    fn counts_are_in_groups_of_three_digits() {
        let texts = [0u64, 12, 999, 1_000, 204_723, 1_234_567].map(thousands);
        assert_eq!(texts, ["0", "12", "999", "1,000", "204,723", "1,234,567"]);
    }

    #[test]
    fn only_one_thing_is_singular() {
        assert_eq!([0u64, 1, 2_000].map(|count| counted(count, "wait")), ["0 waits", "1 wait", "2,000 waits"]);
    }

    #[test]
    fn a_share_is_never_rounded_to_0_or_100_percent() {
        assert_eq!(share(0, 7), "0 %");
        assert_eq!(share(0, 0), "0 %");
        assert_eq!(share(12, 4_000), "0.3 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(999_999, 1_000_000), ">99.9 %");
        assert_eq!(share(7, 7), "100 %");
        assert_eq!(share(u64::MAX - 1, u64::MAX), ">99.9 %");
    }

    proptest! {
        #[test]
        fn no_number_of_a_unit_reaches_the_next_unit(ns in any::<u64>().prop_map(|v| v >> (v % 64))) {
            for text in [duration(ns, true), bound(ns, true)] {
                let (number, unit) = text.split_once(' ').unwrap();
                let number: f64 = number.replace(',', "").parse().unwrap();
                prop_assert!(unit == "s" || number < 1000.0, "{}", text);
                prop_assert!(ns == 0 || number >= 1.0, "{}", text);
            }
        }

        #[test]
        fn a_text_is_within_half_of_its_last_digit(ns in any::<u64>().prop_map(|v| v >> (v % 64))) {
            let text = duration(ns, true);
            let (number, unit) = text.split_once(' ').unwrap();
            let unit_ns = UNITS.iter().find(|(_, name, _)| *name == unit).unwrap().0 as f64;
            let back = number.replace(',', "").parse::<f64>().unwrap() * unit_ns;
            prop_assert!((back - ns as f64).abs() <= unit_ns * 0.05 + ns as f64 * 1e-9, "{} for {}", text, ns);
        }
    }
}
