//! `record`: writes all events to a file.

use std::{
    fs,
    io::{self, Write},
};

use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use rustix::fs::Mode;
use wakelat_common::Class;

use super::{measurement::measure, terminal_style::style, why::timeline};
use crate::{
    collect::{Collector, TimelineSettings},
    config::{Config, RecordConfig},
    session::{StopReason, View, clock},
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Header, RecordedMachine, Recorder},
    render::{self, Style},
    report::Report,
    timeline::event::Event,
};
use wakelat_kernel::{Roots, fair_scheduler, release::Release};

/// `record`: writes all events to a file.
///
/// # Errors
/// Errors of [`crate::session::run`], and if the reader of a pipe closes it before the end.
pub fn record(config: &Config, record: &RecordConfig) -> Result<StopReason> {
    let RecordConfig { collected, labels } = record;
    let collected = *collected;
    let header = Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: shortened(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())),
        machine: recorded_machine(),
        boottime_offset_ns: clock::boottime_offset_ns(),
        labels: labels.clone(),
        from: config.from,
        classes: Class::ALL.into_iter().filter(|class| config.classes.contains(*class)).collect(),
        threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
        merged: config.merged,
        collected,
        own_pid: (!config.filter.include_self).then(std::process::id),
        has_warm_up: config.window.warm_up_ns > 0,
    };
    let stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view = RecordView {
        header: Some(header),
        timeline: timeline(collected),
        recorder: Recorder::default(),
        has_ended: false,
        stderr_style,
    };
    match measure(config, &mut view)? {
        StopReason::NoReader => bail!("the recording is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
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

struct RecordView {
    /// The header, until it is written.
    header: Option<Header>,
    timeline: TimelineSettings,
    recorder: Recorder,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    /// The style of the coverage on standard error, without `--quiet`.
    stderr_style: Option<Style>,
}

impl View for RecordView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(self.timeline)
    }

    fn loaded(&mut self, _: &mut Collector) {
        // A recording contains the names of all users' tasks: as with perf's, only its owner may read it. Not before the
        // measured command has started, which inherits the mask.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.header.take().map_or(Ok(()), |header| self.recorder.begin(header, out))
    }

    /// Each reading covers everything since the start: if it is the last one in the file, it replaces the end.
    fn is_cumulative(&self) -> bool {
        true
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.set_unix_offset(unix_offset_ns, out)?;
        self.recorder.event(event, names, out)
    }

    fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.warmed_up(out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_ended {
            return self.recorder.reading(report, out);
        }
        self.recorder.end(report, out)?;
        if let Some(style) = &self.stderr_style {
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
