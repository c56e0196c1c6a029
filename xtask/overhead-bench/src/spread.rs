//! The median and the spread of some figures. Pure.

use serde::Serialize;

/// Median and quartiles. A single round in which something else used the machine hardly moves a median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The lower quartile.
    pub lower: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub upper: f64,
}

impl Spread {
    /// The spread of `figures`; `None` if there are none. Figures that are not finite are ignored.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            return None;
        }
        Some(Self { lower: at(&sorted, 0.25), median: at(&sorted, 0.5), upper: at(&sorted, 0.75) })
    }
}

/// The value below which the fraction `fraction` lies, interpolated linearly between two neighbours (type 7
/// of Hyndman and Fan 1996).
fn at(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_quartiles_lie_between_neighbours() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { lower: 1.75, median: 2.5, upper: 3.25 });
        assert_eq!(Spread::of([7.0]).unwrap(), Spread { lower: 7.0, median: 7.0, upper: 7.0 });
    }

    #[test]
    fn one_disturbed_round_moves_the_median_to_its_neighbour_at_most() {
        assert_eq!(Spread::of([1.0, 1.1, 1.2, 1.3, 900.0]).unwrap().median, 1.2);
    }

    #[test]
    fn figures_that_are_not_finite_are_ignored_and_none_have_no_spread() {
        assert_eq!(Spread::of([f64::NAN, 1.0, f64::INFINITY]).unwrap().median, 1.0);
        assert_eq!(Spread::of([]), None);
    }
}
