//! Slices on tracks: waits of threads with their components, and interrupts.

use std::io::{self, Write};

use super::{
    WaitNames,
    messages::{
        AnnotationValue, DebugAnnotation, PacketData, SLICE_BEGIN, SLICE_END, ThreadDescriptor, TrackDescriptor,
        TrackEvent,
    },
    process, signed, thread_name,
    trace_cpus::TraceCpus,
    write,
};
use crate::{files::own_tid, hash::HashSet, timeline::Breakdown, why::render::labels};

/// Tracks by UUID: of a thread, its TID and this.
pub(super) const THREAD_TRACKS: u64 = 1 << 32;

/// Writes a wait as a slice on the track of its thread, and its components as slices in it.
pub(super) fn of_wait(
    breakdown: &Breakdown,
    tracks: &mut HashSet<u64>,
    cpus: &mut TraceCpus,
    WaitNames { names, style }: &WaitNames,
    boottime: &impl Fn(u64) -> u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Breakdown { waiter, ended_wait, .. } = breakdown;
    let wait = &ended_wait.wait;
    let uuid = THREAD_TRACKS | u64::from(waiter.tid);
    if tracks.insert(uuid) {
        let (pid, tid) = (Some(signed(process(waiter))), Some(waiter.tid.into()));
        let thread = Some(ThreadDescriptor { pid, tid, thread_name: Some(thread_name(waiter, style)) });
        write(None, PacketData::TrackDescriptor(TrackDescriptor { uuid: Some(uuid), name: None, thread }), out)?;
    }
    let mut annotations = vec![
        uint("latency_ns", breakdown.latency_ns),
        uint("cpu", cpus.number(wait.cpu).into()),
        uint("migrations", ended_wait.migrations.into()),
    ];
    annotations.extend(waiter.cgroup_id.map(|id| text("cgroup", names.cgroup(id))));
    annotations.extend(wait.waker_tid.map(|tid| {
        let comm = names.comm(tid).map(|comm| comm.to_string()).unwrap_or_default();
        text("waker", format!("{comm}/{}", own_tid(tid)))
    }));
    let (from_ns, at_ns) = (boottime(breakdown.from_ns), boottime(wait.at_ns));
    begin(uuid, from_ns, "wait", format!("waiting ({})", wait.class.name()), annotations, out)?;
    for span in breakdown.spans.iter().filter(|span| span.from_ns < span.to_ns) {
        let Some(share) = breakdown.shares.get(span.share) else { continue };
        let culprit = &share.culprit;
        let cgroups = labels::cgroup_of(&culprit.actor, *names);
        let mut annotations = vec![text("component", culprit.component.name().to_owned())];
        annotations.extend(cgroups.values().map(|path| text("cgroup", path.clone())));
        annotations.extend(span.cpu.map(|cpu| uint("cpu", cpus.number(cpu).into())));
        begin(uuid, boottime(span.from_ns), "component", labels::culprit(culprit, &cgroups, style), annotations, out)?;
        end(uuid, boottime(span.to_ns), out)?;
    }
    end(uuid, at_ns, out)
}

/// Begins a slice at a time of CLOCK_BOOTTIME.
pub(super) fn begin(
    track_uuid: u64,
    at_ns: u64,
    category: &str,
    name: String,
    debug_annotations: Vec<DebugAnnotation>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let categories = vec![category.to_owned()];
    let event = TrackEvent { debug_annotations, r#type: SLICE_BEGIN, track_uuid, categories, name: Some(name) };
    write(Some(at_ns), PacketData::TrackEvent(event), out)
}

/// Ends the innermost slice of a track at a time of CLOCK_BOOTTIME.
pub(super) fn end(track_uuid: u64, at_ns: u64, out: &mut dyn Write) -> io::Result<()> {
    let event = TrackEvent { r#type: SLICE_END, track_uuid, ..TrackEvent::default() };
    write(Some(at_ns), PacketData::TrackEvent(event), out)
}

fn uint(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: name.to_owned(), value: Some(AnnotationValue::Uint(value)) }
}

fn text(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: name.to_owned(), value: Some(AnnotationValue::Text(value)) }
}
