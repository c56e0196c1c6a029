//! Selects the rows of a chart: one value of each entry, on request summed by one key or in powers of two.

use std::collections::HashMap;
use std::fmt;

use super::log2_bucket::{log2_bucket, log2_range};
use super::{EntryKey, EntryValue, TriggerHistogram};

/// What the user selects for a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartSelection {
    /// The value to show; if none, the first sum, or else the first value.
    pub value: Option<String>,
    /// The only key to keep; entries that differ only in other keys are summed.
    pub key: Option<String>,
    /// Whether to group numbers in the kernel's powers of two.
    pub log2: bool,
}

/// The rows of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartRows {
    /// Indexes of the keys that are shown.
    pub keys: Vec<usize>,
    /// The value's name; none if the histogram is empty and has no names.
    pub value: Option<String>,
    /// The kind of the value.
    pub kind: ValueKind,
    /// A row for each combination of keys: in ascending order if the only key is a bucket or a selected
    /// number, otherwise in the kernel's order.
    pub rows: Vec<(Vec<EntryKey>, u64)>,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A count or a sum.
    Sum,
    /// Hundredths of a percent.
    Percent,
    /// Twentieths of the largest value.
    Bar,
}

/// Why a selection does not fit a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionError {
    /// There is no value with this name; the second field lists the existing ones.
    Value(String, Vec<String>),
    /// There is no key with this name; the second field lists the existing ones.
    Key(String, Vec<String>),
    /// There are several keys, of these names, and one must be selected.
    Several(Vec<String>),
    /// The key is not a number.
    NotANumber(String),
    /// The unit could apply to any of these keys.
    Unit(Vec<String>),
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| format!("`{}`", names.join("`, `"));
        match self {
            Self::Value(name, known) => write!(f, "`--value`: no value `{name}`; expected one of {}", list(known)),
            Self::Key(name, known) => write!(f, "`--key`: no key `{name}`; expected one of {}", list(known)),
            Self::Several(known) => {
                write!(f, "`--log2`: there are several keys; select one with `--key`: {}", list(known))
            }
            Self::Unit(known) => {
                write!(f, "`--unit`: several keys could have this unit: {}; select one with `chart --key`", list(known))
            }
            Self::NotANumber(name) => write!(f, "`--log2`: the key `{name}` is not a plain number"),
        }
    }
}

impl std::error::Error for SelectionError {}

impl ChartRows {
    /// Selects the rows of a histogram.
    ///
    /// # Errors
    /// If the selection names a key or value that the histogram does not have, or asks for powers of two of
    /// a key that is not a single number.
    pub fn of(histogram: &TriggerHistogram, selection: &ChartSelection) -> Result<Self, SelectionError> {
        let mut keys: Vec<usize> = (0..histogram.key_names.len()).collect();
        if let Some(name) = selection.key.as_ref().filter(|_| !histogram.entries.is_empty()) {
            keys.retain(|index| histogram.key_names[*index] == *name);
            if keys.is_empty() {
                return Err(SelectionError::Key(name.clone(), histogram.key_names.clone()));
            }
        }
        let (value, kind, values) = column(histogram, selection.value.as_deref())?;
        let mut indexes: HashMap<Vec<EntryKey>, usize> = HashMap::new();
        let mut rows: Vec<(Vec<EntryKey>, u64)> = Vec::new();
        for (entry, value) in histogram.entries.iter().zip(values) {
            let mut key: Vec<EntryKey> = keys.iter().filter_map(|index| entry.keys.get(*index).cloned()).collect();
            if selection.log2 {
                key = vec![in_powers_of_two(key, histogram, &keys)?];
            }
            let index = *indexes.entry(key.clone()).or_insert(rows.len());
            match rows.get_mut(index) {
                Some((_, sum)) => *sum = sum.saturating_add(value),
                None => rows.push((key, value)),
            }
        }
        let is_folded = selection.key.is_some() || selection.log2;
        if rows.iter().all(|(key, _)| range(key).is_some())
            || is_folded && rows.iter().all(|(key, _)| matches!(key[..], [EntryKey::Number(_)]))
        {
            rows.sort_by_key(|(key, _)| extent(key));
        }
        Ok(Self { keys, value, kind, rows })
    }

    /// The percentile `per_mille` (1000 for the maximum), as the upper bound of its bucket. None if the
    /// rows are not numbers or buckets, or do not count hits.
    pub fn percentile(&self, per_mille: u64) -> Option<u64> {
        let all: u64 = self.rows.iter().fold(0, |all, (_, count)| all.saturating_add(*count));
        if self.kind != ValueKind::Sum || self.value.as_deref() != Some("hitcount") || all == 0 {
            return None;
        }
        let rank = u64::try_from((u128::from(all) * u128::from(per_mille)).div_ceil(1_000)).unwrap_or(u64::MAX);
        let mut rising: Vec<((u64, u64), u64)> =
            self.rows.iter().map(|(key, count)| Some((extent(key)?, *count))).collect::<Option<_>>()?;
        rising.sort_unstable();
        let mut below = 0u64;
        rising.into_iter().find_map(|((_, to), count)| {
            below = below.saturating_add(count);
            (below >= rank).then_some(to)
        })
    }
}

