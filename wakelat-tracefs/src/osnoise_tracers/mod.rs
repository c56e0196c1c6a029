//! The timerlat and osnoise tracers, in a tracefs instance of their own: sets one up, reads its trace buffer,
//! and restores everything afterwards.
//!
//! `events`, `osnoise_files`, `tracer_request`, [`record_decoder`], [`page`], [`local_clock`], [`stop`] and
//! [`trace_text_writer`] only compute.

pub mod buffer;
pub mod comm_cache;
mod events;
pub mod local_clock;
mod osnoise_files;
pub mod page;
pub mod record_decoder;
pub mod saved_settings;
pub mod stop;
pub mod thread_placement;
pub mod trace_text_writer;
pub mod tracer_instance;
mod tracer_request;

#[cfg(test)]
mod fixtures;

pub use events::TracerEvents;
pub use tracer_request::{CgroupChoice, TIMERLAT_PERIOD_US, Tracer, TracerSetup, UserThreadsConfig};
