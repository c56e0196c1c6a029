//! Renders the causes of waits for people and for programs.
//!
//! As in [`crate::render`], there is no I/O but the given writer and no clock, and every view shows the
//! coverage.

mod counted;
mod counted_document;
mod document;
pub(crate) mod finding;
mod fork_burst;
mod groups;
pub(crate) mod labels;
mod overview;
mod ranking;
mod stacks;
mod text;
pub(crate) mod wait_timeline;
mod wakeup_pairs;

#[cfg(test)]
mod tests;

pub use counted::text as counted_text;
pub use counted_document::write as counted_json;
pub use document::write as json;
pub use overview::overview;
pub use text::text;
