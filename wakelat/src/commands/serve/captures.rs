//! Recordings that conditions cause: judges the waits of each second, and asks the capture process for a recording.

use std::{
    fs::DirBuilder,
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{fs::DirBuilderExt as _, net::UnixStream, process::CommandExt as _},
    },
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use wakelat_core::{
    service::{
        capture_condition::CaptureReason,
        capture_counts::{CaptureCounts, ConditionCaptures, LastCapture},
        capture_watch::CaptureWatch,
    },
    why::counted::summary::CountedSummary,
};

use crate::{
    commands::capture_process::messages::{CaptureReply, CaptureRequest, MAX_MESSAGE, line},
    config::{CaptureProcessConfig, CaptureSettings},
    session::clock::monotonic_ns,
    status::status,
};

/// How long to wait for the capture process at the start, on a busy machine, too.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for the end of a recording at the end of the service.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The conditions of a service, and its capture process.
pub struct Captures {
    settings: CaptureSettings,
    watch: CaptureWatch,
    /// `None` once the process has ended.
    process: Option<CaptureLink>,
    /// Why the current recording is made, if there is one.
    reason: Option<CaptureReason>,
    counts: CaptureCounts,
}

/// The connection to the capture process.
struct CaptureLink {
    stream: UnixStream,
    /// The beginning of a message.
    received: Vec<u8>,
}

impl Captures {
    /// Starts the capture process, and waits until it accepts requests. It has the privileges that this process has now.
    ///
    /// # Errors
    /// If the directory cannot be created, or the process does not start.
    pub fn start(config: &CaptureProcessConfig) -> Result<Self> {
        let settings = &config.settings;
        let directory = DirBuilder::new().recursive(true).mode(0o700).create(&settings.dir);
        directory.with_context(|| format!("cannot create the directory `{}`", settings.dir.display()))?;
        let rules = &settings.conditions;
        let of = |condition| ConditionCaptures { condition, ..ConditionCaptures::default() };
        let conditions = rules.iter().map(|rule| of(rule.to_string())).collect();
        Ok(Self {
            watch: CaptureWatch::new(rules.iter().map(|rule| rule.condition), settings.interval_ns),
            process: Some(CaptureLink::start(config)?),
            reason: None,
            counts: CaptureCounts { is_running: true, conditions },
            settings: settings.clone(),
        })
    }

    /// The captures so far.
    pub fn counts(&self) -> &CaptureCounts {
        &self.counts
    }

    /// Adds the waits that have ended since the last reading. Only cgroups with series of their own have captures.
    pub fn reading(&mut self, summary: &CountedSummary, has_series: impl Fn(&str) -> bool) {
        let groups = summary.groups.iter().filter_map(|group| Some((group.name.as_deref()?, &group.total)));
        let rules = &self.settings.conditions;
        let applies = |rule: usize, cgroup: &str| rules[rule].applies_to(cgroup) && has_series(cgroup);
        self.watch.reading(monotonic_ns(), groups, applies);
    }

    /// Takes what the capture process reports, and asks it for a recording if one is due. Does not wait.
    pub fn step(&mut self) {
        let Some(process) = &mut self.process else { return };
        let received = process.receive();
        let has_ended = received.is_err();
        received.unwrap_or_default().into_iter().for_each(|reply| self.replied(reply));
        if has_ended {
            self.process = None;
            self.counts.is_running = false;
            self.replied(CaptureReply::Failed { why: "the capture process has ended".to_owned() });
            status("warning: the capture process has ended; restart wakelat to capture again");
            return;
        }
        if let (Some(reason), Some(process)) = (self.watch.due(monotonic_ns()), &mut self.process) {
            self.watch.begun(reason.condition);
            // If the process has ended, the next step finds out.
            _ = process.stream.write_all(&line(&CaptureRequest::from(&reason)));
            self.reason = Some(reason);
        }
    }

    fn replied(&mut self, reply: CaptureReply) {
        let ended = self.watch.ended(monotonic_ns());
        let Some((reason, condition)) = self.reason.take().zip(ended) else { return };
        let Some(counts) = self.counts.conditions.get_mut(condition) else { return };
        match reply {
            CaptureReply::Ready => {}
            CaptureReply::Written { file, bytes } => {
                let path = self.settings.dir.join(&file);
                let (megabytes, sentence) = (bytes as f64 / 1e6, reason.sentence());
                status(format_args!("wrote `{}`: {megabytes:.1} MB, because {sentence}", path.display()));
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let unix_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                counts.written += 1;
                counts.last = Some(LastCapture { file, cgroup: reason.cgroup, unix_ns });
            }
            CaptureReply::Failed { why } => {
                counts.failed += 1;
                status(format_args!("warning: no capture, although {}: {why}", reason.sentence()));
            }
        }
    }

    /// Ends the capture process, and the current recording with it, which is then shorter. Returns all captures.
    pub fn finish(mut self) -> CaptureCounts {
        let Some(process) = &mut self.process else { return self.counts };
        match process.last_reply() {
            Ok(Some(reply)) => self.replied(reply),
            Ok(None) => {}
            Err(error) => status(format_args!("warning: the capture process does not end: {error}")),
        }
        self.counts
    }
}

impl CaptureLink {
    fn start(config: &CaptureProcessConfig) -> Result<Self> {
        let (stream, theirs) = UnixStream::pair().context("cannot create a socket")?;
        let mut command = Command::new("/proc/self/exe");
        // Nothing of the environment: it may contain secrets of the service. A terminal's signals are for the service.
        command.arg0("wakelat").args(config.arguments()).env_clear().process_group(0);
        command.envs(std::env::vars_os().filter(|(name, _)| name == "TZ"));
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        command.spawn().context("cannot start the capture process")?;
        // The end that the command holds would keep the connection open.
        drop(command);
        stream.set_read_timeout(Some(START_LIMIT))?;
        let mut ready = String::new();
        (&mut BufReader::new(&stream)).take(MAX_MESSAGE).read_line(&mut ready).context("the capture process hangs")?;
        let ready: Option<CaptureReply> = serde_json::from_str(&ready).ok();
        ready.context("the capture process has ended at its start")?;
        stream.set_read_timeout(Some(END_LIMIT))?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// The messages that have arrived.
    ///
    /// # Errors
    /// If the process has ended.
    fn receive(&mut self) -> io::Result<Vec<CaptureReply>> {
        let mut buffer = [0; MAX_MESSAGE as usize];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let whole = self.received.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.received.drain(..whole).collect();
        Ok(serde_json::Deserializer::from_slice(&lines).into_iter().map_while(Result::ok).collect())
    }

    /// Lets the process end, waits until it has, and returns its last message.
    fn last_reply(&mut self) -> io::Result<Option<CaptureReply>> {
        self.stream.shutdown(Shutdown::Write)?;
        self.stream.set_nonblocking(false)?;
        let mut rest = std::mem::take(&mut self.received);
        self.stream.read_to_end(&mut rest)?;
        Ok(serde_json::Deserializer::from_slice(&rest).into_iter().map_while(Result::ok).last())
    }
}
