//! Tables that keep what is largest.

use std::{cmp::Reverse, hash::Hash};

use crate::hash::HashMap;

/// If a table has more than `limit` values, keeps the largest seven eighths of `limit`, so that this is seldom needed, and
/// passes the others to `on_remove`. Of equal values, some are kept.
pub(super) fn keep_largest<K: Eq + Hash, V>(
    table: &mut HashMap<K, V>,
    limit: usize,
    size: impl Fn(&V) -> u128,
    mut on_remove: impl FnMut(&V),
) {
    if table.len() <= limit {
        return;
    }
    let most = limit - limit / 8;
    let mut sizes: Vec<u128> = table.values().map(&size).collect();
    let (_, least, _) = sizes.select_nth_unstable_by_key(most, |size| Reverse(*size));
    let least = *least;
    let mut equal = most - sizes.iter().filter(|size| **size > least).count();
    table.retain(|_, value| {
        let size = size(value);
        let is_kept = size > least || size == least && equal > 0;
        if !is_kept {
            on_remove(value);
        } else if size == least {
            equal -= 1;
        }
        is_kept
    });
    table.shrink_to(limit);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_largest_values_are_kept_and_all_others_are_passed_on(
            values in prop::collection::vec(0..20u128, 0..60),
            limit in 1..40usize,
        ) {
            let mut table: HashMap<usize, u128> = values.iter().copied().enumerate().collect();
            let mut removed = Vec::new();
            keep_largest(&mut table, limit, |value| *value, |value| removed.push(*value));
            let mut sorted = values.clone();
            sorted.sort_unstable_by_key(|value| Reverse(*value));
            let kept = if values.len() > limit { limit - limit / 8 } else { values.len() };
            let mut found: Vec<u128> = table.into_values().collect();
            found.sort_unstable_by_key(|value| Reverse(*value));
            prop_assert_eq!(&found, &sorted[..kept]);
            removed.sort_unstable_by_key(|value| Reverse(*value));
            prop_assert_eq!(&removed, &sorted[kept..]);
        }
    }
}
