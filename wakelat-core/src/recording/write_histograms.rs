//! Writes recordings of histograms.

use std::{borrow::Cow, io};

use super::{
    Frame, FrameSink, GroupHistogram, Header, IntervalHistograms, MAX_FRAME_BYTES,
    histograms::{Longest, MAX_GROUPS},
};
use crate::{
    aggregate::{
        Groups, RecordedKey,
        key::{KeyValues, Names},
    },
    hash::HashMap,
    report::Report,
    wait::Comm,
};

/// Intervals after which the task of each group's longest wait is written again.
const TASKS_EVERY: u32 = 60;

/// Makes a recording of the histograms of intervals. A name is written once, before the first histogram that needs it, and
/// again only if it changes.
#[derive(Debug, Default)]
pub struct HistogramRecorder {
    groups: HashMap<RecordedKey, WrittenGroup>,
    cgroups: HashMap<u64, String>,
    tasks: HashMap<u32, Comm>,
    unix_offset_ns: Option<i64>,
    /// Number of intervals so far.
    intervals: u32,
}

/// A group that has been written.
#[derive(Clone, Copy, Debug)]
struct WrittenGroup {
    number: u32,
    /// The longest wait whose task has been written, and in which of the spans of [`TASKS_EVERY`] intervals.
    longest: Option<(u32, u64)>,
}

impl HistogramRecorder {
    /// Writes the header. Must come first.
    ///
    /// # Errors
    /// Errors of `out`, as for all methods.
    pub fn begin(&mut self, header: Header, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::Header(Box::new(header)))?;
        out.end_segment()
    }

    /// Writes the waits of an interval; its [`Self::reading`] follows.
    pub fn interval(
        &mut self,
        groups: &Groups,
        unix_offset_ns: i64,
        names: &dyn Names,
        out: &mut dyn FrameSink,
    ) -> io::Result<()> {
        if self.unix_offset_ns.replace(unix_offset_ns) != Some(unix_offset_ns) {
            out.frame(&Frame::UnixOffset(unix_offset_ns))?;
        }
        let mut waits: Vec<_> = groups.recorded().collect();
        // In the order of their keys, so that equal intervals make equal files.
        waits.sort_unstable_by_key(|(key, _)| *key);
        // The tables keep no more than one interval needs.
        if self.groups.len() + waits.len() > MAX_GROUPS as usize {
            (self.groups, self.cgroups, self.tasks) = Default::default();
        }
        waits.truncate(MAX_GROUPS as usize);
        let span = self.intervals / TASKS_EVERY;
        self.intervals = self.intervals.wrapping_add(1);
        let mut histograms = Vec::with_capacity(waits.len());
        for (key, distribution) in waits {
            let number = self.groups.len() as u32;
            let group = self.groups.entry(key).or_insert_with(|| WrittenGroup { number, longest: None });
            let is_longest = group.longest.is_none_or(|(of, ns)| of != span || ns < distribution.max_ns());
            let histogram = GroupHistogram::new(group.number, distribution, is_longest);
            if is_longest {
                group.longest = Some((span, distribution.max_ns()));
            }
            let is_new = group.number == number;
            if let RecordedKey::Values(values) = &key {
                self.names_of(values, is_new, names, out)?;
            }
            if is_new {
                out.frame(&Frame::Group { number, key })?;
            }
            if let (Some(Longest { tid, .. }), Some(max)) = (histogram.longest, distribution.max()) {
                self.task(tid, Some(max.comm), out)?;
            }
            histograms.push(histogram);
        }
        histograms.sort_unstable_by_key(|histogram| histogram.group);
        frames_of(histograms, |frame| out.frame(&frame))
    }

    /// Writes the names of a group, as far as they have not been written yet.
    fn names_of(
        &mut self,
        values: &KeyValues,
        is_new: bool,
        names: &dyn Names,
        out: &mut dyn FrameSink,
    ) -> io::Result<()> {
        if is_new && values.cgroup_id != 0 {
            let (id, path) = (values.cgroup_id, names.cgroup(values.cgroup_id));
            if self.cgroups.get(&id) != Some(&path) {
                out.frame(&Frame::Cgroup { id, path: Cow::Borrowed(&path) })?;
                self.cgroups.insert(id, path);
            }
        }
        for tid in [values.tid, values.pid].into_iter().filter(|tid| *tid != 0) {
            self.task(tid, names.comm(tid), out)?;
        }
        Ok(())
    }

    /// Writes the name of a thread, unless that has been written.
    fn task(&mut self, tid: u32, comm: Option<Comm>, out: &mut dyn FrameSink) -> io::Result<()> {
        let Some(comm) = comm.filter(|comm| self.tasks.get(&tid) != Some(comm)) else { return Ok(()) };
        if self.tasks.len() >= MAX_GROUPS as usize {
            self.tasks.clear();
        }
        self.tasks.insert(tid, comm);
        out.frame(&Frame::Task { tid, comm })
    }

    /// Marks the end of the warm-up.
    pub fn warmed_up(&mut self, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::WarmedUp)?;
        out.end_segment()
    }

    /// Writes the report of the run so far: a reader can rely on everything until here, even if nothing follows.
    pub fn reading(&mut self, report: &Report, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::Reading(Box::new(report.clone())))?;
        out.end_segment()
    }

    /// Writes the report of the run. Must come last.
    pub fn end(&mut self, report: &Report, out: &mut dyn FrameSink) -> io::Result<()> {
        out.frame(&Frame::End(Box::new(report.clone())))?;
        out.end_segment()
    }
}

/// Passes histograms, which are in order, to `take` as frames that are short enough for a recording.
fn frames_of(
    histograms: Vec<GroupHistogram>,
    mut take: impl FnMut(Frame<'static>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    let mut put = |part: &mut Vec<GroupHistogram>| {
        if part.is_empty() { Ok(()) } else { take(Frame::Histograms(IntervalHistograms::new(std::mem::take(part)))) }
    };
    for histogram in histograms {
        bytes += histogram.max_bytes();
        if bytes > MAX_FRAME_BYTES as usize {
            put(&mut part)?;
            bytes = histogram.max_bytes();
        }
        part.push(histogram);
    }
    put(&mut part)
}
