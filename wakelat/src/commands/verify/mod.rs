//! Verifies wakelat's numbers: measures the same window with BPF and with hist triggers, and compares the
//! two.
//!
//! `run` measures; [`evaluation`] evaluates, with [`paired_waits`], [`compare`] and [`checks`]; [`text`] and
//! [`document`] render the result. Only `run`, [`triggers`], [`schedstat`] with `schedstat_reading`, and the
//! readings of [`checks`] access the kernel.

pub mod checks;
pub mod compare;
pub mod document;
pub mod evaluation;
pub mod paired_waits;
pub mod placed_triggers;
mod run;
pub mod schedstat;
mod schedstat_reading;
pub mod side;
pub mod text;
pub mod window;

pub use evaluation::Verdict;
pub use run::run;
