//! The kernel's timerlat and osnoise tracers: how late a periodic timer's thread runs, and what made it late.
//!
//! Data moves one way: a source (the text of a trace, or a live kernel) gives [`record::TimerlatRecord`]s, [`assemble`] makes
//! activations of them, [`explain`] says where their time went, [`summary`] and [`noise`] add them up, and [`sink`] shows
//! that. All of it is pure but for [`run`], which opens files.

pub mod assemble;
pub mod explain;
pub mod finding;
pub mod linear;
pub mod live;
pub mod noise;
mod periods;
pub mod record;
pub mod run;
pub mod sink;
pub mod summary;
pub mod text;

#[cfg(test)]
mod fixtures;
