//! Holm's step-down procedure: tests of several groups, of which no true one is rejected except with the probability of
//! the level (S. Holm, "A simple sequentially rejective multiple test procedure", 1979).

/// The level at which each of the tests with these p-values is decided: it is rejected if its p-value is at most its level.
pub fn levels(p_values: &[f64], level: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let (mut levels, mut is_open) = (vec![level; p_values.len()], true);
    let mut current = level;
    for (rank, test) in order.into_iter().enumerate() {
        if is_open {
            current = level / (p_values.len() - rank) as f64;
            is_open = p_values[test] <= current;
        }
        levels[test] = current;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rejected_test_leaves_more_of_the_level_to_the_next() {
        let p_values = [0.03, 0.01, 0.04, 0.005];
        // 0.005 ≤ 0.05 / 4 and 0.01 ≤ 0.05 / 3 are rejected; 0.03 > 0.05 / 2 is not, and neither is what follows.
        let expected = [0.05 / 2.0, 0.05 / 3.0, 0.05 / 2.0, 0.05 / 4.0];
        assert_eq!(levels(&p_values, 0.05), expected);
        assert_eq!(levels(&[0.2], 0.05), [0.05]);
        assert!(levels(&[], 0.05).is_empty());
    }

    #[test]
    fn equal_p_values_have_one_decision() {
        let rejected =
            |p_values: &[f64]| levels(p_values, 0.05).iter().zip(p_values).filter(|(level, p)| *p <= *level).count();
        assert_eq!(rejected(&[0.012; 4]), 4);
        assert_eq!(rejected(&[0.013; 4]), 0);
    }
}
