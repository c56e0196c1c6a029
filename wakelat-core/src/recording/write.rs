//! Writes recordings.

use std::{borrow::Cow, io};

use wakelat_common::{Class, pending_wait::PrevState, stack::DEPTH, timeline::prev_state_to_u8};

use super::{Frame, Header, MAX_FRAME_BYTES, RunBefore};
use crate::{
    aggregate::key::Names,
    hash::{HashMap, HashSet},
    report::Report,
    timeline::{
        decode::KnownSwitch,
        event::{DetailedWait, Event, EventKind, TaskInfo, WorkItemEvent},
        stack_event::{StackEvent, StackId},
        stack_frames::{StackCounts, StackFrames, Symbolize},
    },
    wait::{Namespace, ThreadNamespace, Wait},
};

/// Takes the frames of a recording, in their order.
pub trait FrameSink {
    /// Takes the next frame.
    ///
    /// # Errors
    /// If it cannot be written.
    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()>;

    /// Takes a switch instead of the frame with its event. Returns false, and takes nothing, if it needs the event.
    fn known_switch(&mut self, _known: &KnownSwitch<'_>) -> bool {
        false
    }

    /// Ends a segment: all frames since the last one belong together.
    ///
    /// # Errors
    /// If it cannot be written.
    fn end_segment(&mut self) -> io::Result<()>;
}

/// Writes the report of a run that has measured nothing yet, after the header of a recording: a reader can rely on it,
/// even if nothing follows.
///
/// # Errors
/// Errors of `out`.
pub fn start_run(report: &Report, out: &mut dyn FrameSink) -> io::Result<()> {
    out.frame(&Frame::Start(Box::new(RunBefore { report: report.clone(), ..RunBefore::default() })))?;
    out.end_segment()
}

/// Makes a recording of events: adds the names that they need, and ends segments.
///
/// Names are repeated in each segment: a reader can start with any.
#[derive(Debug, Default)]
pub struct Recorder {
    names: WrittenNames,
    namespaces: LookedUpNamespaces,
}

/// The namespaces of threads that have waited: a lookup reads a file, and a thread never leaves its PID namespace.
#[derive(Debug, Default)]
struct LookedUpNamespaces {
    /// By TID, with the process of the thread.
    threads: HashMap<u32, (u32, Option<Namespace>)>,
    /// The threads that were read before the run were added.
    has_those_before_run: bool,
}

impl LookedUpNamespaces {
    /// Adds the threads that were read before the run, before the first event: thousands of threads that wait for the
    /// first time need no lookup while events arrive. An exit in between is not seen, but TIDs are not reused that soon.
    fn add_those_before_run(&mut self, names: &dyn Names) {
        if std::mem::replace(&mut self.has_those_before_run, true) {
            return;
        }
        let threads = names.namespaces_before_run().iter();
        self.threads.extend(threads.map(|ThreadNamespace { tid, pid, namespace }| (*tid, (*pid, Some(*namespace)))));
    }

    /// All threads of a process are in one PID namespace (`copy_process()`, kernel/fork.c): if that is the one that all IDs
    /// refer to, one lookup is enough for thousands of threads.
    fn of(&mut self, task: &TaskInfo, names: &dyn Names) -> Option<Namespace> {
        let pid = task.pid;
        let mut look_up = |tid: u32| {
            // A thread of another process had the TID before, unless the process is unknown.
            if let Some((of, namespace)) = self.threads.get(&tid)
                && (*of == pid || pid == 0)
            {
                return *namespace;
            }
            let namespace = names.namespace(tid);
            self.threads.insert(tid, (pid, namespace));
            namespace
        };
        if pid == task.tid || pid == 0 { look_up(task.tid) } else { look_up(pid).and_then(|_| look_up(task.tid)) }
    }

    fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Forgets all if they are too many.
    fn bound(&mut self) {
        /// Number of threads from which on their namespaces are looked up again.
        const MAX: usize = 65_536;
        if self.threads.len() > MAX {
            self.threads.clear();
        }
    }
}

/// What the current segment has the names of.
#[derive(Debug, Default)]
struct WrittenNames {
    cgroups: HashSet<u64>,
    /// Threads whose name is in the segment.
    tasks: HashSet<u32>,
    /// Threads that have waited.
    waiters: HashSet<u32>,
    functions: HashSet<u64>,
    /// Stacks: the process of a user stack, and the ID.
    stacks: HashSet<(Option<u32>, u32)>,
    unix_offset_ns: Option<i64>,
    /// The last tasks, by some bits of their TID: what the segment has the names of needs no other lookup.
    last: Vec<Option<LastTask>>,
}

