//! Events to a file.

use std::{
    borrow::Cow,
    collections::HashSet,
    io::{self, Write},
};

use super::{FORMAT, Frame, Header, MAGIC};
use crate::{
    aggregate::key::Names,
    report::Report,
    timeline::event::{Event, What, Work},
};

/// Writes a recording, frame by frame.
#[derive(Debug, Default)]
pub struct Recorder {
    cgroups: HashSet<u64>,
    tasks: HashSet<u32>,
    /// Those that have waited.
    waiters: HashSet<u32>,
    functions: HashSet<u64>,
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
        match &event.what {
            What::Work(Work { function: Some(address), .. }) if self.functions.insert(*address) => {
                let name = names.function(*address).map(Cow::Owned);
                self.write(&Frame::Function { address: *address, name }, out)?;
            }
            What::Turn(turn) => {
                for task in [&turn.prev, &turn.next] {
                    self.tasks.insert(task.tid);
                    if let Some(id) = task.cgroup_id
                        && self.cgroups.insert(id)
                    {
                        self.write(&Frame::Cgroup { id, path: names.cgroup(id).into() }, out)?;
                    }
                }
                if turn.waited.is_some()
                    && self.waiters.insert(turn.next.tid)
                    && let Some(namespace) = names.namespace(turn.next.tid)
                {
                    self.write(&Frame::Namespace { tid: turn.next.tid, namespace }, out)?;
                }
                if let Some(tid) = turn.waited.and_then(|waited| waited.wait.waker_tid)
                    && self.tasks.insert(tid)
                    && let Some(comm) = names.comm(tid)
                {
                    self.write(&Frame::Task { tid, comm }, out)?;
                }
            }
            _ => {}
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
        let length = u32::try_from(self.bytes.len()).map_err(io::Error::other)?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&self.bytes)
    }
}
