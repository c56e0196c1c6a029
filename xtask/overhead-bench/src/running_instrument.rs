//! A running instrument.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::affinity::CpuList;
use super::floor::Floor;
use super::instrument::{Instrument, InstrumentKind, ReadySignal, ToolCommand};
use super::losses::Losses;
use super::process::ProcessGroup;
use super::process_usage;
use super::programs::{self, HeldPrograms};
use super::sigint::InterruptFlag;

/// How long a tool may take to start (some compile first) and to end (some read what they recorded).
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after the first event, until all programs of a tool are attached for sure. Tools attach
/// them one after another, within some milliseconds.
const SETTLE: Duration = Duration::from_millis(200);

/// An instrument that measures, stopped when dropped.
pub enum RunningInstrument<'a> {
    /// No instrument.
    Nothing,
    /// The empty programs.
    Floor(Floor),
    /// A program.
    Program(ProcessGroup, &'a ToolCommand),
}

/// The perf control channel's two ends.
const FIFOS: [&str; 2] = ["perf.control", "perf.answer"];

/// Starts `instrument` on `cpus` and waits until it measures. Also returns the time to its first event, if
/// it is a program: seconds.
///
/// The kernel must account BPF run times meanwhile.
///
/// # Errors
/// Fails if it does not start to measure; the error has its own message.
pub fn start<'a>(
    instrument: &'a Instrument,
    empty_programs: &Path,
    cpus: &CpuList,
    directory: &Path,
    interrupt: &InterruptFlag,
) -> anyhow::Result<(RunningInstrument<'a>, Option<f64>)> {
    let tool = match &instrument.kind {
        InstrumentKind::Nothing => return Ok((RunningInstrument::Nothing, None)),
        InstrumentKind::Floor => return Ok((RunningInstrument::Floor(Floor::attach(empty_programs)?), None)),
        InstrumentKind::Program(tool) => tool,
    };
    for fifo in FIFOS.map(|name| directory.join(name)) {
        let _ = fs::remove_file(&fifo);
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).with_context(|| format!("cannot make `{}`", fifo.display()))?;
    }
    if tool.ready == ReadySignal::EventOn && event_is_on()?.is_some() {
        bail!("another tracer has enabled `sched_switch`; stop it");
    }
    let begin = Instant::now();
    let mut command = Command::new(&tool.program);
    let mut group = ProcessGroup::spawn(command.args(&tool.args), cpus, directory.join(&instrument.id))?;
    let mut channel = None;
    let first = interrupt.wait(TIMEOUT, || {
        if group.ended()?.is_some() {
            bail!("it does not run here: {}", group.last_message());
        }
        Ok(match tool.ready {
            ReadySignal::FirstRun => has_run(&group)?,
            ReadySignal::Answers => answers(&mut channel, directory)?,
            ReadySignal::EventOn => event_is_on()?,
        }
        .map(|()| begin.elapsed().as_secs_f64()))
    })?;
    let first = first.with_context(|| format!("it does not measure after {TIMEOUT:?}: {}", group.last_message()))?;
    interrupt.wait(SETTLE, || Ok(None::<()>))?;
    Ok((RunningInstrument::Program(group, tool), Some(first)))
}

fn has_run(group: &ProcessGroup) -> anyhow::Result<Option<()>> {
    let held = programs::held_by(&process_usage::processes(group.pid())?);
    Ok(held.runs.values().any(|runs| runs.count > 0).then_some(()))
}

/// Opens both ends of a FIFO, so that opening it does not block.
fn open_fifo(path: PathBuf) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open(&path).with_context(|| format!("cannot open `{}`", path.display()))
}

fn answers(channel: &mut Option<File>, directory: &Path) -> anyhow::Result<Option<()>> {
    let answer = match channel {
        Some(answer) => answer,
        None => open_fifo(directory.join(FIFOS[1])).map(|answer| channel.insert(answer))?,
    };
    // Asks each time: what was written before perf opened its end is lost when this end is closed.
    open_fifo(directory.join(FIFOS[0]))?.write_all(b"ping\n").context("cannot write to perf")?;
    let mut text = [0; 64];
    match answer.read(&mut text) {
        Ok(length) => Ok((length > 0).then_some(())),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("cannot read perf's answer"),
    }
}

fn event_is_on() -> anyhow::Result<Option<()>> {
    const ENABLE: &str = "/sys/kernel/tracing/events/sched/sched_switch/enable";
    let enabled = fs::read_to_string(ENABLE).with_context(|| format!("cannot read `{ENABLE}`"))?;
    Ok(enabled.starts_with('1').then_some(()))
}

impl RunningInstrument<'_> {
    /// The processes of the instrument; none if it is not a program.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        match self {
            Self::Nothing | Self::Floor(_) => Ok(Vec::new()),
            Self::Program(group, _) => process_usage::processes(group.pid()),
        }
    }

    /// The BPF programs and maps that the instrument holds.
    pub fn held(&self) -> anyhow::Result<HeldPrograms> {
        Ok(match self {
            Self::Nothing => HeldPrograms::default(),
            Self::Floor(_) => programs::held_by(&[std::process::id()]),
            Self::Program(group, _) => programs::held_by(&process_usage::processes(group.pid())?),
        })
    }

    /// Ends the instrument as Ctrl-C does, and returns what it reports as lost.
    ///
    /// # Errors
    /// Fails if it does not end.
    pub fn stop(self, interrupt: &InterruptFlag) -> anyhow::Result<Option<Losses>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Floor(floor) => {
                floor.detach();
                Ok(None)
            }
            Self::Program(mut group, tool) => {
                group.interrupt(TIMEOUT, interrupt)?;
                let (output, errors) = group.printed();
                Ok(tool.loss_source.losses((&output, &errors)))
            }
        }
    }
}
