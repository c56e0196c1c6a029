//! The live tracer as a source: sets it up in a tracefs instance of its own, reads it, and restores
//! everything afterwards.

mod bpf_records;
mod buffer;
pub mod clock;
pub mod layout;
mod listeners;
pub mod page;
mod placement;
mod run;
pub mod saved_settings;
mod settings;
mod source;
mod stop;
mod threads;
pub mod trace_text;
mod tracer;
pub mod user;

pub use listeners::{OsnoiseListener, TimerlatListener};
pub use run::{Listener, TracerRunInfo, run};
