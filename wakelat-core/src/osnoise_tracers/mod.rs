//! The kernel's timerlat and osnoise tracers: how late a periodic timer wakes its thread, and what made it
//! late.
//!
//! Data flows in one direction: a source (the text of a trace, or a live kernel) produces
//! [`record::TimerlatRecord`]s, [`assemble`] groups them into activations, [`explain`] divides the latency
//! of each among its causes, [`summary`] and [`osnoise_summary`] add them up, and [`render`] formats the
//! result.

pub mod assemble;
pub mod explain;
pub mod finding;
pub mod linear;
pub mod osnoise_summary;
pub mod record;
pub mod render;
mod skipped_periods;
pub mod summary;
pub mod text;

#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
