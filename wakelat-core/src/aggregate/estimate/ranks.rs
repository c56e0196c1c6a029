//! The ranks of a sample that bound a percentile of all waits, and the quantiles for them: pure.

use super::CONFIDENCE_PERCENT;

/// The shares of the sample between which the percentile of all waits lies, for a sample as good as
/// `size` independent waits; none if the percentile can be below the shortest or above the longest of
/// them.
pub(super) fn ranks(size: f64, share: f64) -> (Option<f64>, Option<f64>) {
    let (low, high) = ranks_from(size, share.min(1.0 - share));
    let mirrored = |share: Option<f64>| share.map(|share| 1.0 - share);
    if share <= 0.5 { (low, high) } else { (mirrored(high), mirrored(low)) }
}

/// [`ranks`] for a share of at most one half.
fn ranks_from(size: f64, share: f64) -> (Option<f64>, Option<f64>) {
    const TAIL: f64 = (1.0 - CONFIDENCE_PERCENT as f64 / 100.0) / 2.0;
    /// From this variance on, a binomial count is treated as normally distributed.
    const MANY: f64 = 100.0;
    if size * share * (1.0 - share) > MANY {
        let width = NORMAL * (share * (1.0 - share) / size).sqrt();
        return (Some(share - width), Some(share + width));
    }
    // The number of waits up to the percentile is binomial: the wait of rank `r` is above the percentile
    // if fewer than `r` are, and below it if `r` or more are.
    let size = size.floor();
    let mut probability = (1.0 - share).powf(size);
    let mut fewer = probability;
    let mut low = None;
    for rank in (1..=size as u32).map(f64::from) {
        if fewer <= TAIL {
            low = Some(rank / size);
        }
        if 1.0 - fewer <= TAIL {
            return (low, Some(rank / size));
        }
        probability *= (size - rank + 1.0) / rank * share / (1.0 - share);
        fewer += probability;
    }
    (low, None)
}

/// The quantile of the normal distribution for a two-sided interval of [`CONFIDENCE_PERCENT`].
pub(super) const NORMAL: f64 = 1.959_964;

/// The quantile of Student's distribution for a two-sided interval of [`CONFIDENCE_PERCENT`].
pub(super) fn quantile(freedom: f64) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // The first terms of the expansion around the normal distribution: accurate to one or two
    // thousandths from 11 on.
    let expanded = NORMAL
        + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom)
        + (5.0 * NORMAL.powi(5) + 16.0 * NORMAL.powi(3) + 3.0 * NORMAL) / (96.0 * freedom.powi(2));
    // NaN if neither tasks nor periods differ.
    if freedom.is_nan() { NORMAL } else { FEW.get((freedom as usize).max(1) - 1).copied().unwrap_or(expanded) }
}
