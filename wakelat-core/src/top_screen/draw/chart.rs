//! The distribution of latencies, and beside it the same over time: a row for each range of latencies.

use ratatui::style::Style;

use super::context::Context;
use crate::{
    render::{text_line::width, units},
    top_screen::{
        canvas::Canvas,
        data::wait_buckets::OCTAVES,
        view::{group_details::GroupDetails, selection::TimeSpan},
    },
};

/// Columns of the bound of a row, and of its number of waits.
const BOUND: usize = 7;
const COUNT: usize = 6;

/// Fewest columns of the heat map.
const HEAT: usize = 8;

/// Draws the distribution and the heat map.
pub fn draw(canvas: &mut Canvas<'_>, context: &Context<'_>, details: &GroupDetails) {
    if canvas.height() < 3 || canvas.width() < BOUND + COUNT + HEAT {
        return;
    }
    let look = canvas.look;
    let used = |octave: &usize| details.octaves[*octave] > 0 || details.over_time.iter().any(|(_, of)| of[*octave] > 0);
    let octaves: Vec<usize> = (0..OCTAVES).filter(used).collect();
    let [Some(first), Some(last)] = [octaves.first(), octaves.last()] else {
        canvas.text((0, 0), "no waits", look.dim());
        return;
    };
    let rows = canvas.height() - 2;
    let step = (last - first + 1).div_ceil(rows);
    // The rows begin at the same octaves, whatever is selected.
    let begins: Vec<usize> = (*first..=*last).step_by(step).collect();
    let room = canvas.width() - BOUND - COUNT - 3;
    let bar = (room / 3).min(24);
    let heat_x = BOUND + COUNT + 3 + bar;
    let heat = canvas.width().saturating_sub(heat_x);
    canvas.right((BOUND, 0), "latency", look.dim());
    canvas.right((BOUND + COUNT + 1, 0), "waits", look.dim());
    let span = span_ns(context);
    let over = format!("over {}", context.time(span.1.saturating_sub(span.0)));
    if width(&over) <= heat {
        canvas.text((heat_x, 0), &over, look.dim());
    }
    let of_row = |counts: &[u64; OCTAVES], begin: usize| -> u64 {
        counts[begin..(begin + step).min(OCTAVES)].iter().copied().fold(0, u64::saturating_add)
    };
    let most = begins.iter().map(|begin| of_row(&details.octaves, *begin)).max().unwrap_or(0);
    let columns = heat_columns(context, details, heat);
    let cells: Vec<Vec<u64>> =
        begins.iter().map(|begin| columns.iter().map(|of| of_row(of, *begin)).collect()).collect();
    let hottest = cells.iter().flatten().copied().max().unwrap_or(0);
    for (y, (begin, cells)) in (1..).zip(begins.iter().zip(&cells).rev()) {
        canvas.right((BOUND, y), &units::bound(1 << begin, look.text.unicode), Style::new());
        let count = of_row(&details.octaves, *begin);
        if count > 0 {
            canvas.right((BOUND + COUNT + 1, y), &units::short(count), Style::new());
        }
        let full = (u128::from(count) * bar as u128).div_ceil(u128::from(most.max(1))) as usize;
        let block = look.pick("█", "#").repeat(full);
        canvas.text((BOUND + COUNT + 2, y), &block, look.bar());
        for (x, count) in (heat_x..).zip(cells) {
            let (character, style) = look.heat(level(*count, hottest));
            canvas.set((x, y), character, style);
        }
    }
    axis(canvas, context, (heat_x, begins.len() + 1), heat);
}

/// The level of a count in the heat map: 0 for none, and up to 4 by the logarithm.
fn level(count: u64, most: u64) -> usize {
    let Some(log) = count.checked_ilog2() else { return 0 };
    let of = most.max(2).ilog2();
    1 + (3 * log / of) as usize
}

/// Begin and end of all of the time: ns of CLOCK_MONOTONIC.
fn span_ns(context: &Context<'_>) -> (u64, u64) {
    let start_ns = context.measured.start_ns.unwrap_or(0);
    (start_ns, context.measured.now_ns.max(start_ns))
}

/// The interval of a column, of `columns`.
pub fn interval_at(context: &Context<'_>, column: usize, columns: usize) -> std::ops::Range<u64> {
    let [Some((first, _)), Some((last, _))] = [context.measured.intervals.first(), context.measured.intervals.last()]
    else {
        return 0..0;
    };
    let count = u128::from(last - first) + 1;
    let at = |column: usize| first + (count * column as u128 / columns.max(1) as u128) as u64;
    at(column)..at(column + 1).max(at(column) + 1)
}

/// The number of waits by power of two, for each column.
fn heat_columns(context: &Context<'_>, details: &GroupDetails, columns: usize) -> Vec<[u64; OCTAVES]> {
    let of = |column: usize| {
        let numbers = interval_at(context, column, columns);
        let begin = details.over_time.partition_point(|(number, _)| *number < numbers.start);
        let mut sum = [0u64; OCTAVES];
        for (_, counts) in details.over_time[begin..].iter().take_while(|(number, _)| *number < numbers.end) {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
        sum
    };
    (0..columns).map(of).collect()
}

/// Draws the axis of the time, on which the part that is shown is marked.
fn axis(canvas: &mut Canvas<'_>, context: &Context<'_>, (x, y): (usize, usize), columns: usize) {
    let look = canvas.look;
    for column in 0..columns {
        let is_shown = is_shown(context, column, columns);
        let character = if is_shown { look.pick('═', '=') } else { look.pick('─', '-') };
        canvas.set((x + column, y), character, if is_shown { look.title() } else { look.dim() });
    }
}

/// Whether a column belongs to the part of the time that is shown.
pub fn is_shown(context: &Context<'_>, column: usize, columns: usize) -> bool {
    let shown = match context.span {
        TimeSpan::All => return false,
        TimeSpan::Last => context.measured.last.span_ns,
        TimeSpan::Between(from_ns, to_ns) => (from_ns, to_ns),
    };
    let numbers = interval_at(context, column, columns);
    let at = |number: u64| number.saturating_mul(context.measured.interval_ns);
    at(numbers.start) < shown.1 && at(numbers.end) > shown.0
}
