//! Why tasks waited: the breakdowns of a window added up, the tasks and interrupts that made others wait, the longest
//! waits, and what to do about them. Pure.
//!
//! [`summary`] adds up the breakdowns that [`crate::timeline`] makes of the waits, [`finding`] draws conclusions from
//! the sums, and [`render`] shows both.

pub mod causes;
pub mod counted;
pub mod finding;
pub mod folded;
pub mod fork_bursts;
pub mod groups;
pub mod interferers;
pub mod name_cache;
mod options;
mod places;
pub mod preemptions;
pub mod render;
pub mod stacks;
pub mod summary;
pub mod sums;
mod tid_set;
pub mod wakeup_pairs;
pub mod work_items;
pub mod worst;

#[cfg(test)]
pub(crate) mod testing;

pub use name_cache::NameCache;
pub use options::SummaryOptions;
pub use summary::{Summary, SummaryBuilder};
