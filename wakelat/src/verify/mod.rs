//! Whether wakelat's numbers are right: the same window measured by BPF and by hist triggers, laid side by side.
//!
//! `run` measures; [`waits`], [`compare`] and [`checks`] judge, and [`show`] shows. Only `run`, [`triggers`] and the
//! readings of [`checks`] touch the kernel.

pub mod checks;
pub mod compare;
pub mod document;
pub mod plant;
mod run;
pub mod schedstat;
pub mod show;
pub mod side;
pub mod summary;
pub mod triggers;
pub mod waits;
pub mod window;

pub use run::run;
