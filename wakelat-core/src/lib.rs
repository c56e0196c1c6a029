//! Run-queue waits without a kernel.
//!
//! Data flows in one direction: [`decode`] turns the records of the BPF programs into waits ([`wait`]), [`aggregate`]
//! groups them into a [`report`], [`timeline`] divides each wait into the components that [`why`] adds up, and [`render`]
//! shows the result. [`recording`] is a file of the same events. [`timerlat`] does the same for the records of the
//! timerlat and osnoise tracers. Nothing here does I/O except through a reader or writer that the caller passes, and
//! nothing reads a clock: the same input gives the same output.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod decode;
pub mod hash;
pub mod recording;
pub mod render;
pub mod report;
pub mod softirq;
pub mod timeline;
pub mod timerlat;
pub mod wait;
pub mod why;
