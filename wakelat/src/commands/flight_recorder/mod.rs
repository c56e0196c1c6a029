//! `record --last`: keeps the last events, and writes them to a file when something happens.

mod check;

use std::{
    fmt,
    io::{self, Write},
    panic::resume_unwind,
    path::PathBuf,
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::{Context as _, Error, Result, bail};
use tokio::signal::unix::SignalKind;

use self::check::RepeatedCheck;
use super::{
    event_recorder::EventRecorder,
    numbered_files::{NumberedFile, NumberedFiles},
    terminal_style::style,
};
use crate::{
    collect::{Collector, TimelineSettings},
    config::{Config, FlightRecorderConfig, duration},
    session::{
        View,
        clock::{boottime_offset_ns, monotonic_ns},
    },
    status::status,
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Header, LastPart, LastSegments},
    render::{self, Style, units},
    report::Report,
    timeline::{
        decode::KnownSwitch,
        event::{Event, EventKind},
    },
    wait::Wait,
};

/// Keeps the last events, and writes them to a file at a trigger.
pub struct FlightRecorder {
    settings: FlightRecorderConfig,
    header: Header,
    recorder: EventRecorder,
    last: LastSegments,
    files: NumberedFiles,
    check: Option<RepeatedCheck>,
    /// The trigger whose part of the run is not complete yet.
    trigger: Option<Trigger>,
    /// The file that is written next, while another one is.
    waiting: Option<WaitingFile>,
    /// When the part of the run that the last file has was taken: ns of CLOCK_MONOTONIC; `None` before the first file.
    last_file_ns: Option<u64>,
    /// Number of triggers that were ignored.
    ignored: u64,
    /// The thread that writes a file. Returns it if it could not be written, and why.
    writing: Option<JoinHandle<Result<(), (NumberedFile, Error)>>>,
    /// Number of files that could not be written.
    failed: u64,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    /// The style of the coverage on standard error, without `--quiet`.
    stderr_style: Option<Style>,
}

/// Why a file is written, and when.
struct Trigger {
    why: String,
    /// ns of CLOCK_MONOTONIC.
    write_at_ns: u64,
}

/// Why a trigger writes no file.
#[derive(Debug, PartialEq, Eq)]
enum IgnoredTrigger {
    /// Another file is about to be written.
    Pending,
    /// The last file is too recent.
    TooSoon {
        /// Its age: ns.
        age_ns: u64,
        /// The shortest time between two files: ns.
        interval_ns: u64,
    },
}

impl IgnoredTrigger {
    /// Why a trigger at `now_ns` is ignored, if so. `is_pending`: a file is about to be written. `last_file_ns`: when the
    /// last one was.
    fn of(is_pending: bool, now_ns: u64, last_file_ns: Option<u64>, interval_ns: u64) -> Option<Self> {
        if is_pending {
            return Some(Self::Pending);
        }
        let age_ns = now_ns.saturating_sub(last_file_ns?);
        (age_ns < interval_ns).then_some(Self::TooSoon { age_ns, interval_ns })
    }
}

impl fmt::Display for IgnoredTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("another file is about to be written"),
            Self::TooSoon { age_ns, interval_ns } => {
                let (age, interval) = (units::duration(*age_ns, true), duration::text(*interval_ns));
                write!(f, "the last file is {age} old (`--file-interval {interval}`)")
            }
        }
    }
}

/// The part of the run that a file will have, and why it is written.
struct WaitingFile {
    part: LastPart,
    why: String,
}

impl FlightRecorder {
    /// A flight recorder that writes the files of `config`'s output.
    ///
    /// # Errors
    /// If the directory of the files cannot be read.
    pub fn new(config: &Config, settings: FlightRecorderConfig, header: Header) -> Result<Self> {
        let path = config.output.path.as_deref().context("a flight recorder needs the name of a file")?;
        Ok(Self {
            files: NumberedFiles::find(path, settings.max_files)?,
            check: settings.check.as_deref().map(RepeatedCheck::new),
            // The part before the trigger, and the one after it.
            last: LastSegments::new(settings.length_ns.saturating_add(settings.after_ns), settings.max_bytes),
            settings,
            header,
            recorder: EventRecorder::default(),
            trigger: None,
            waiting: None,
            last_file_ns: None,
            ignored: 0,
            writing: None,
            failed: 0,
            has_ended: false,
            stderr_style: (!config.output.quiet).then(|| style(&config.output).0),
        })
    }

