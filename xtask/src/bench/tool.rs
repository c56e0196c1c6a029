//! An instrument at work.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::account;
use super::affinity::CpuList;
use super::floor::Floor;
use super::instrument::{Instrument, InstrumentKind, ReadySignal, ToolCommand};
use super::interrupt::InterruptFlag;
use super::losses::Losses;
use super::process::ProcessGroup;
use super::programs::{self, HeldPrograms};

/// What a tool may take to start (compilers are among them) and to end (so are readers of what they recorded).
const TIMEOUT: Duration = Duration::from_secs(30);

/// From the first event to the moment when surely all of a tool's programs are attached: they are, one after another,
/// within some milliseconds.
const SETTLE: Duration = Duration::from_millis(200);

/// An instrument that measures. Dropped, it is gone.
pub enum Tool<'a> {
    /// No instrument.
    Nothing,
    /// The empty programs.
    Floor(Floor),
    /// A program.
    Program(ProcessGroup, &'a ToolCommand),
}

/// The perf control channel's two ends.
const FIFOS: [&str; 2] = ["perf.control", "perf.answer"];

/// Starts `instrument` on `cpus` and waits until it measures. Returns it with the time to its first event: seconds, for
/// programs.
///
/// The kernel must keep account of run times meanwhile.
///
/// # Errors
/// If it does not start to measure: in its own words.
pub fn start<'a>(
    instrument: &'a Instrument,
    empty_programs: &Path,
    cpus: &CpuList,
    directory: &Path,
    interrupt: &InterruptFlag,
) -> anyhow::Result<(Tool<'a>, Option<f64>)> {
    let recipe = match &instrument.kind {
        InstrumentKind::Nothing => return Ok((Tool::Nothing, None)),
        InstrumentKind::Floor => return Ok((Tool::Floor(Floor::attach(empty_programs)?), None)),
        InstrumentKind::Program(recipe) => recipe,
    };
    for fifo in FIFOS.map(|name| directory.join(name)) {
        let _ = fs::remove_file(&fifo);
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).with_context(|| format!("cannot make `{}`", fifo.display()))?;
    }
    if recipe.ready == ReadySignal::EventOn && event_is_on()?.is_some() {
        bail!("somebody else traces `sched_switch`");
    }
    let begin = Instant::now();
    let mut command = Command::new(&recipe.program);
    let mut group = ProcessGroup::spawn(command.args(&recipe.args), cpus, directory.join(&instrument.id))?;
    let mut channel = None;
    let first = interrupt.wait(TIMEOUT, || {
        if group.ended()?.is_some() {
            bail!("it does not run here: {}", group.last_message());
        }
        Ok(match recipe.ready {
            ReadySignal::FirstRun => has_run(&group)?,
            ReadySignal::Answers => answers(&mut channel, directory)?,
            ReadySignal::EventOn => event_is_on()?,
        }
        .map(|()| begin.elapsed().as_secs_f64()))
    })?;
    let first = first.with_context(|| format!("it does not measure after {TIMEOUT:?}: {}", group.last_message()))?;
    interrupt.wait(SETTLE, || Ok(None::<()>))?;
    Ok((Tool::Program(group, recipe), Some(first)))
}

fn has_run(group: &ProcessGroup) -> anyhow::Result<Option<()>> {
    let held = programs::held_by(&account::processes(group.pid())?);
    Ok(held.runs.values().any(|runs| runs.count > 0).then_some(()))
}

/// Both ends of each fifo, so that opening it waits for nobody.
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
    // Asked again each time: what was written before perf opened its end is lost with the end it was written to.
    open_fifo(directory.join(FIFOS[0]))?.write_all(b"ping\n").context("cannot write to perf")?;
    let mut text = [0; 64];
    match answer.read(&mut text) {
        Ok(length) => Ok((length > 0).then_some(())),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("cannot hear perf"),
    }
}

fn event_is_on() -> anyhow::Result<Option<()>> {
    const ENABLE: &str = "/sys/kernel/tracing/events/sched/sched_switch/enable";
    let enabled = fs::read_to_string(ENABLE).with_context(|| format!("cannot read `{ENABLE}`"))?;
    Ok(enabled.starts_with('1').then_some(()))
}

impl Tool<'_> {
    /// Its processes, if it is a program.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        match self {
            Self::Nothing | Self::Floor(_) => Ok(Vec::new()),
            Self::Program(group, _) => account::processes(group.pid()),
        }
    }

    /// The BPF programs and maps it holds.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn held(&self) -> anyhow::Result<HeldPrograms> {
        Ok(match self {
            Self::Nothing => HeldPrograms::default(),
            Self::Floor(_) => programs::held_by(&[std::process::id()]),
            Self::Program(group, _) => programs::held_by(&account::processes(group.pid())?),
        })
    }

    /// Ends it as Ctrl-C does, and gives what it says it lost.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop(self, interrupt: &InterruptFlag) -> anyhow::Result<Option<Losses>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Floor(floor) => {
                floor.detach();
                Ok(None)
            }
            Self::Program(mut group, recipe) => {
                group.interrupt(TIMEOUT, interrupt)?;
                let (output, errors) = group.printed();
                Ok(recipe.loss_source.losses((&output, &errors)))
            }
        }
    }
}
