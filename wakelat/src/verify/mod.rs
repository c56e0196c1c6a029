//! Whether wakelat's numbers are right: the same window measured by BPF and by hist triggers, laid side by side.
//!
//! `run` measures; [`judge`] judges, by [`waits`], [`compare`] and [`checks`]; [`text`] and [`document`] show the result.
//! Only `run`, [`triggers`], [`schedstat`] with `reading`, and the readings of [`checks`] touch the kernel.

pub mod checks;
pub mod compare;
pub mod document;
pub mod judge;
pub mod plant;
mod reading;
mod run;
pub mod schedstat;
pub mod side;
pub mod text;
pub mod triggers;
pub mod waits;
pub mod window;

pub use judge::Verdict;
pub use run::run;
