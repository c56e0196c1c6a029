//! How long the programs measured in a window, as text.

use super::{style::Style, units::duration};
use crate::report::Report;

/// How long the programs measured in the window, and that they paused for the rest of it, if they did.
pub fn text(report: &Report, style: &Style) -> String {
    let measured_ns = report.measured_ns();
    let pauses = if measured_ns < report.duration_ns { "; wakelat paused for the rest of the window" } else { "" };
    format!("{}{pauses}", duration(measured_ns, style.unicode))
}
