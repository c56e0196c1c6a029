//! Run-queue waits without a kernel.
//!
//! Data flows in one direction: [`decode`] turns the records of the BPF programs into waits ([`wait`]), [`aggregate`]
//! groups them into a [`report`], [`timeline`] divides each wait into the components that [`why`] adds up, and [`render`]
//! shows the result. [`recording`] is a file of the same events, and [`trace_text`] makes them from the traces of other
//! tools. [`osnoise_tracers`] does the same for the records of the
//! timerlat and osnoise tracers. Nothing here does I/O except through a reader or writer that the caller passes, and
//! nothing reads a clock: the same input gives the same output.
//!
//! # Percentiles of a group
//!
//! Records become waits, and waits with the same key share a distribution:
//!
//! ```
//! use wakelat_common::{Class, Sample, sample::KIND_SAMPLE};
//! use wakelat_core::{
//!     aggregate::{Groups, key::Key, percentile_rank::Percentile},
//!     decode,
//!     recording::RecordedNames,
//! };
//!
//! let mut groups = Groups::new(vec![Key::Pid], false, 10);
//! for us in 1..=100 {
//!     let sample = Sample {
//!         kind: KIND_SAMPLE,
//!         class: Class::Wakeup as u8,
//!         tgid: 1230,
//!         latency_ns: us * 1000,
//!         ..Sample::default()
//!     };
//!     groups.record(&decode::wait(&sample)?);
//! }
//! let report = groups.report(&RecordedNames::default(), None);
//! let distribution = &report[0].distribution;
//! assert_eq!((distribution.count(), distribution.max_ns()), (100, 100_000));
//! // Exact to three digits.
//! assert!((99_000..99_100).contains(&distribution.percentile_ns(Percentile::P99)));
//! # Ok::<(), decode::DecodeError>(())
//! ```
//!
//! # Components of a wait
//!
//! A [`timeline::Timeline`] follows the events of all CPUs. The event that ends a wait returns its breakdown:
//!
//! ```
//! use wakelat_common::{Class, Sample, pending_wait::PrevState, sample::KIND_SAMPLE};
//! use wakelat_core::{
//!     decode,
//!     timeline::{
//!         Timeline,
//!         component::Component,
//!         event::{DetailedWait, Event, EventKind, SwitchEvent, TaskInfo},
//!     },
//!     wait::Comm,
//! };
//!
//! let task = |tid, name: &str| {
//!     let comm = Comm::new(name.as_bytes());
//!     TaskInfo { tid, pid: tid, comm, prio: 120, policy: 0, cgroup_id: None, wanted: true }
//! };
//! let (idle, hog, nginx) = (task(0, "swapper"), task(7, "hog"), task(8, "nginx"));
//! let switch = |seq, at_ns, prev, next, ended_wait| {
//!     let (unseen, prev_state, idle_state, rt_throttled) = (None, PrevState::Runnable, None, false);
//!     let switch = SwitchEvent { at_ns, prev, unseen, prev_state, next, ended_wait, idle_state, rt_throttled };
//!     Event { cpu: 0, seq, kind: EventKind::Switch(Box::new(switch)) }
//! };
//! // nginx is woken at 4,000 ns and runs at 10,000 ns. Meanwhile, the hog has the CPU.
//! let (kind, class) = (KIND_SAMPLE, Class::Wakeup as u8);
//! let sample = Sample { kind, class, pid: 8, at_ns: 10_000, latency_ns: 6_000, ..Sample::default() };
//! let waited = DetailedWait {
//!     wait: decode::wait(&sample)?,
//!     cpu: Some(0),
//!     waker_cpu: Some(0),
//!     remote: false,
//!     migrations: 0,
//!     throttled_ns: None,
//!     throttled_at_start: false,
//!     stolen_ns: 0,
//! };
//!
//! let mut timeline = Timeline::default();
//! assert!(timeline.push(&switch(1, 1_000, idle, hog, None)).is_none());
//! let end = switch(2, 10_000, hog, nginx, Some(waited));
//! let breakdown = timeline.push(&end).expect("the event ends a wait");
//! assert_eq!(breakdown.components().collect::<Vec<_>>(), [(Component::Same, 6_000)]);
//! # Ok::<(), decode::DecodeError>(())
//! ```
//!
//! # Recordings
//!
//! A [`recording::Recorder`] writes frames to any writer, and a [`recording::Recording`] reads them from any reader,
//! such as a file of `wakelat record`. If its end is missing or damaged, the report says so:
//!
//! ```
//! use wakelat_core::{
//!     recording::{Encoder, Frame, Header, RecordedNames, Recorder, Recording},
//!     report::{LatencyFrom, Report},
//!     timeline::event::{Event, EventKind, WorkItemEvent},
//! };
//!
//! let mut file = Encoder::default();
//! let mut recorder = Recorder::default();
//! recorder.begin(Header { from: LatencyFrom::Waking, ..Header::default() }, &mut file)?;
//! let work_item = WorkItemEvent { at_ns: 1_000, tid: 7, function: None };
//! let event = Event { cpu: 0, seq: 1, kind: EventKind::WorkItem(work_item) };
//! recorder.event(&event, &RecordedNames::default(), &mut file)?;
//! recorder.end(&Report { duration_ns: 5_000, ..Report::default() }, &mut file)?;
//!
//! let mut recording = Recording::open(file.bytes())?;
//! assert_eq!(recording.header().from, LatencyFrom::Waking);
//! let mut names = RecordedNames::default();
//! while let Some(frame) = recording.frame()? {
//!     // The names that an event needs precede it.
//!     names.learn(&frame);
//!     match frame {
//!         Frame::Event(event) => assert_eq!(event.kind.at_ns(), 1_000),
//!         Frame::End(report) => assert_eq!(report.duration_ns, 5_000),
//!         _ => {}
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod cgroup_path;
pub mod compare;
pub mod cpu_interrupt;
pub mod decode;
pub mod duration;
pub mod files;
pub mod folded_waits;
pub mod hash;
pub mod html_report;
pub mod interval_log;
pub mod osnoise_tracers;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
pub mod record_merge;
pub mod recording;
pub mod render;
pub mod report;
pub mod service;
pub mod softirq;
pub mod svg;
pub mod terminal_input;
pub mod timeline;
pub mod top_screen;
mod trace_line;
pub mod trace_text;
pub mod wait;
pub mod why;
