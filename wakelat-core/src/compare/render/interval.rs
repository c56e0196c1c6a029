//! Draws the interval of a ratio on a logarithmic axis with 1 in its middle.

use super::super::comparison::MetricComparison;
use crate::render::Style;

/// The most and the fewest columns of the drawing: odd, so that it has a middle.
pub const WIDTHS: [usize; 2] = [33, 11];

/// Ratios beyond this are at the edge.
const LARGEST: f64 = 8.0;

/// The axis of the intervals of a group.
pub struct RatioAxis {
    /// The logarithm of the ratio at the right edge.
    half: f64,
    /// The columns of the drawing.
    width: usize,
}

impl RatioAxis {
    /// An axis that has all of these intervals, in `room` columns if they are enough.
    pub fn of(metrics: &[MetricComparison], room: usize) -> Self {
        let ends = metrics.iter().flat_map(|metric| metric.interval.into_iter().chain([metric.ratio])).flatten();
        let largest = ends.map(|end| end.ln().abs()).filter(|log| log.is_finite()).fold(1.1f64.ln(), f64::max);
        let [most, fewest] = WIDTHS;
        let width = (room.saturating_sub(1) / 2 * 2 + 1).clamp(fewest, most);
        Self { half: largest.min(LARGEST.ln()) * 1.02, width }
    }

    /// The title: the ratios at the edges and in the middle.
    pub fn title(&self) -> String {
        let [low, high] = [(-self.half).exp(), self.half.exp()].map(super::labels::number);
        let side = self.width / 2;
        format!("{low:<side$}1{high:>side$}")
    }

    fn column(&self, ratio: f64) -> usize {
        let at = (ratio.max(f64::MIN_POSITIVE).ln() / self.half).clamp(-1.0, 1.0);
        ((at + 1.0) / 2.0 * (self.width - 1) as f64).round() as usize
    }

    /// The interval of a metric, with its ratio.
    pub fn draw(&self, metric: &MetricComparison, style: &Style) -> String {
        let Some(ratio) = metric.ratio else { return String::new() };
        let mut line = vec![' '; self.width];
        line[self.width / 2] = style.pick('┊', ':');
        let [low, high] = metric.interval;
        let from = low.map_or(0, |low| self.column(low));
        let to = high.map_or(self.width - 1, |high| self.column(high));
        line[from..=to].fill(style.pick('─', '-'));
        line[from] = if low.is_some() { style.pick('├', '|') } else { style.pick('◂', '<') };
        line[to] = if high.is_some() { style.pick('┤', '|') } else { style.pick('▸', '>') };
        line[self.column(ratio)] = style.pick('●', 'o');
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}
