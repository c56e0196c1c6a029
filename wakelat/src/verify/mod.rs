//! Verifies wakelat's numbers: measures the same window with BPF and with hist triggers, and compares the
//! two.
//!
//! `run` measures; [`verification`] evaluates, with [`waits`], [`compare`] and [`checks`]; [`text`] and
//! [`document`] render the result. Only `run`, [`triggers`], [`schedstat`] with `reading`, and the readings
//! of [`checks`] access the kernel.

pub mod checks;
pub mod compare;
pub mod document;
pub mod injected_error;
mod reading;
mod run;
pub mod schedstat;
pub mod side;
pub mod text;
pub mod triggers;
pub mod verification;
pub mod waits;
pub mod window;

pub use run::run;
pub use verification::Verdict;
