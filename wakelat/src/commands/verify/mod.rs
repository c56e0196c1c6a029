//! Verifies wakelat's numbers: measures the same window with tracepoints, with hist triggers and with the run
//! queue's own clock, and compares the three.
//!
//! `run` measures; [`evaluation`] evaluates, with [`paired_waits`], [`compare`], [`checks`],
//! [`queue_clock`], [`distributions`], [`run_queues`] and [`schedstat_sums`]; [`text`] and [`document`] render the result. Only `run`, `setup`,
//! `queue_clock_side`, [`placed_triggers`], [`schedstat_reading`] and [`switch_counts`] access the kernel.

pub mod checks;
pub mod compare;
pub mod distributions;
pub mod document;
pub mod evaluation;
pub mod not_compared;
pub mod paired_waits;
pub mod placed_triggers;
pub mod queue_clock;
mod queue_clock_side;
mod run;
pub mod run_queues;
pub mod schedstat_reading;
pub mod schedstat_sums;
mod setup;
pub mod side;
pub mod switch_counts;
pub mod text;
#[cfg(test)]
mod verdict_tests;
pub mod window;

use anyhow::Result;
use wakelat_core::report::Mode;

use super::{measurement::prepare_machine, terminal_style::style};
use crate::{config::VerifyConfig, session::Environment};

pub use evaluation::Verdict;

/// `verify`: measures the same window with hist triggers.
///
/// # Errors
/// Errors of a measurement ([`crate::session::run`]), or if hist triggers are required and cannot be placed.
pub fn verify(config: &VerifyConfig) -> Result<Verdict> {
    let features = prepare_machine(&config.resources, Mode::Samples, &config.output, &config.notes)?;
    let (style, _) = style(&config.output);
    let release = features.release.clone();
    run::run(config, &Environment::new(features), &release, &style)
}
