//! Recordings: a measurement in a file, for later analysis. A recording contains every event, the names
//! that belong to them, and the coverage of the run. Pure.
//!
//! A file is [`MAGIC`], [`FORMAT`] and then frames. A frame is a length, a checksum, and that many
//! bytes: a [`Frame`] in postcard's encoding (<https://postcard.jamesmunns.com/wire-format>). Numbers
//! outside the encoded frames have four bytes, little-endian. The checksum is the CRC-32 of zip and
//! Ethernet over the encoded bytes of all frames so far, without lengths and checksums, so that a
//! missing or misplaced frame is detected too. The first frame is a [`Frame::Header`], the last a
//! [`Frame::End`], and nothing follows it.

mod error;
mod read;
mod recorded_names;
mod write;

#[cfg(test)]
mod layout_tests;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    report::{LatencyFrom, Report, SwitchInTerms},
    timeline::event::Event,
    wait::{Comm, Namespace},
};

pub use error::RecordingError;
pub use read::Recording;
pub use recorded_names::RecordedNames;
pub use write::Recorder;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"wakelat\n";

/// The version of the encoding of frames: a file of a later version, or of one before [`OLDEST_FORMAT`], is
/// rejected, not guessed at.
pub const FORMAT: u32 = 4;

/// The oldest version that can be read. Format 3 has no [`Frame::SwitchIns`], and is the same otherwise.
pub const OLDEST_FORMAT: u32 = 3;

/// The longest frame: bytes, several times the longest path of a cgroup (`PATH_MAX`,
/// include/uapi/linux/limits.h). A greater length is damage, and the reader allocates nothing for it.
const MAX_FRAME_BYTES: u32 = 1 << 16;

/// One frame of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// How the recording was measured.
    Header(Header),
    /// The path of a cgroup when it was first seen; before the first event with it.
    Cgroup {
        /// Its id in the v2 hierarchy.
        id: u64,
        /// Its path below the mount.
        path: Cow<'a, str>,
    },
    /// The name of a waker that was not seen at a switch before; before the first event with it.
    Task {
        /// Its thread id.
        tid: u32,
        /// Its name.
        comm: Comm,
    },
    /// The PID namespace of a thread; before the first event that ends a wait of it, and again if its id
    /// is reused.
    Namespace {
        /// Its thread id.
        tid: u32,
        /// The namespace; none if the thread has none of its own, or has exited.
        namespace: Option<Namespace>,
    },
    /// The kernel function at an address; before the first event with it.
    Function {
        /// The address.
        address: u64,
        /// Its name, if known.
        name: Option<Cow<'a, str>>,
    },
    /// The warm-up ended: earlier events only explain later ones.
    WarmedUp,
    /// An event, in the order of recording.
    Event(Cow<'a, Event>),
    /// The report of the whole run: what was counted and what was not.
    End(Box<Report>),
    /// The terms of switch-ins, which belong to the report, if the run queue's clock measured the waits; just before
    /// [`Frame::End`]. [`Recording::frame`] adds them to the report.
    SwitchIns(SwitchInTerms),
}

/// How the recording was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the wakelat that wrote it.
    pub version: String,
    /// The event that starts a wakeup's latency.
    pub from: LatencyFrom,
    /// Whether all classes are merged into run-queue latency, which was requested by name.
    pub merged: bool,
    /// The events that were collected, besides switches.
    pub collected: CollectedEvents,
}

/// Events that are collected besides every switch, to separate causes from the run time of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedEvents {
    /// Interrupts and softirqs.
    pub irq: bool,
    /// C-states.
    pub idle: bool,
    /// Throttling and steal time.
    pub throttling: bool,
    /// Work items of workqueues.
    pub workqueue: bool,
    /// Forks and execs, for fork bursts.
    pub fork: bool,
}
