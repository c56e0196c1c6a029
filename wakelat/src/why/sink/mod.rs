//! What a person or a program sees of the reasons why tasks waited.
//!
//! As in [`crate::sink`]: no I/O but the writer that is given, no clock, and under every view the coverage.

mod document;
mod finding;
mod groups;
mod ranking;
mod stacks;
mod storm;
mod text;
mod wakers;
mod words;
mod worst;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;

pub use document::write as json;
pub use text::text;
