//! The rows of a chart: buckets merged into powers of two, or into equal parts of them.

use crate::aggregate::distribution::Bucket;

/// Maximum number of rows of a chart whose rows are narrower than powers of two.
const MANY: usize = 16;

/// Minimum number of consecutive empty rows that are folded into one.
const EMPTY: usize = 4;

/// A row of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartRow {
    /// The waits within two bounds. The topmost row of the u64 range includes `u64::MAX`.
    Bucket(Bucket),
    /// The number of consecutive rows without a wait.
    Gap(usize),
}

/// Merges buckets into rows, from the first to the last that is not empty. The buckets must be in ascending
/// order, and none may straddle a power of two.
///
/// A row is a power of two, or, if the waits cover only a few powers, a half, a quarter, an eighth or a
/// sixteenth of one.
pub fn rows(buckets: &[Bucket]) -> Vec<ChartRow> {
    let powers = gather(buckets, 1);
    // Counts whole powers with gaps folded, so that a single outlier does not make the rows of the others
    // coarse.
    match [16, 8, 4, 2].into_iter().find(|parts| powers.len() * parts <= MANY) {
        Some(parts) => gather(buckets, parts as u64),
        None => powers,
    }
}

fn gather(buckets: &[Bucket], parts: u64) -> Vec<ChartRow> {
    let mut all: Vec<Bucket> = Vec::new();
    for bucket in buckets.iter().filter(|bucket| bucket.count > 0) {
        while all.last().is_none_or(|last| last.to_ns <= bucket.from_ns && last.to_ns < u64::MAX) {
            let from_ns = all.last().map_or(bucket.from_ns, |last| last.to_ns);
            all.push(row_of(from_ns, parts));
        }
        if let Some(last) = all.last_mut() {
            last.count += bucket.count;
        }
    }
    let mut rows = Vec::new();
    for run in all.chunk_by(|a, b| (a.count == 0) == (b.count == 0)) {
        if run[0].count == 0 && run.len() >= EMPTY {
            rows.push(ChartRow::Gap(run.len()));
        } else {
            rows.extend(run.iter().copied().map(ChartRow::Bucket));
        }
    }
    rows
}

/// The empty row that contains `value`, if every power of two is divided into up to `parts` rows of equal
/// width.
fn row_of(value: u64, parts: u64) -> Bucket {
    if value == 0 {
        return Bucket { from_ns: 0, to_ns: 1, count: 0 };
    }
    let power = 1 << value.ilog2();
    let width = power / parts.min(power);
    let from_ns = value - value % width;
    Bucket { from_ns, to_ns: from_ns.saturating_add(width), count: 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::bucket;

    use super::*;

    fn buckets(values: impl IntoIterator<Item = u64>) -> Vec<Bucket> {
        let mut counts = std::collections::BTreeMap::new();
        for value in values {
            *counts.entry(bucket::index(value)).or_insert(0) += 1;
        }
        let bucket = |(index, count)| Bucket { from_ns: bucket::lower(index), to_ns: bucket::upper(index), count };
        counts.into_iter().map(bucket).collect()
    }

    fn bounds(rows: &[ChartRow]) -> Vec<(u64, u64)> {
        rows.iter()
            .filter_map(|row| if let ChartRow::Bucket(row) = row { Some((row.from_ns, row.to_ns)) } else { None })
            .collect()
    }

    #[test]
    fn few_powers_of_two_are_divided() {
        assert_eq!(bounds(&rows(&buckets([1024]))), [(1024, 1088)]);
        let first = |powers| bounds(&rows(&buckets((10..10 + powers).map(|k| 1 << k))))[0];
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(first).map(|(from, to)| to - from), [64, 128, 256, 256, 512, 512, 1024]);
    }

    #[test]
    fn an_outlier_does_not_make_the_other_rows_coarse() {
        let all = rows(&buckets([1024, 2047, 1 << 40]));
        assert_eq!(bounds(&all)[0], (1024, 1280));
        assert!(all.iter().any(|row| matches!(row, ChartRow::Gap(_))));
    }

    #[test]
    fn many_powers_of_two_have_a_row_each() {
        let rows = rows(&buckets((9..24).map(|k| 1 << k)));
        assert_eq!(rows.len(), 15);
        assert_eq!(bounds(&rows)[0], (512, 1024));
    }

    #[test]
    fn the_smallest_values_have_rows_of_their_own() {
        assert_eq!(bounds(&rows(&buckets(0..5))), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    }

    #[test]
    fn t19_the_topmost_row_ends_at_the_largest_number() {
        let all = rows(&buckets([0, u64::MAX]));
        assert!(matches!(all[..], [ChartRow::Bucket(_), ChartRow::Gap(_), ChartRow::Bucket(_)]), "{all:?}");
        assert_eq!(bounds(&all)[1].1, u64::MAX);
        assert!(rows(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn rows_are_few_have_no_gaps_and_contain_every_wait(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 64)), 1..200)) {
            let rows = rows(&buckets(values.iter().copied()));
            let mut end: Option<u64> = None;
            let mut count = 0;
            for row in &rows {
                match row {
                    ChartRow::Bucket(row) => {
                        prop_assert!(end.is_none_or(|end| end == row.from_ns));
                        prop_assert!(row.from_ns < row.to_ns);
                        end = Some(row.to_ns);
                        count += row.count;
                        let inside = |v: &&u64| row.from_ns <= **v && (**v < row.to_ns || row.to_ns == u64::MAX);
                        prop_assert_eq!(row.count, values.iter().filter(inside).count() as u64);
                    }
                    ChartRow::Gap(_) => end = None,
                }
            }
            prop_assert_eq!(count, values.len() as u64);
            prop_assert!(rows.len() <= 65);
        }
    }
}
