//! A measurement kept in a file, to be looked at again: every event, what it takes to name what is in them, and the account.
//! Pure.
//!
//! A file is [`MAGIC`], [`FORMAT`] and then frames: a length, a checksum, and so many bytes, which are a [`Frame`] as postcard
//! writes it (<https://postcard.jamesmunns.com/wire-format>). Numbers around frames have four bytes, the lowest first. The checksum is
//! the CRC-32 of zip and Ethernet, over all frames so far without what stands around them, so that one that is missing or in
//! another place is found, too. The first frame is a [`Frame::Header`], the last a [`Frame::End`], behind which is nothing.

mod error;
mod names;
mod read;
mod write;

#[cfg(test)]
mod layout;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    report::{LatencyFrom, Report},
    timeline::event::Event,
    wait::{Comm, Namespace},
};

pub use error::RecordingError;
pub use names::RecordedNames;
pub use read::Recording;
pub use write::Recorder;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"wakelat\n";

/// Counts the forms that frames have had: a file of another form is refused, not guessed at.
pub const FORMAT: u32 = 2;

/// The longest frame, in bytes: several times what the longest path of a cgroup takes (`PATH_MAX`, include/uapi/linux/limits.h). What
/// says that it is longer is none, and nobody makes room for it.
const MAX_FRAME_BYTES: u32 = 1 << 16;

/// What stands in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// How it was measured.
    Header(Header),
    /// What a cgroup was called when it was first seen: before the first event with it.
    Cgroup {
        /// Its id in the v2 hierarchy.
        id: u64,
        /// Its path below the mount.
        path: Cow<'a, str>,
    },
    /// What a thread was called that woke another and was not seen at a switch before: before the first event with it.
    Task {
        /// Its thread id.
        tid: u32,
        /// Its name.
        comm: Comm,
    },
    /// In which PID namespace a thread is: before the first event in which it has waited, and again where its number is given to
    /// another.
    Namespace {
        /// Its thread id.
        tid: u32,
        /// The namespace; none where it has none of its own, or has gone.
        namespace: Option<Namespace>,
    },
    /// The kernel's function at an address: before the first event with it.
    Function {
        /// The address.
        address: u64,
        /// Its name, where it was known.
        name: Option<Cow<'a, str>>,
    },
    /// The warm-up ended: what came before is only the past of what comes.
    WarmedUp,
    /// What happened, in the order in which it was given.
    Event(Cow<'a, Event>),
    /// What was counted and what was not, over all.
    End(Box<Report>),
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The wakelat that wrote it.
    pub version: String,
    /// Where the clock of a wakeup starts.
    pub from: LatencyFrom,
    /// Run-queue latency was asked for by name: all classes are one.
    pub merged: bool,
    /// What was told of the course of events.
    pub collected: CollectedEvents,
}

/// What is told apart from the task that has the CPU, beside every switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedEvents {
    /// Interrupts and softirqs.
    pub irq: bool,
    /// C-states.
    pub idle: bool,
    /// Throttling and stolen time.
    pub throttling: bool,
    /// What the workers of workqueues do.
    pub workqueue: bool,
    /// Who makes many tasks.
    pub fork: bool,
}
