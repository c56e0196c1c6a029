//! The process that makes recordings for a service, which has dropped the privileges to do so: `wakelat serve --capture`
//! starts it before.
//!
//! It keeps the privileges that `wakelat record` needs, and uses them only for one thing: on a request, it starts `wakelat
//! record` with arguments that do not change, whose output is a file that it has created. A request only says which
//! condition was met by which cgroup; that text becomes part of the recording, and nothing else. The process limits by
//! itself how often it does so and how much room the files take, so that a request cannot do more.

pub mod messages;

use std::{
    fs::{File, Metadata},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Mode,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use wakelat_core::service::capture_condition::CaptureReason;
use wakelat_sandbox::{CapabilitySet, Launcher};

use self::messages::{CaptureReply, CaptureRequest, MAX_MESSAGE, line};
use super::numbered_files::{NumberedFile, NumberedFiles};
use crate::{
    config::{CaptureProcessConfig, CaptureSettings, duration},
    session::is_writable_by_mode,
};

/// What `wakelat record` needs at its start, as far as the service has it.
const FOR_RECORD: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::PERFMON).union(CapabilitySet::SYS_RESOURCE).union(CapabilitySet::SYS_NICE);

/// How often the length of a growing file is looked at.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What the names of the files begin with.
const FILE: &str = "capture.wakelat";

/// Makes recordings on request, until the service ends.
///
/// # Errors
/// If the directory cannot be used, the kernel refuses a restriction that it supports, or a message is not one of the
/// service's.
pub fn capture_process(config: &CaptureProcessConfig) -> Result<()> {
    let settings = &config.settings;
    // A recording contains the names of all users' tasks: only its owner may read it.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let files = NumberedFiles::find(&settings.dir.join(FILE), usize::MAX)?;
    files.remove_parts();
    let null = File::options().read(true).write(true).open("/dev/null").context("cannot open `/dev/null`")?;
    if !config.keep_privileges {
        let mut capabilities = FOR_RECORD;
        if !is_writable_by_mode(&settings.dir) {
            // Root in a directory of another user.
            capabilities |= CapabilitySet::DAC_OVERRIDE;
        }
        Launcher { capabilities, writes_in: vec![settings.dir.clone()] }.enter()?;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned().context("cannot use standard input")?;
    let socket = UnixStream::from(socket);
    let conditions = settings.conditions.len();
    let mut process = CaptureProcess { config, files, null, next_at: vec![None; conditions], has_service: true };
    let mut requests = BufReader::new(socket.try_clone()?);
    (&socket).write_all(&line(&CaptureReply::Ready))?;
    while process.has_service {
        let mut request = String::new();
        if (&mut requests).take(MAX_MESSAGE).read_line(&mut request)? == 0 {
            return Ok(());
        }
        let request: CaptureRequest = serde_json::from_str(&request).context("a request has an unknown form")?;
        let reason = request.reason(&settings.conditions).context("a request has an unknown condition")?;
        let reply = match process.capture(&reason, &socket) {
            Ok((file, bytes)) => CaptureReply::Written { file, bytes },
            Err(error) => CaptureReply::Failed { why: format!("{error:#}") },
        };
        // The service may have ended.
        _ = (&socket).write_all(&line(&reply));
    }
    Ok(())
}

struct CaptureProcess<'a> {
    config: &'a CaptureProcessConfig,
    files: NumberedFiles,
    null: File,
    /// Each condition has no capture before.
    next_at: Vec<Option<Instant>>,
    /// The service has not ended.
    has_service: bool,
}

impl CaptureProcess<'_> {
    /// Makes a recording. Returns the name of its file and its length: bytes.
    fn capture(&mut self, reason: &CaptureReason, service: &UnixStream) -> Result<(String, u64)> {
        let CaptureSettings { interval_ns, max_bytes, .. } = self.config.settings;
        let now = Instant::now();
        let next_at = self.next_at.get_mut(reason.condition).context("no such condition")?;
        if next_at.is_some_and(|next_at| now < next_at) {
            bail!("the last capture of the condition began less than the interval ago");
        }
        // The service counts from the end of a capture.
        *next_at = now.checked_add(Duration::from_nanos(interval_ns));
        self.files.shrink_to(max_bytes);
        let file = self.files.next();
        match self.record(reason, &file, service) {
            Ok(bytes) => {
                self.files.shrink_to(max_bytes);
                let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok((name, bytes))
            }
            Err(error) => {
                file.discard();
                Err(error)
            }
        }
    }

    /// Runs `wakelat record`, and ends it early if the service ends or if there is no more room for the file.
    fn record(&mut self, reason: &CaptureReason, file: &NumberedFile, service: &UnixStream) -> Result<u64> {
        let CaptureSettings { duration_ns, max_bytes, .. } = self.config.settings;
        let cannot_write = || format!("cannot write `{}`", file.path().display());
        let out = file.create().with_context(cannot_write)?;
        // This program, also if its file has been replaced.
        let mut record = Command::new("/proc/self/exe");
        record.arg0("wakelat").args(["record", "--quiet", "--output", "-", "--duration", &duration::text(duration_ns)]);
        record.arg(format!("--trigger={}", reason.sentence())).args(&self.config.record_arguments);
        record.args(self.config.keep_privileges.then_some("--keep-privileges"));
        record.stdin(Stdio::from(self.null.try_clone()?)).stdout(Stdio::from(out.try_clone()?));
        let mut child = record.spawn().context("cannot start `wakelat record`")?;
        let ended =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("cannot watch `wakelat record`")?;
        let length = || out.metadata().as_ref().map_or(0, Metadata::len);
        let mut is_ending = false;
        loop {
            let [has_ended, service_writes] = are_readable([ended.as_fd(), service.as_fd()], self.has_service)?;
            // The service writes nothing until it has a reply.
            self.has_service &= !service_writes;
            if has_ended {
                break;
            }
            self.files.shrink_to(max_bytes.saturating_sub(length()));
            if !is_ending && (!self.has_service || self.files.bytes().saturating_add(length()) > max_bytes) {
                is_ending = true;
                end(&child);
            }
        }
        let status = child.wait().context("cannot wait for `wakelat record`")?;
        if !status.success() {
            bail!("`wakelat record`: {status}");
        }
        file.finish().with_context(cannot_write)?;
        Ok(length())
    }
}

/// Waits until one of two descriptors is readable, the second one only if `both`, or until it is time to look at the file.
fn are_readable([first, second]: [BorrowedFd<'_>; 2], both: bool) -> Result<[bool; 2]> {
    let mut polled = [first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let polled = if both { &mut polled[..] } else { &mut polled[..1] };
    match poll(polled, Some(&LOOK_EVERY)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for `wakelat record`"),
    }
    let is_readable = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
    Ok([is_readable(0), is_readable(1)])
}

fn end(child: &Child) {
    // It may just have ended.
    _ = kill_process(Pid::from_child(child), Signal::TERM);
}
