//! Writes recordings.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use crc32fast::Hasher;
use wakelat_common::{Class, pending_wait::PrevState};

use super::{FORMAT, Frame, Header, MAGIC, MAX_FRAME_BYTES};
use crate::{
    aggregate::key::Names,
    hash::HashSet,
    report::Report,
    timeline::event::{DetailedWait, Event, EventKind, WorkItemEvent},
};

/// Writes a recording, frame by frame.
#[derive(Debug, Default)]
pub struct Recorder {
    cgroups: HashSet<u64>,
    /// Threads whose name is in the file.
    tasks: HashSet<u32>,
    /// Threads that have waited.
    waiters: HashSet<u32>,
    functions: HashSet<u64>,
    /// CRC-32 of all frames so far.
    checksum: Hasher,
    /// The current frame; kept, so that no frame allocates.
    bytes: Vec<u8>,
}

impl Recorder {
    /// Writes the header. Must come first.
    pub fn begin(&mut self, header: Header, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT.to_le_bytes())?;
        self.write(&Frame::Header(header), out)
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
        self.write(&Frame::WarmedUp, out)
    }

    /// Writes the report of the run. Must come last.
    pub fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if let Some(terms) = report.coverage.switch_ins {
            self.write(&Frame::SwitchIns(terms), out)?;
        }
        self.write(&Frame::End(Box::new(report.clone())), out)
    }

    fn write(&mut self, frame: &Frame<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.bytes.clear();
        self.bytes = postcard::to_extend(frame, std::mem::take(&mut self.bytes)).map_err(io::Error::other)?;
        let length = u32::try_from(self.bytes.len()).ok().filter(|length| *length <= MAX_FRAME_BYTES);
        let length = length.ok_or_else(|| {
            let why = format!(
                "a piece of {} bytes is too long for a recording; the limit is {MAX_FRAME_BYTES}",
                self.bytes.len()
            );
            io::Error::other(why)
        })?;
        self.checksum.update(&self.bytes);
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&self.checksum.clone().finalize().to_le_bytes())?;
        out.write_all(&self.bytes)
    }
}
