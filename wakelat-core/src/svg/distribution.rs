//! The distribution of latency: bars for each group.

use std::{collections::BTreeMap, io};

use super::picture::{Anchor, MARGIN, Picture, WIDTH};
use crate::{
    render::{PERCENTILES, Style, labels, octave_bins, units},
    report::{Group, Report},
};

/// Maximum number of groups that are drawn: those with the most waits.
const GROUPS: usize = 6;

/// The height of the bars of a group: px.
const HEIGHT: f64 = 150.0;

const TITLE: &str = "How long tasks waited for a CPU";

/// The distributions of a report: waits by latency, four bars to a doubling, with percentiles.
///
/// # Errors
/// None: it writes to memory.
pub fn distribution(report: &Report) -> io::Result<String> {
    let mut largest: Vec<usize> = (0..report.groups.len()).collect();
    largest.retain(|at| report.groups[*at].distribution.count() > 0);
    largest.sort_by_key(|at| std::cmp::Reverse(report.groups[*at].distribution.count()));
    let others = largest.split_off(largest.len().min(GROUPS)).len();
    largest.sort_unstable();
    let mut picture = Picture::new(TITLE)?;
    if largest.is_empty() {
        picture.paragraph("dim", "No wait was measured.")?;
    }
    let mut described = Vec::new();
    for at in largest {
        described.push(draw(&report.groups[at], report, &mut picture)?);
    }
    if others > 0 {
        let text = format!("{} with fewer waits not drawn", units::counted(others as u64, "group"));
        picture.y += 6.0;
        picture.paragraph("dim", &text)?;
        described.push(text);
    }
    picture.finish(TITLE, &described.join("; "))
}

/// Draws a group, and returns it in words.
fn draw(group: &Group, report: &Report, picture: &mut Picture) -> io::Result<String> {
    let style = Style { unicode: true, ..Style::default() };
    let distribution = &group.distribution;
    let name = labels::figure(group.class, report.from);
    let name = labels::key(&group.key, &style).map_or_else(|| name.to_owned(), |key| format!("{name} · {key}"));
    let title = format!("{name} · {}", units::counted(distribution.count(), "wait"));
    picture.y += 8.0;
    picture.paragraph("head", &title)?;
    let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
    for bucket in distribution.buckets() {
        *bins.entry(octave_bins::bin(bucket.from_ns)).or_default() += bucket.count;
    }
    let (Some((first, _)), Some((last, _))) = (bins.first_key_value(), bins.last_key_value()) else {
        return Ok(title);
    };
    let (first, bins_wide) = (f64::from(*first), f64::from(last - first + 1));
    let x = |place: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * ((place - first) / bins_wide).clamp(0.0, 1.0);
    let (top, bottom) = (picture.y + 38.0, picture.y + 38.0 + HEIGHT);
    let mut decade = 1;
    while decade <= u64::MAX / 10 {
        let place = octave_bins::place(decade);
        if place >= first && place <= first + bins_wide {
            picture.line([x(place), top, x(place), bottom], "")?;
            picture.text((x(place), bottom + 16.0), Anchor::Middle, "dim", &units::bound(decade, true))?;
        }
        decade *= 10;
    }
    let most = bins.values().copied().max().unwrap_or(1);
    for (bin, count) in &bins {
        let [from, to] = [*bin, *bin + 1].map(|bin| octave_bins::begin_ns(bin).round() as u64);
        let height = (HEIGHT * *count as f64 / most as f64).max(1.0);
        let (left, right) = (x(f64::from(*bin)), x(f64::from(*bin + 1)));
        let times = [from, to].map(|ns| units::bound(ns, true));
        let meaning = format!("{} to {}: {}", times[0], times[1], units::counted(*count, "wait"));
        let attributes = [("data-from-ns", &*from.to_string()), ("data-waits", &*count.to_string())];
        picture.bar([left, bottom - height, (right - left - 0.5).max(1.0), height], "c0", &meaning, &attributes)?;
    }
    picture.line([MARGIN, bottom, WIDTH - MARGIN, bottom], "")?;
    let mut figures = Vec::new();
    for (at, (percent, name)) in PERCENTILES.iter().enumerate() {
        let place = x(octave_bins::place(distribution.percentile_ns(*percent)));
        let height = if at % 2 == 0 { 0.0 } else { 12.0 };
        picture.line([place, top - 12.0 + height, place, bottom], "mark")?;
        picture.text((place, top - 14.0 + height), Anchor::Middle, "mark", name)?;
        figures.push(format!("{name} {}", labels::percentile(distribution, *percent, &style)));
    }
    figures.push(format!("max {}", units::duration(distribution.max_ns(), true)));
    picture.y = bottom + 20.0;
    picture.paragraph("dim", &figures.join(" · "))?;
    Ok(format!("{title}: {}", figures.join(", ")))
}
