//! The timerlat and osnoise tracers, in a tracefs instance of their own: sets one up, reads its trace buffer,
//! and restores everything afterwards.
//!
//! `settings`, [`layout`], [`page`], [`clock`], [`stop`] and [`trace_text`] only compute.

pub mod buffer;
pub mod clock;
mod events;
pub mod layout;
pub mod page;
pub mod placement;
pub mod saved_settings;
pub mod session;
mod settings;
mod setup;
pub mod stop;
pub mod threads;
pub mod trace_text;

#[cfg(test)]
mod fixtures;

pub use events::TracerEvents;
pub use setup::{CgroupChoice, TIMERLAT_PERIOD_US, Tracer, TracerSetup, UserThreadsConfig};