    /// Waits for the last file.
    ///
    /// # Errors
    /// If a file could not be written.
    pub fn finish(mut self) -> Result<()> {
        if self.ignored > 0 {
            let triggers = units::counted(self.ignored, "trigger");
            status(format_args!("{triggers} came too soon after another and wrote no file"));
        }
        self.note_written(true);
        match self.failed {
            0 => Ok(()),
            failed => bail!("{} could not be written", units::counted(failed, "file")),
        }
    }

    /// Writes a file because of this, unless one is about to be written, or has been written too recently. Returns why
    /// the trigger is ignored, if so.
    fn fire(&mut self, why: impl FnOnce() -> String) -> Option<IgnoredTrigger> {
        let now_ns = monotonic_ns();
        let is_pending = self.trigger.is_some() || self.waiting.is_some();
        let ignored = IgnoredTrigger::of(is_pending, now_ns, self.last_file_ns, self.settings.file_interval_ns);
        if ignored.is_some() {
            self.ignored += 1;
        } else {
            self.trigger = Some(Trigger { why: why(), write_at_ns: now_ns.saturating_add(self.settings.after_ns) });
        }
        ignored
    }

    /// Writes a file because of a request. Returns why it is ignored, in words, if so.
    fn fire_on_request(&mut self) -> Option<String> {
        let ignored = self.fire(|| "SIGUSR1".to_owned());
        ignored.map(|ignored| format!("SIGUSR1 ignored: {ignored}"))
    }

    /// Starts to write the file of the trigger, if one is due at the end of a segment. One file after the other: a disk
    /// that is too slow delays only its files, and each has the part of the run that was kept when it was due.
    fn write_if_due(&mut self) {
        let now_ns = monotonic_ns();
        let is_due = |trigger: &mut Trigger| self.has_ended || now_ns >= trigger.write_at_ns;
        if let (Some(trigger), Some(part)) = (self.trigger.take_if(is_due), self.last.part()) {
            self.last_file_ns = Some(now_ns);
            self.waiting = Some(WaitingFile { part, why: trigger.why });
        }
        self.note_written(self.has_ended);
        if self.writing.is_none()
            && let Some(file) = self.waiting.take()
        {
            self.begin_writing(file);
        }
    }

    fn begin_writing(&mut self, WaitingFile { part, why }: WaitingFile) {
        let next = self.files.next();
        let file = next.clone();
        let boottime_offset_ns = boottime_offset_ns();
        let header = Header { trigger: Some(why), boottime_offset_ns, ..self.header.clone() };
        let quiet = self.stderr_style.is_none();
        let write = move || {
            let bytes = match file.write(|out| part.write(&header, out)) {
                Ok(bytes) => bytes,
                Err(error) => return Err((file, error)),
            };
            if !quiet {
                let (length, why) = (units::duration(part.length_ns(), true), header.trigger.unwrap_or_default());
                let megabytes = bytes as f64 / 1e6;
                status(format_args!(
                    "wrote `{}`: {length}, {megabytes:.1} MB, because of {why}",
                    file.path().display()
                ));
            }
            Ok(())
        };
        match thread::Builder::new().name("wakelat-output".to_owned()).spawn(write) {
            Ok(thread) => self.writing = Some(thread),
            // What hinders a thread may be what the file is about: later ones are tried again.
            Err(error) => {
                status(format_args!("warning: cannot start the thread that writes a file: {error}"));
                self.files.put_back(next);
                self.failed += 1;
            }
        }
    }

    /// Ends the thread that writes a file if it has finished, or waits for it.
    fn note_written(&mut self, waits: bool) {
        let Some(thread) = self.writing.take_if(|thread| waits || thread.is_finished()) else { return };
        let written = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        if let Err((file, error)) = written {
            status(format_args!("warning: {error:#}"));
            self.files.put_back(file);
            self.failed += 1;
        }
    }

    fn end_segment(&mut self) {
        let now = Instant::now();
        if let Some(failure) = self.check.as_mut().and_then(|check| check.failure(now)) {
            self.fire(|| failure);
        }
        self.write_if_due();
    }
}

fn wait_trigger(wait: &Wait) -> String {
    let Wait { latency_ns, comm, tid, .. } = wait;
    format!("a wait of {} of {comm} (TID {tid})", units::duration(*latency_ns, true))
}

