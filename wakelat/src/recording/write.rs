//! Events to a file.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use crc32fast::Hasher;
use wakelat_common::{Class, start::PrevState};

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
    /// Of all frames so far.
    checksum: Hasher,
    /// The frame under way: kept, so that none is allocated for each.
    bytes: Vec<u8>,
}

impl Recorder {
    /// Before anything else.
    ///
    /// # Errors
    /// Those of `out`, here and below.
    pub fn begin(&mut self, header: Header, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT.to_le_bytes())?;
        self.write(&Frame::Header(header), out)
    }

    /// One event, and before it what nobody may be able to name later.
    pub fn event(&mut self, event: &Event, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        match &event.kind {
            EventKind::WorkItem(WorkItemEvent { function: Some(address), .. }) if self.functions.insert(*address) => {
                let name = names.function(*address).map(Cow::Owned);
                self.write(&Frame::Function { address: *address, name }, out)?;
            }
            EventKind::Switch(turn) => {
                for task in [&turn.prev, &turn.next] {
                    self.tasks.insert(task.tid);
                    if let Some(id) = task.cgroup_id
                        && self.cgroups.insert(id)
                    {
                        self.write(&Frame::Cgroup { id, path: names.cgroup(id).into() }, out)?;
                    }
                }
                // The death of who had the number before may not have been seen.
                let is_new = |waited: DetailedWait| waited.wait.class == Class::New;
                if turn.ended_wait.is_some_and(|waited| self.waiters.insert(turn.next.tid) || is_new(waited)) {
                    let (tid, namespace) = (turn.next.tid, names.namespace(turn.next.tid));
                    self.write(&Frame::Namespace { tid, namespace }, out)?;
                }
                if let Some(tid) = turn.ended_wait.and_then(|waited| waited.wait.waker_tid)
                    && self.tasks.insert(tid)
                    && let Some(comm) = names.comm(tid)
                {
                    self.write(&Frame::Task { tid, comm }, out)?;
                }
            }
            _ => {}
        }
        if let EventKind::Switch(turn) = &event.kind
            && turn.prev_state == PrevState::Dead
        {
            // Its number may be given to another, of whom nothing is known.
            self.tasks.remove(&turn.prev.tid);
            self.waiters.remove(&turn.prev.tid);
        }
        self.write(&Frame::Event(Cow::Borrowed(event)), out)
    }

    /// What comes is no longer warm-up.
    pub fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write(&Frame::WarmedUp, out)
    }

    /// After everything else.
    pub fn end(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.write(&Frame::End(Box::new(report.clone())), out)
    }

    fn write(&mut self, frame: &Frame<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.bytes.clear();
        self.bytes = postcard::to_extend(frame, std::mem::take(&mut self.bytes)).map_err(io::Error::other)?;
        let length = u32::try_from(self.bytes.len()).ok().filter(|length| *length <= MAX_FRAME_BYTES);
        let length = length.ok_or_else(|| {
            let why =
                format!("{} bytes are one piece of a recording, which has {MAX_FRAME_BYTES} at most", self.bytes.len());
            io::Error::other(why)
        })?;
        self.checksum.update(&self.bytes);
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&self.checksum.clone().finalize().to_le_bytes())?;
        out.write_all(&self.bytes)
    }
}
