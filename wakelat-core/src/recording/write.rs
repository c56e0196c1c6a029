//! Writes recordings.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use wakelat_common::{Class, pending_wait::PrevState};

use super::{FORMAT, Frame, Header, MAGIC, MAX_FRAME_BYTES, block};
use crate::{
    aggregate::key::Names,
    hash::HashSet,
    report::Report,
    timeline::event::{DetailedWait, Event, EventKind, WorkItemEvent},
};

/// Writes a recording, frame by frame. Frames reach the output in blocks, at the latest with a reading.
#[derive(Debug, Default)]
pub struct Recorder {
    cgroups: HashSet<u64>,
    /// Threads whose name is in the file.
    tasks: HashSet<u32>,
    /// Threads that have waited.
    waiters: HashSet<u32>,
    functions: HashSet<u64>,
    unix_offset_ns: Option<i64>,
    /// In the warm-up, which no reading ends, each block is a segment: however long it is, the reader keeps none of it.
    warming_up: bool,
    /// Number of blocks so far.
    blocks: u32,
    /// The frames of the current block.
    pub(super) frames: Vec<u8>,
    /// The current frame; kept, so that no frame allocates.
    frame: Vec<u8>,
    /// The current block as it is written; kept as well.
    block: Vec<u8>,
}

impl Recorder {
    /// Writes the header. Must come first.
    pub fn begin(&mut self, header: Header, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT.to_le_bytes())?;
        self.warming_up = header.has_warm_up;
        self.write(&Frame::Header(Box::new(header)), out)?;
        self.end_block(true, out)
    }

    /// Sets the offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC) at the following events: ns.
    pub fn set_unix_offset(&mut self, unix_offset_ns: i64, out: &mut dyn Write) -> io::Result<()> {
        if self.unix_offset_ns.replace(unix_offset_ns) == Some(unix_offset_ns) {
            return Ok(());
        }
        self.write(&Frame::UnixOffset(unix_offset_ns), out)
    }

    /// Writes an event, preceded by the names that may be unknown later.
    pub fn event(&mut self, event: &Event, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        match &event.kind {
            EventKind::WorkItem(WorkItemEvent { function: Some(address), .. }) if self.functions.insert(*address) => {
                let name = names.function(*address).map(Cow::Owned);
                self.write(&Frame::Function { address: *address, name }, out)?;
            }
            EventKind::Switch(switch) => {
                for task in [&switch.prev, &switch.next] {
                    self.tasks.insert(task.tid);
                    if let Some(id) = task.cgroup_id
                        && self.cgroups.insert(id)
                    {
                        self.write(&Frame::Cgroup { id, path: names.cgroup(id).into() }, out)?;
                    }
                }
                // The exit of the previous owner of the id may not have been seen.
                let is_new = |waited: DetailedWait| waited.wait.class == Class::New;
                if switch.ended_wait.is_some_and(|waited| self.waiters.insert(switch.next.tid) || is_new(waited)) {
                    let (tid, namespace) = (switch.next.tid, names.namespace(switch.next.tid));
                    self.write(&Frame::Namespace { tid, namespace }, out)?;
                }
                if let Some(tid) = switch.ended_wait.and_then(|waited| waited.wait.waker_tid)
                    && self.tasks.insert(tid)
                    && let Some(comm) = names.comm(tid)
                {
                    self.write(&Frame::Task { tid, comm }, out)?;
                }
            }
            _ => {}
        }
        if let EventKind::Switch(switch) = &event.kind
            && switch.prev_state == PrevState::Dead
        {
            // The id can be reused by another task, about which nothing is known.
            self.tasks.remove(&switch.prev.tid);
            self.waiters.remove(&switch.prev.tid);
        }
        self.write(&Frame::Event(Cow::Borrowed(event)), out)
    }

    /// Marks the end of the warm-up.
    pub fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.warming_up = false;
        self.write(&Frame::WarmedUp, out)?;
        self.end_block(true, out)
    }

    /// Writes the report of the run so far: a reader can rely on everything until here, even if nothing follows.
    pub fn reading(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.write(&Frame::Reading(Box::new(report.clone())), out)?;
        self.end_block(true, out)
    }

    /// Writes the report of the run. Must come last.
    pub fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.write(&Frame::End(Box::new(report.clone())), out)?;
        self.end_block(true, out)
    }

    fn write(&mut self, frame: &Frame<'_>, out: &mut dyn Write) -> io::Result<()> {
        const MAX_BYTES: usize = MAX_FRAME_BYTES as usize;
        self.frame.clear();
        self.frame = postcard::to_extend(frame, std::mem::take(&mut self.frame)).map_err(io::Error::other)?;
        let length = self.frame.len();
        if length > MAX_BYTES {
            return Err(io::Error::other(format!(
                "a piece of {length} bytes is too long for a recording; the limit is {MAX_BYTES}"
            )));
        }
        if self.frames.len() + length > MAX_BYTES {
            self.end_block(self.warming_up, out)?;
        }
        self.frames.extend_from_slice(&self.frame);
        Ok(())
    }

    /// Writes the current block, which ends a segment or not.
    fn end_block(&mut self, ends_segment: bool, out: &mut dyn Write) -> io::Result<()> {
        self.block.clear();
        block::append(self.blocks, ends_segment, &self.frames, &mut self.block);
        self.frames.clear();
        self.blocks = self.blocks.wrapping_add(1);
        out.write_all(&self.block)
    }
}
