//! Why tasks waited: the accounts of a window added up, who was in the way, the worst waits, and what to do about it.
//! Pure.
//!
//! [`summary`] adds up what [`crate::timeline`] says of each wait, [`finding`] draws conclusions, and [`sink`] shows both.

pub mod causes;
pub mod chain;
pub mod finding;
pub mod folded;
pub mod groups;
pub mod imposed;
pub mod longest;
pub mod names;
pub mod sink;
pub mod stacks;
pub mod storms;
pub mod summary;
pub mod sums;
pub mod wakers;
pub mod works;

#[cfg(test)]
pub(crate) mod fixtures;

pub use names::NameCache;
pub use summary::{Summary, SummaryBuilder, SummaryOptions};
