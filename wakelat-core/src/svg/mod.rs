//! Pictures as SVG: the distribution of `hist`, the causes of `why`, and the timeline of a wait. Pure, and the same
//! input gives the same picture.
//!
//! A picture has the colours of the pages of [`crate::html_report`] on a background of its own, light or dark as the
//! system is. What its shapes stand for is in their attributes `data-…`, with the exact figures.

mod causes;
mod distribution;
mod picture;
mod time_line;

#[cfg(test)]
mod tests;

pub use causes::causes;
pub use distribution::distribution;
pub use time_line::{no_time_line, time_line};