impl View for FlightRecorder {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings::of_recording(&self.header))
    }

    fn shows_groups(&self) -> bool {
        false
    }

    fn writes_in(&self) -> Vec<PathBuf> {
        vec![self.files.directory().to_owned()]
    }

    fn starts_programs(&self) -> bool {
        self.check.is_some()
    }

    fn request_signal(&self) -> Option<SignalKind> {
        Some(SignalKind::user_defined1())
    }

    fn request(&mut self) {
        if let Some(why) = self.fire_on_request() {
            // Also with `--quiet`: the file that was requested is missing.
            status(why);
        }
    }

    fn is_full(&self) -> bool {
        self.last.is_full()
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.recorder.loaded(collector);
    }

    fn begin(&mut self, _: &mut dyn Write) -> io::Result<()> {
        if self.stderr_style.is_some() {
            let (length, pid) = (units::duration(self.settings.length_ns, true), std::process::id());
            status(format_args!("keeping the last {length}; `wakelat dump {pid}` writes them to a file"));
        }
        self.recorder.frames.begin(self.header.clone(), &mut self.last)
    }

    fn is_cumulative(&self) -> bool {
        true
    }

    fn makes_recording(&self) -> bool {
        true
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.recorder.event(event, unix_offset_ns, names, &mut self.last)?;
        if let (Some(threshold_ns), EventKind::Switch(switch)) = (self.settings.threshold_ns, &event.kind)
            && let Some(ended) = &switch.ended_wait
            && ended.wait.latency_ns >= threshold_ns
        {
            self.fire(|| wait_trigger(&ended.wait));
        }
        Ok(())
    }

    fn known_switch(&mut self, known: &KnownSwitch<'_>, unix_offset_ns: i64) -> bool {
        // A wait that may be long enough for a file needs its event.
        let is_short = self.settings.threshold_ns.is_none_or(|threshold_ns| known.record.latency_ns < threshold_ns);
        is_short && !self.last.is_full() && self.recorder.frames.known_switch(known, unix_offset_ns, &mut self.last)
    }

    fn report(&mut self, report: &Report, _: &mut dyn Write) -> io::Result<()> {
        self.recorder.report(report, self.has_ended, &mut self.last)?;
        self.end_segment();
        if let Some(style) = self.stderr_style.as_ref().filter(|_| self.has_ended) {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FilterConfig, OutputConfig, RecordedInput};

    #[test]
    fn a_request_that_is_ignored_is_answered_at_once() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let directory = tempfile::tempdir().unwrap();
        let output = OutputConfig { path: Some(directory.path().join("incident.wakelat")), ..OutputConfig::default() };
        let config = Config::recorded(RecordedInput::default(), FilterConfig::new(false), output);
        let settings = FlightRecorderConfig {
            length_ns: HOUR_NS,
            max_bytes: 1 << 20,
            after_ns: 0,
            file_interval_ns: HOUR_NS,
            max_files: 1,
            threshold_ns: None,
            check: None,
        };
        let mut recorder = FlightRecorder::new(&config, settings, Header::default()).unwrap();
        assert_eq!(recorder.fire_on_request(), None);
        let answer = recorder.fire_on_request();
        assert_eq!(answer.as_deref(), Some("SIGUSR1 ignored: another file is about to be written"));
        recorder.trigger = None;
        recorder.last_file_ns = Some(monotonic_ns());
        let answer = recorder.fire_on_request().unwrap();
        assert!(
            answer.starts_with("SIGUSR1 ignored: the last file is ") && answer.contains("--file-interval"),
            "{answer}"
        );
        // The end of the run counts them.
        assert_eq!(recorder.ignored, 2);
    }

    #[test]
    fn a_trigger_is_ignored_while_a_file_is_pending_or_recent() {
        const SECOND: u64 = 1_000_000_000;
        let ignored = |is_pending, last| IgnoredTrigger::of(is_pending, 13 * SECOND, last, 5 * SECOND);
        assert_eq!(ignored(false, None), None);
        assert_eq!(ignored(false, Some(8 * SECOND)), None);
        assert_eq!(ignored(true, None), Some(IgnoredTrigger::Pending));
        let too_soon = ignored(false, Some(10 * SECOND)).unwrap();
        assert_eq!(too_soon.to_string(), "the last file is 3.0 s old (`--file-interval 5s`)");
    }
}
