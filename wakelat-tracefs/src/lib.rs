//! The kernel's own instruments in tracefs.
//!
//! An [`Instance`] of wakelat's own has its triggers and its tracer; [`hist_trigger`] is the language of hist
//! triggers and of their output, and [`osnoise_tracers`] runs the timerlat and osnoise tracers. Nothing else in
//! tracefs changes. The next run finds by name, and removes, what a killed run has left behind ([`leftovers`]).

#![forbid(unsafe_code)]

pub mod error_log;
pub mod hist_trigger;
pub mod instance;
pub mod leftovers;
mod mount;
pub mod osnoise_tracers;
pub mod owner;

pub use instance::Instance;
pub use mount::{TracefsError, TracefsMount, read_at_once};
pub use owner::Owner;
