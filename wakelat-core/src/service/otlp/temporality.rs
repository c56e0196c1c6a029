//! The temporality of counters and histograms.

use serde::Serialize;

/// What the points of counters and histograms cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Temporality {
    /// Everything since the series began.
    #[default]
    Cumulative,
    /// Everything since the previous export.
    Delta,
}
