//! Shows a comparison: as text, JSON, Markdown, JUnit XML and in Bencher's format.

mod bmf;
mod document;
mod interval;
mod junit;
pub(crate) mod labels;
mod markdown;
mod overlay;
mod text;

#[cfg(test)]
mod tests;

pub use bmf::bmf;
pub use document::json;
pub use junit::junit;
pub use markdown::markdown;
pub use text::text;
