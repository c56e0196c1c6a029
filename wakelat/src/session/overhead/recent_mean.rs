//! A mean that follows a quantity which changes: pure.

/// An exponentially weighted moving average that begins as a plain mean.
///
/// Each value has a weight, such as a number of runs or a length of time. At first all values count by their weight. Once
/// their weight is `many`, new values of that weight count as much as all earlier ones.
#[derive(Clone, Copy, Debug)]
pub struct RecentMean {
    value: f64,
    known: f64,
    many: f64,
}

impl RecentMean {
    /// Nothing is known yet.
    pub const fn unknown(many: f64) -> Self {
        Self::assumed(0.0, 0.0, many)
    }

    /// The mean is assumed to be `value`, which counts like values of the weight `known`.
    pub const fn assumed(value: f64, known: f64, many: f64) -> Self {
        Self { value, known, many }
    }

    /// Adds a value of a weight above 0.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.value += weight / (weight + self.known) * (value - self.value);
        self.known = (self.known + weight).min(self.many);
    }

    /// The mean; 0 before the first value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Multiplies the mean.
    pub fn scale(&mut self, factor: f64) {
        self.value *= factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_count_by_their_weight() {
        let mut mean = RecentMean::unknown(100.0);
        mean.add(1.0, 10.0);
        mean.add(2.0, 30.0);
        assert_eq!(mean.value(), 1.75);
    }

    #[test]
    fn later_values_count_as_much_as_all_before_them() {
        let mut mean = RecentMean::assumed(8.0, 100.0, 100.0);
        mean.add(0.0, 100.0);
        mean.add(0.0, 100.0);
        assert_eq!(mean.value(), 2.0);
    }

    #[test]
    fn an_assumption_counts_like_values() {
        let mut mean = RecentMean::assumed(10.0, 100.0, 1_000.0);
        mean.add(40.0, 200.0);
        assert_eq!(mean.value(), 30.0);
    }
}
