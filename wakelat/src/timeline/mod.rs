//! What happened on each CPU, event by event: the source of every answer to why a task waited. Pure.
//!
//! The programs send a record of each switch, interrupt and move ([`event`]). Of these each CPU has a [`history`] without
//! gaps, and each waiting task the run queues it stood on ([`moves`]). When a wait ends, [`attribute`] looks up whose its
//! time was and makes an [`account`] of it: shares that add up to the latency. The [`part`]s are those of
//! docs/semantics.md.

pub mod account;
pub mod attribute;
pub mod decode;
pub mod event;
pub mod history;
pub mod moves;
pub mod part;
pub mod stack;
pub mod stay;

#[cfg(test)]
pub(crate) mod fixtures;

pub use account::Breakdown;
pub use attribute::Timeline;