/// A task whose names are in the segment.
#[derive(Clone, Copy, Debug)]
struct LastTask {
    tid: u32,
    cgroup_id: Option<u64>,
    /// Its namespace is, too.
    has_waited: bool,
}

/// Places for the last tasks: a power of two.
const LAST_TASKS: usize = 256;

impl WrittenNames {
    /// Whether the names of this task and of its cgroup are in the segment as far as [`Self::last`] shows; it does from now
    /// on.
    fn is_last(&mut self, tid: u32, cgroup_id: Option<u64>) -> bool {
        self.last.resize(LAST_TASKS, None);
        let place = &mut self.last[tid as usize % LAST_TASKS];
        let last = place.filter(|last| last.tid == tid);
        if last.is_none_or(|last| last.cgroup_id != cgroup_id) {
            *place = Some(LastTask { tid, cgroup_id, has_waited: last.is_some_and(|last| last.has_waited) });
            return false;
        }
        true
    }

    /// The last task with this TID, unless another one has its place.
    #[inline]
    fn last(&self, tid: u32) -> Option<&LastTask> {
        self.last.get(tid as usize % LAST_TASKS)?.as_ref().filter(|last| last.tid == tid)
    }

    /// Whether the segment has all names that this switch needs, as far as [`Self::last`] shows, and the switch ends no task.
    #[inline]
    fn has_all_of(&self, known: &KnownSwitch<'_>, unix_offset_ns: i64) -> bool {
        let KnownSwitch { record, prev, next, .. } = *known;
        let of = |task: &TaskInfo| self.last(task.tid).filter(|last| last.cgroup_id == task.cgroup_id);
        let (Some(_), Some(last_next)) = (of(prev), of(next)) else { return false };
        let has_names = match Class::from_u8(record.class) {
            None => true,
            Some(Class::New) => false,
            Some(Class::Preempted) => last_next.has_waited,
            Some(Class::Wakeup) => last_next.has_waited && self.last(record.waker_pid).is_some(),
        };
        has_names
            && record.prev_state != prev_state_to_u8(PrevState::Dead)
            && self.unix_offset_ns == Some(unix_offset_ns)
    }

    /// Whether no wait of this thread is in the segment; from now on, one is.
    fn is_first_wait(&mut self, tid: u32) -> bool {
        let place = self.last.get_mut(tid as usize % LAST_TASKS).and_then(Option::as_mut);
        if place.filter(|last| last.tid == tid).is_some_and(|last| std::mem::replace(&mut last.has_waited, true)) {
            return false;
        }
        self.waiters.insert(tid)
    }

    /// Whether the name of this thread is not in the segment; from now on, it is.
    fn is_new_task(&mut self, tid: u32) -> bool {
        self.last(tid).is_none() && self.tasks.insert(tid)
    }

    /// Nothing is known about the task of this TID any more.
    fn forget(&mut self, tid: u32) {
        self.tasks.remove(&tid);
        self.waiters.remove(&tid);
        if let Some(place) = self.last.get_mut(tid as usize % LAST_TASKS) {
            *place = None;
        }
    }
}

