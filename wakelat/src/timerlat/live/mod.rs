//! The live tracer as a source: it is set up in a tracefs instance of its own, read, and everything is as before
//! afterwards.

mod buffer;
pub mod clock;
pub mod former;
pub mod layout;
pub mod page;
mod placement;
mod run;
mod said;
mod settings;
mod shown;
mod source;
mod stop;
mod threads;
pub mod trace_text;
mod tracer;
pub mod user;

pub use run::{Listener, TracerRunInfo, run};
pub use shown::{OsnoiseListener, TimerlatListener};
