//! Lists of numbers and ranges: `0-3,8`.

use std::ops::RangeInclusive;

/// Numbers and ranges of them, as typed: neither sorted nor merged, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<RangeInclusive<i64>>);

impl Ranges {
    /// Parses a list of numbers and ranges, separated by commas. A number may be negative.
    ///
    /// # Errors
    /// If an item is not a number or a range, or a range is in descending order.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }

    /// The ranges, in the order typed.
    pub fn iter(&self) -> impl Iterator<Item = &RangeInclusive<i64>> {
        self.0.iter()
    }

    /// The first number that lies outside `accepted`, if any does.
    pub fn outside(&self, accepted: &RangeInclusive<i64>) -> Option<i64> {
        self.0.iter().flat_map(|range| [*range.start(), *range.end()]).find(|number| !accepted.contains(number))
    }
}

fn range(text: &str) -> Result<RangeInclusive<i64>, String> {
    let refused = || format!("`{text}` is neither a number nor a range; expected a list such as `0-3,8`");
    let number = |text: &str| text.parse::<i64>().map_err(|_| refused());
    // The first character may be a sign, never the dash of a range.
    let dash = text.char_indices().skip(1).find(|(_, character)| *character == '-');
    let Some((dash, _)) = dash else {
        let number = number(text)?;
        return Ok(number..=number);
    };
    let (first, last) = (number(&text[..dash])?, number(&text[dash + 1..])?);
    if first > last {
        return Err(format!("`{text}` is in descending order; expected `{last}-{first}`"));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(i64, i64)> {
        Ranges::parse(text).unwrap().iter().map(|range| (*range.start(), *range.end())).collect()
    }

    #[test]
    fn a_list_may_mix_numbers_and_ranges() {
        assert_eq!(parsed("0"), [(0, 0)]);
        assert_eq!(parsed("0-3,8"), [(0, 3), (8, 8)]);
        assert_eq!(parsed("8,0-3,2"), [(8, 8), (0, 3), (2, 2)]);
    }

    #[test]
    fn a_number_may_be_negative() {
        assert_eq!(parsed("-1"), [(-1, -1)]);
        assert_eq!(parsed("-1,100-139"), [(-1, -1), (100, 139)]);
        assert_eq!(parsed("-1-99"), [(-1, 99)]);
        assert_eq!(parsed("-3--1"), [(-3, -1)]);
    }

    #[test]
    fn text_that_is_not_a_list_is_rejected() {
        for text in ["", ",", "0,", "a", "0-", "-", "0-3-5", "0..3", "0 - 3", "9999999999999999999999", "é-3", "0x1"] {
            let error = Ranges::parse(text).unwrap_err();
            assert!(error.contains("expected a list such as `0-3,8`"), "{text}: {error}");
        }
    }

    #[test]
    fn a_descending_range_is_rejected_with_the_range_expected() {
        assert_eq!(Ranges::parse("3-0"), Err("`3-0` is in descending order; expected `0-3`".to_owned()));
    }

    #[test]
    fn the_first_number_outside_is_found_without_walking_the_range() {
        let list = Ranges::parse("0-9223372036854775807").unwrap();
        assert_eq!(list.outside(&(0..=7)), Some(i64::MAX));
        assert_eq!(Ranges::parse("0,3").unwrap().outside(&(0..=7)), None);
    }
}