/// The requested value of each entry; without a request, the first sum, or else the first value.
fn column(
    histogram: &TriggerHistogram,
    requested: Option<&str>,
) -> Result<(Option<String>, ValueKind, Vec<u64>), SelectionError> {
    let names = &histogram.value_names;
    let is_sum = |name: &&String| histogram.column(name).is_some();
    let name = match requested {
        _ if histogram.entries.is_empty() => return Ok((None, ValueKind::Sum, Vec::new())),
        Some(requested) => names.iter().find(|name| *name == requested),
        None => names.iter().find(is_sum).or(names.first()),
    };
    let Some(name) = name else {
        return Err(SelectionError::Value(requested.unwrap_or_default().to_owned(), names.clone()));
    };
    let index = names.iter().position(|candidate| candidate == name).unwrap_or_default();
    let mut kind = ValueKind::Sum;
    let values = histogram.entries.iter().map(|entry| match entry.values.get(index) {
        Some(EntryValue::Number(number) | EntryValue::Hex(number)) => *number,
        Some(EntryValue::Percent(hundredths)) => {
            kind = ValueKind::Percent;
            hundredths.unwrap_or(0).into()
        }
        Some(EntryValue::Bar(filled)) => {
            kind = ValueKind::Bar;
            (*filled).into()
        }
        None => 0,
    });
    let values = values.collect();
    Ok((Some(name.clone()), kind, values))
}

fn in_powers_of_two(
    key: Vec<EntryKey>,
    histogram: &TriggerHistogram,
    keys: &[usize],
) -> Result<EntryKey, SelectionError> {
    match &key[..] {
        [EntryKey::Number(number) | EntryKey::Hex(number)] => Ok(EntryKey::Log2(log2_bucket(*number))),
        [_] => Err(SelectionError::NotANumber(keys.iter().map(|index| histogram.key_names[*index].clone()).collect())),
        _ => Err(SelectionError::Several(histogram.key_names.clone())),
    }
}

/// Smallest and largest value of a key that is one bucket.
pub fn range(key: &[EntryKey]) -> Option<(u64, u64)> {
    match key {
        [EntryKey::Log2(power)] => Some(log2_range(*power)),
        [EntryKey::Range(from, to)] => Some((*from, *to)),
        _ => None,
    }
}

/// Smallest and largest value of a key that is one bucket or one number.
fn extent(key: &[EntryKey]) -> Option<(u64, u64)> {
    match key {
        [EntryKey::Number(number)] => Some((*number, *number)),
        _ => range(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::parse::{Completeness, parse};

    /// The last example of the guide: each exact latency by thread and priority.
    const BY_THREAD: &str = "\
# event histogram
#
# trigger info: hist:keys=pid,prio,lat:vals=hitcount:sort=pid,lat:size=2048 [active]
#

{ pid:         19, prio:        120, lat:          3 } hitcount:          4
{ pid:         19, prio:        120, lat:          8 } hitcount:          2
{ pid:         20, prio:         98, lat:          3 } hitcount:          1
{ pid:         20, prio:         98, lat:        100 } hitcount:          3

Totals:
    Hits: 10
    Entries: 4
    Dropped: 0
";

    fn rows(key: Option<&str>, log2: bool) -> Result<ChartRows, SelectionError> {
        let histograms = parse(BY_THREAD.as_bytes(), Completeness::Whole).unwrap();
        ChartRows::of(&histograms[0], &ChartSelection { value: None, key: key.map(str::to_owned), log2 })
    }

    #[test]
    fn entries_that_differ_only_in_other_keys_are_summed() {
        let lat = rows(Some("lat"), false).unwrap();
        assert_eq!(
            lat.rows,
            [3, 8, 100].map(|lat| vec![EntryKey::Number(lat)]).into_iter().zip([5, 2, 3]).collect::<Vec<_>>()
        );
        let prio = rows(Some("prio"), false).unwrap();
        assert_eq!(prio.rows, [(vec![EntryKey::Number(98)], 4), (vec![EntryKey::Number(120)], 6)]);
        assert_eq!(rows(None, false).unwrap().rows.len(), 4);
    }

    #[test]
    fn numbers_are_grouped_in_the_kernels_powers_of_two() {
        let lat = rows(Some("lat"), true).unwrap();
        assert_eq!(
            lat.rows,
            [2, 3, 7].map(|power| vec![EntryKey::Log2(power)]).into_iter().zip([5, 2, 3]).collect::<Vec<_>>()
        );
    }

    #[test]
    fn percentiles_are_upper_bounds_of_buckets_by_rank() {
        let exact = rows(Some("lat"), false).unwrap();
        assert_eq!([0, 500, 501, 700, 701, 1_000].map(|pm| exact.percentile(pm).unwrap()), [3, 3, 8, 8, 100, 100]);
        assert_eq!(rows(Some("lat"), true).unwrap().percentile(990), Some(128));
        assert_eq!(rows(None, false).unwrap().percentile(500), None, "several keys are not a number");
    }

    #[test]
    fn the_error_for_a_missing_key_lists_the_existing_ones() {
        let error = |result: Result<ChartRows, SelectionError>| result.unwrap_err().to_string();
        assert_eq!(error(rows(Some("cpu"), false)), "`--key`: no key `cpu`; expected one of `pid`, `prio`, `lat`");
        assert_eq!(
            error(rows(None, true)),
            "`--log2`: there are several keys; select one with `--key`: `pid`, `prio`, `lat`"
        );
    }
}
