//! The kernel's timerlat and osnoise tracers: how late a periodic timer wakes its thread, and what made it
//! late.
//!
//! Data flows in one direction: a source (the text of a trace, or a live kernel) produces
//! [`record::TimerlatRecord`]s, [`assemble`] groups them into activations, [`explain`] divides the latency
//! of each among its causes, [`summary`] and [`noise`] add them up, and [`render`] formats the result.
//! Everything is pure except [`run`], which opens files, and [`live`].

pub mod assemble;
pub mod explain;
pub mod finding;
pub mod linear;
pub mod live;
pub mod osnoise_summary;
pub mod record;
pub mod render;
pub mod saved_trace;
mod skipped_periods;
pub mod summary;
pub mod text;

#[cfg(test)]
mod fixtures;
