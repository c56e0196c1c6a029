//! A measurement as a recording, which a view may show at once.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;
use jiff::tz::TimeZone;
use wakelat_common::Class;

use super::event_recorder::EventRecorder;
use crate::{
    collect::{Collector, TimelineSettings},
    config::{Config, RecordConfig, RecordedInput, RecordedMeasurement},
    session::{
        self, Environment, InputAction, StopReason, View, clock, output::WriteResult, replay::LiveReplay,
        writer::OutputWriter,
    },
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Encoder, Frame, FrameSink, Header, Kept, RecordedMachine, start_run},
    render::{self, Style},
    report::Report,
    terminal_input::TerminalInput,
    timeline::{decode::KnownSwitch, event::Event},
    wait::Wait,
};
use wakelat_kernel::{Roots, fair_scheduler, privilege, release::Release};

/// Records `measured`, and shows it at once through `view`, with `config` and `input`, as if it were read. `header` is
/// that of the recording.
///
/// # Errors
/// Errors of [`crate::session::run`], and if the output of the view cannot be written.
pub fn record_and_show(
    (environment, measured, header): (&Environment, &RecordedMeasurement, Header),
    (config, input): (&Config, &RecordedInput),
    view: &mut dyn View,
) -> Result<StopReason> {
    let shown = LiveReplay::open(config, input, &header, view)?;
    let mut recorded = RecordView { shown: Some(shown), ..RecordView::new(header) };
    let stop = session::run(&measured.config, environment, &mut recorded)?;
    match recorded.shown.map_or(Ok(WriteResult::All), LiveReplay::finish)? {
        WriteResult::All => Ok(stop),
        WriteResult::NoReader => Ok(StopReason::NoReader),
    }
}

/// The header of a recording that begins now.
pub fn header(config: &Config, record: &RecordConfig) -> Header {
    Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: shortened(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())),
        machine: recorded_machine(),
        boottime_offset_ns: clock::boottime_offset_ns(),
        labels: record.labels.clone(),
        trigger: record.trigger.clone(),
        from: config.from,
        classes: Class::ALL.into_iter().filter(|class| config.classes.contains(*class)).collect(),
        threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
        merged: config.merged,
        collected: record.collected,
        own_pid: (!config.filter.include_self).then(|| privilege::own_pid(&Roots::default())).flatten(),
        has_warm_up: config.window.warm_up_ns > 0,
        kept: record.kept.clone(),
        more: record.more,
        text: None,
    }
}

/// The arguments of a command line, as many of them as have room in the head of a recording.
fn shortened(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const MAX_BYTES: usize = 4_096;
    let mut room = MAX_BYTES;
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments {
        let Some(rest) = room.checked_sub(argument.len() + 1) else {
            shown.push("…".to_owned());
            break;
        };
        room = rest;
        shown.push(argument);
    }
    shown
}

/// The description of this machine.
fn recorded_machine() -> RecordedMachine {
    let (roots, uname) = (Roots::default(), rustix::system::uname());
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpus = fs::read_to_string(roots.sys.join("devices/system/cpu/online")).unwrap_or_default();
    RecordedMachine {
        host: text(uname.nodename()),
        kernel: text(uname.release()),
        kernel_version: text(uname.version()),
        architecture: text(uname.machine()),
        scheduler: fair_scheduler::name(&roots, &Release::running()),
        cpus_online: cpus.trim().to_owned(),
        time_zone: TimeZone::system().iana_name().unwrap_or_default().to_owned(),
    }
}

/// Writes what is measured as a recording.
pub struct RecordView<'a> {
    /// The header, until it is written.
    header: Option<Header>,
    /// The events that are recorded; none if only waits are.
    timeline: Option<TimelineSettings>,
    recorder: EventRecorder,
    file: Encoder,
    /// A view of the recording.
    shown: Option<LiveReplay<'a>>,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    /// The style of the coverage on standard error, if it is printed.
    pub stderr_style: Option<Style>,
}

/// Encodes frames for the file, and shows them.
struct FileAndView<'a, 'b> {
    file: &'a mut Encoder,
    shown: Option<&'a mut LiveReplay<'b>>,
}

impl FrameSink for FileAndView<'_, '_> {
    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.file.frame(frame)?;
        self.shown.as_mut().into_iter().for_each(|shown| shown.take(frame));
        Ok(())
    }

    fn end_segment(&mut self) -> io::Result<()> {
        self.file.end_segment()
    }
}

