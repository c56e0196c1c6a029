//! What is known of the change of several metrics, whatever its source: runs or intervals of one run.

/// The changes of several metrics that are tested together.
pub trait Evidence {
    /// The change of a metric.
    fn estimate(&self, metric: usize) -> f64;

    /// The probability of changes as far from `shift` as the actual one, or of a larger one of the other metrics, if
    /// `shift` were the change of the metric.
    fn p_value(&self, metric: usize, shift: f64) -> f64;

    /// The order of magnitude of the error of a change.
    fn scale(&self, metric: usize) -> f64;

    /// The changes that are not rejected at `level`, for all metrics at once: the lowest and the highest. An end is
    /// infinite if no change in its direction is rejected.
    fn interval(&self, metric: usize, level: f64) -> [f64; 2] {
        [-1.0, 1.0].map(|direction| self.end(metric, level, direction))
    }

    /// Where the interval ends in a direction: the last change that is not rejected.
    fn end(&self, metric: usize, level: f64, direction: f64) -> f64 {
        /// How often the distance is doubled in search of a rejected change, and how often its end is halved.
        const DOUBLINGS: usize = 40;
        const HALVINGS: usize = 50;
        let estimate = self.estimate(metric);
        let is_rejected = |distance: f64| self.p_value(metric, estimate + direction * distance) <= level;
        let mut far = self.scale(metric).max(estimate.abs() * 1e-9).max(1e-9);
        let found = (0..DOUBLINGS).find(|_| {
            let found = is_rejected(far);
            far *= if found { 1.0 } else { 2.0 };
            found
        });
        if found.is_none() {
            return direction * f64::INFINITY;
        }
        let mut near = 0.0;
        for _ in 0..HALVINGS {
            let middle = (near + far) / 2.0;
            if is_rejected(middle) { far = middle } else { near = middle }
        }
        estimate + direction * far
    }
}
