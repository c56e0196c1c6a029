//! The commands, and the views with which they show their results.

mod doctor;
mod events;
mod export;
mod hist;
mod hist_trigger;
mod launch;
mod measurement;
mod osnoise_tracers;
mod print;
mod record;
mod serve;
mod terminal_style;
mod top;
mod trace;
mod trace_all;
mod trace_breakdown;
mod verify;
mod why;
mod why_counted;

pub use doctor::doctor;
pub use events::events;
pub use export::export;
pub use hist::hist;
pub use hist_trigger::hist_trigger;
pub use launch::launch;
pub use osnoise_tracers::{osnoise, timerlat, timerlat_thread};
pub use record::record;
pub use serve::serve;
pub use top::top;
pub use trace::trace;
pub use trace_all::trace_all;
pub use trace_breakdown::trace_breakdown;
pub use verify::{Verdict, verify};
pub use why::why;
pub use why_counted::why_counted;