impl RecordView<'_> {
    /// A view of a measurement with this header.
    pub fn new(header: Header) -> Self {
        Self {
            timeline: (header.kept == Kept::Events).then(|| TimelineSettings::of_recording(&header)),
            header: Some(header),
            recorder: EventRecorder::default(),
            file: Encoder::default(),
            shown: None,
            has_ended: false,
            stderr_style: None,
        }
    }

    /// Writes the frames of `record` to `out`.
    fn write(
        &mut self,
        out: &mut dyn Write,
        record: impl FnOnce(&mut EventRecorder, &mut dyn FrameSink) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut sink = FileAndView { file: &mut self.file, shown: self.shown.as_mut() };
        record(&mut self.recorder, &mut sink)?;
        out.write_all(self.file.bytes())?;
        self.file.clear();
        Ok(())
    }
}

impl View for RecordView<'_> {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn shows_waits(&self) -> bool {
        self.timeline.is_none()
    }

    fn shows_groups(&self) -> bool {
        false
    }

    fn needs_cgroups(&self) -> bool {
        self.timeline.is_none()
    }

    fn writes_in(&self) -> Vec<PathBuf> {
        self.shown.as_ref().map_or(Vec::new(), |shown| shown.writes_in().to_vec())
    }

    fn is_interactive(&self) -> bool {
        self.shown.as_ref().is_some_and(LiveReplay::is_interactive)
    }

    fn input(&mut self, input: TerminalInput) -> InputAction {
        self.shown.as_mut().map_or(InputAction::Nothing, |shown| shown.input(input))
    }

    fn has_news(&mut self) -> bool {
        self.shown.as_mut().is_some_and(|shown| shown.view().has_news())
    }

    fn draw(&mut self, frame: &mut dyn Write) -> io::Result<()> {
        self.shown.as_mut().map_or(Ok(()), |shown| shown.view().draw(frame))
    }

    fn closed(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.shown.as_mut().map_or(Ok(()), |shown| shown.view().closed(out))
    }

    fn own_output(&mut self) -> Option<&mut OutputWriter> {
        self.shown.as_mut().and_then(LiveReplay::output)
    }

    fn is_satisfied(&mut self) -> bool {
        self.shown.as_mut().is_some_and(LiveReplay::send)
    }

    fn is_full(&self) -> bool {
        self.shown.as_ref().is_some_and(LiveReplay::is_full)
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.recorder.loaded(collector);
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.shown.as_mut().map_or(Ok(()), LiveReplay::begin)?;
        let Some(header) = self.header.take() else { return Ok(()) };
        self.write(out, |recorder, sink| recorder.frames.begin(header, sink))
    }

    fn started(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.write(out, |_, sink| start_run(report, sink))
    }

    /// Each reading covers everything since the start: if it is the last one in the file, it replaces the end.
    fn is_cumulative(&self) -> bool {
        true
    }

    fn makes_recording(&self) -> bool {
        true
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn wait(&mut self, wait: &Wait, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.write(out, |recorder, sink| {
            recorder.frames.set_unix_offset(unix_offset_ns, sink)?;
            recorder.frames.wait(wait, names, sink)
        })
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.write(out, |recorder, sink| recorder.event(event, unix_offset_ns, names, sink))
    }

    fn known_switch(&mut self, known: &KnownSwitch<'_>, unix_offset_ns: i64) -> bool {
        self.shown.is_none() && self.recorder.frames.known_switch(known, unix_offset_ns, &mut self.file)
    }

    fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out, |recorder, sink| recorder.warmed_up(sink))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let is_last = self.has_ended;
        self.write(out, |recorder, sink| recorder.report(report, is_last, sink))?;
        if let Some(style) = self.stderr_style.as_ref().filter(|_| is_last) {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_line_leaves_room_for_the_rest_of_the_head() {
        let of = |arguments: &[&str]| shortened(arguments.iter().map(|argument| (*argument).to_owned()));
        assert_eq!(of(&["wakelat", "record"]), ["wakelat", "record"]);
        assert_eq!(of(&["wakelat", &"x".repeat(1 << 20), "-q"]), ["wakelat", "…"]);
        assert_eq!(of(&["x"; 10_000]).len(), 2_049);
    }
}
