//! The lines of ftrace's text, whatever their events: their heads, notes on losses, and reading them one by one.

mod head;
mod lines;

pub(crate) use head::{LineHead, lost, number, overwritten, seconds, word};
pub(crate) use lines::{TraceLineReader, excerpt};
