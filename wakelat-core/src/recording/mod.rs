//! Recordings: a measurement in a file, for later analysis. A recording contains every event, every wait, or histograms of
//! the waits ([`Kept`]), the names that belong to them, and the coverage of the run. Pure.
//!
//! A file is [`MAGIC`], [`FORMAT`] (four bytes, little-endian) and then compressed blocks of [`Frame`]s, each with a
//! checksum ([`block`]). The first frame is a [`Frame::Header`], the last a [`Frame::End`], and nothing follows it.
//!
//! # A file without an end
//!
//! After the header comes a [`Frame::Start`], and then, at short intervals, a [`Frame::Reading`]: the report of the run
//! until then. Each ends a segment. If a file ends early or is damaged, the reader returns the frames of all whole segments
//! before that place, and the report that ended the last of them as [`Frame::End`], with
//! [`Coverage::missing_ends`](crate::report::Coverage::missing_ends): the figures and their coverage belong together, and
//! cover the time until that reading. Frames of a segment are therefore returned only when all of it
//! has been read. Each segment has the names that its events or waits need; histograms need the names of all segments before.

mod bits;
pub mod block;
mod byte_cursor;
mod compact_events;
mod encode;
mod error;
mod frame_reader;
mod header;
mod histograms;
mod kept;
mod last;
mod more_events;
mod read;
mod recorded_names;
mod recorded_stacks;
mod run_times;
mod several;
mod translate;
mod window;
mod write;
mod write_histograms;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod histogram_tests;
#[cfg(test)]
mod known_switch_tests;
#[cfg(test)]
mod layout_tests;
#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod several_tests;
#[cfg(test)]
mod stack_tests;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{
    aggregate::RecordedKey,
    report::Report,
    timeline::{
        event::Event,
        stack_frames::{StackCounts, StackFrames},
    },
    wait::{Comm, Namespace, Wait},
};

pub use encode::Encoder;
pub use error::RecordingError;
pub use header::{CollectedEvents, Header, RecordedMachine, TextKind, TextSource};
pub use histograms::{GroupHistogram, IntervalHistograms};
pub use kept::Kept;
pub use last::{LastPart, LastSegments};
pub use more_events::MoreEvents;
pub use read::{Recording, TimePoint, TimeRange};
pub use recorded_names::RecordedNames;
pub use recorded_stacks::RecordedStacks;
pub use several::{FileError, FrameOrder, Position, Recordings};
pub use window::{Exclusion, RecordedWindow, WindowOptions};
pub use write::{FrameSink, Recorder, start_run};
pub use write_histograms::HistogramRecorder;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"wakelat\n";

/// The version of the encoding: a file of another version is rejected, not guessed at.
pub const FORMAT: u32 = 10;

/// The longest frame, and the most that a block has of them: bytes, several times the longest path of a cgroup
/// (`PATH_MAX`, include/uapi/linux/limits.h). A greater length is damage, and the reader allocates nothing for it.
pub const MAX_FRAME_BYTES: u32 = 1 << 16;

/// The part of a run before its recording begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunBefore {
    /// The report of the run until the recording begins.
    pub report: Report,
    /// The number of the last event of each CPU before: the reader gets events with numbers from 1 on.
    pub last_seqs: BTreeMap<u32, u32>,
}

impl RunBefore {
    /// Whether the recording has the run from its begin.
    pub fn is_empty(&self) -> bool {
        self.report.duration_ns == 0
    }
}

/// One frame of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// How the recording was measured.
    Header(Box<Header>),
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
    /// Offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC): ns. Before the first event, and when it changes.
    UnixOffset(i64),
    /// The warm-up ended: earlier events only explain later ones.
    WarmedUp,
    /// An event, in the order of recording.
    Event(Cow<'a, Event>),
    /// The report of the run until the recording begins, before the first event. It is empty, and no reader returns it,
    /// unless this is the last part of a longer run. Ends a segment.
    Start(Box<RunBefore>),
    /// The report of the run so far, without the waits that are only in the ring buffer yet. Ends a segment.
    Reading(Box<Report>),
    /// The report of the whole run: what was counted and what was not. Ends the last segment.
    End(Box<Report>),
    /// A wait, in the order of recording.
    Wait(Cow<'a, Wait>),
    /// The key of a group, which this number names from here on; before the first histogram of it.
    Group {
        /// Its number, below the number of groups that a recording can name at once.
        number: u32,
        /// Its key.
        key: RecordedKey,
    },
    /// Histograms of the waits since the last reading.
    Histograms(IntervalHistograms),
    /// The functions on a stack; before the first event with it.
    Stack {
        /// The process whose user stack it is; none for a kernel stack.
        process: Option<u32>,
        /// The stack's ID in [`StackId::Id`](crate::timeline::stack_event::StackId::Id): of all kernel stacks, or of all user
        /// stacks of the recording.
        id: u32,
        /// Its functions.
        functions: Cow<'a, StackFrames>,
    },
    /// What became of the stacks since the last reading; before the next one.
    StackCounts(StackCounts),
}
