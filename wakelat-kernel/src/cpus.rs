//! The CPUs of this machine.

use std::{fmt, num::TryFromIntError, ops::RangeInclusive, path::Path};

use anyhow::{Context as _, Result};

use crate::ranges::Ranges;

/// A set of CPUs, as ascending ranges that neither overlap nor touch, as in the lists of sysfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(Vec<RangeInclusive<u32>>);

impl Cpus {
    /// Reads one of the lists in `/sys/devices/system/cpu` (Documentation/admin-guide/cputopology.rst).
    pub fn read(sys: &Path, list: &str) -> Result<Self> {
        let path = sys.join("devices/system/cpu").join(list);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::parse(text.trim()).with_context(|| format!("cannot parse `{}`", path.display()))
    }

    /// Parses a list such as `0-3,8`; an empty text is the empty set.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let ranges = Ranges::parse(text).map_err(anyhow::Error::msg)?;
        Self::of(&ranges).with_context(|| format!("`{text}` is not a list of CPU numbers"))
    }

    /// The CPUs with these numbers.
    ///
    /// # Errors
    /// If a number is not a `u32`.
    pub fn of(ranges: &Ranges) -> Result<Self, TryFromIntError> {
        let range = |range: &RangeInclusive<i64>| Ok(u32::try_from(*range.start())?..=u32::try_from(*range.end())?);
        let mut typed = ranges.iter().map(range).collect::<Result<Vec<_>, TryFromIntError>>()?;
        typed.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::new();
        for range in typed {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Ok(Self(merged))
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().cloned().flatten()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.iter().any(|range| range.contains(&cpu))
    }

    /// The number of CPUs.
    pub fn count(&self) -> usize {
        self.0.iter().map(|range| range.end().abs_diff(*range.start()) as usize + 1).sum()
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The size of a map that is indexed by CPU: the number of possible CPUs, counted up to the last one.
///
/// # Errors
/// If sysfs is not mounted or not as expected.
pub fn possible() -> Result<u32> {
    let possible = Cpus::read(Path::new("/sys"), "possible")?;
    possible.iter().max().map(|last| last + 1).context("the kernel reports no possible CPU")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_parsing_and_formatting() {
        for text in ["", "0", "0-3", "0-3,8", "0,2,4-7,64-127"] {
            assert_eq!(Cpus::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_cpu_that_is_listed_twice_is_one_and_neighbours_are_a_range() {
        for (text, expected) in [("0-3,2", "0-3"), ("8,0,1,2,3", "0-3,8"), ("4-5,1-2,3", "1-5"), ("0-9,2-3", "0-9")] {
            let cpus = Cpus::parse(text).unwrap();
            assert_eq!((cpus.to_string().as_str(), cpus.iter().count()), (expected, cpus.count()), "{text}");
        }
        assert_eq!(Cpus::parse("4294967295,0-4294967295").unwrap().to_string(), "0-4294967295");
    }

    #[test]
    fn a_set_contains_only_the_listed_cpus() {
        let cpus = Cpus::parse("0-3,8").unwrap();
        assert!(cpus.contains(0) && cpus.contains(3) && cpus.contains(8));
        assert!(!cpus.contains(4) && !cpus.contains(9));
        assert_eq!(cpus.count(), 5);
    }

    #[test]
    fn text_that_is_not_a_list_of_cpus_is_rejected() {
        assert!(Cpus::parse("a").is_err() && Cpus::parse("-1").is_err() && Cpus::parse("0-4294967296").is_err());
    }
}
