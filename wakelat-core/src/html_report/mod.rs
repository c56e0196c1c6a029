//! Results as one HTML file that needs nothing else: [`recording`], a recording with its findings, distribution, causes
//! and longest waits; [`comparison`], two arms of runs. Pure.
//!
//! Each page is the frame of `page.rs` with figures as JSON, from which its script makes tables and SVG. Names of tasks
//! are only ever set as text.

pub mod comparison;
mod page;
pub mod recording;
mod source;

pub use source::HtmlSource;