impl Recorder {
    /// Writes the header. Must come first.
    ///
    /// # Errors
    /// Errors of `out`, as for all methods.
    pub fn begin(&mut self, header: Header, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::Header(Box::new(header)))?;
        out.end_segment()
    }

    /// Sets the offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC) at the following events: ns.
    pub fn set_unix_offset(&mut self, unix_offset_ns: i64, out: &mut dyn FrameSink) -> io::Result<()> {
        if self.names.unix_offset_ns.replace(unix_offset_ns) == Some(unix_offset_ns) {
            return Ok(());
        }
        out.frame(&Frame::UnixOffset(unix_offset_ns))
    }

    /// Writes an event, preceded by the names that may be unknown later.
    pub fn event(&mut self, event: &Event, names: &dyn Names, out: &mut dyn FrameSink) -> io::Result<()> {
        self.namespaces.add_those_before_run(names);
        match &event.kind {
            EventKind::WorkItem(WorkItemEvent { function: Some(address), .. })
                if self.names.functions.insert(*address) =>
            {
                let name = names.function(*address).map(Cow::Owned);
                out.frame(&Frame::Function { address: *address, name })?;
            }
            EventKind::Switch(switch) => {
                for task in [&switch.prev, &switch.next] {
                    if self.names.is_last(task.tid, task.cgroup_id) {
                        continue;
                    }
                    self.names.tasks.insert(task.tid);
                    if let Some(id) = task.cgroup_id
                        && self.names.cgroups.insert(id)
                    {
                        out.frame(&Frame::Cgroup { id, path: names.cgroup(id).into() })?;
                    }
                }
                // The exit of the previous owner of the id may not have been seen.
                let is_new = |waited: DetailedWait| waited.wait.class == Class::New;
                if switch.ended_wait.is_some_and(|waited| self.names.is_first_wait(switch.next.tid) || is_new(waited)) {
                    let tid = switch.next.tid;
                    if switch.ended_wait.is_some_and(is_new) {
                        self.namespaces.forget(tid);
                    }
                    let namespace = self.namespaces.of(&switch.next, names);
                    out.frame(&Frame::Namespace { tid, namespace })?;
                }
                if let Some(tid) = switch.ended_wait.and_then(|waited| waited.wait.waker_tid)
                    && self.names.is_new_task(tid)
                    && let Some(comm) = names.comm(tid)
                {
                    out.frame(&Frame::Task { tid, comm })?;
                }
            }
            _ => {}
        }
        if let EventKind::Switch(switch) = &event.kind
            && switch.prev_state == PrevState::Dead
        {
            // The id can be reused by another task, about which nothing is known.
            self.names.forget(switch.prev.tid);
            self.namespaces.forget(switch.prev.tid);
        }
        out.frame(&Frame::Event(Cow::Borrowed(event)))
    }

    /// Writes a switch without its event: the same bytes as [`Self::set_unix_offset`] and [`Self::event`] write. Returns
    /// false, and writes nothing, if names may have to precede the switch or `out` needs the event.
    #[inline]
    pub fn known_switch(&self, known: &KnownSwitch<'_>, unix_offset_ns: i64, out: &mut dyn FrameSink) -> bool {
        self.names.has_all_of(known, unix_offset_ns) && out.known_switch(known)
    }

    /// Writes the functions on the stacks of an event, which `code` symbolizes. Comes before that event.
    pub fn stacks(&mut self, event: &StackEvent, code: &dyn Symbolize, out: &mut dyn FrameSink) -> io::Result<()> {
        for (process, stack) in [(None, event.kernel), (Some(event.by_pid), event.user)] {
            if let StackId::Id(id) = stack
                && self.names.stacks.insert((process, id))
            {
                let functions = process.map_or_else(|| code.kernel(stack), |pid| code.user(pid, stack));
                out.frame(&Frame::Stack { process, id, functions: Cow::Owned(shortened(functions)) })?;
            }
        }
        Ok(())
    }

    /// Writes what became of the stacks since the last reading. Comes before the next one.
    pub fn stack_counts(&mut self, counts: &StackCounts, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::StackCounts(*counts))
    }

    /// Writes a wait, preceded by the names that may be unknown later. In place of its event.
    pub fn wait(&mut self, wait: &Wait, names: &dyn Names, out: &mut dyn FrameSink) -> io::Result<()> {
        self.names.tasks.extend([wait.tid, wait.prev_tid]);
        if let Some(id) = wait.cgroup_id
            && self.names.cgroups.insert(id)
        {
            out.frame(&Frame::Cgroup { id, path: names.cgroup(id).into() })?;
        }
        if let Some(tid) = wait.waker_tid
            && self.names.tasks.insert(tid)
            && let Some(comm) = names.comm(tid)
        {
            out.frame(&Frame::Task { tid, comm })?;
        }
        out.frame(&Frame::Wait(Cow::Borrowed(wait)))
    }

    /// Marks the end of the warm-up.
    pub fn warmed_up(&mut self, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::WarmedUp)?;
        self.end_segment(out)
    }

    /// Writes the report of the run so far: a reader can rely on everything until here, even if nothing follows.
    pub fn reading(&mut self, report: &Report, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::Reading(Box::new(report.clone())))?;
        self.end_segment(out)
    }

    /// Writes the report of the run. Must come last.
    pub fn end(&mut self, report: &Report, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::End(Box::new(report.clone())))?;
        self.end_segment(out)
    }

    fn end_segment(&mut self, out: &mut dyn FrameSink) -> io::Result<()> {
        self.names = WrittenNames::default();
        self.namespaces.bound();
        out.end_segment()
    }
}

/// `functions`, with each name shortened to its share of a frame: names of C++ can be very long.
fn shortened(mut functions: StackFrames) -> StackFrames {
    const MAX_NAME_BYTES: usize = MAX_FRAME_BYTES as usize / DEPTH - 32;
    if let StackFrames::Named(names) | StackFrames::Unsymbolized(names, _) = &mut functions {
        names.truncate(DEPTH);
        for name in names.iter_mut().filter(|name| name.len() > MAX_NAME_BYTES) {
            let end = (0..=MAX_NAME_BYTES).rev().find(|at| name.is_char_boundary(*at));
            name.truncate(end.unwrap_or(0));
            name.push('…');
        }
    }
    functions
}
