//! The source of a run: the tracepoints by BPF, or the trace buffer; records in the order of time, and how many were lost.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{buffer::TraceBuffer, clock::LocalClock, said, threads::ThreadNames};
use crate::{
    collect::tracer::TracerPrograms,
    config::{SourceChoice, TracerConfig},
    kernel::{btf::RingBufferSupport, symbols::KernelSymbols},
    session::clock,
    timerlat::record::{KernelFrame, LostByCpu, TimerlatEvent, TimerlatRecord},
    tracefs::TracefsMount,
};

/// A record may be stamped and not yet be there for the reader; within this time it will be: ns.
const IN_FLIGHT_NS: u64 = 1_000_000;

/// Where records come from.
pub struct RecordSource {
    programs: Option<TracerPrograms>,
    /// Beside programs, for stacks alone.
    buffer: Option<TraceBuffer>,
    clock: LocalClock,
    threads: ThreadNames,
    symbols: KernelSymbols,
    /// Read, and too young for others not to come before them.
    pending: Vec<TimerlatRecord>,
}

/// Which source a run has on this kernel.
///
/// # Errors
/// If BPF was asked for, and the samples are no tracepoints, or the ring buffer cannot be used.
pub fn choose(
    config: &TracerConfig,
    tracefs: &TracefsMount,
    btf: Option<&Path>,
    ring_buffer: RingBufferSupport,
) -> Result<SourceChoice> {
    let sample = config.tracer.sample();
    if ring_buffer == RingBufferSupport::SleepingLock {
        return match config.source {
            SourceChoice::Auto | SourceChoice::Buffer => Ok(SourceChoice::Buffer),
            SourceChoice::Bpf => bail!(
                "on this kernel the BPF ring buffer can freeze the machine: with PREEMPT_RT its lock sleeps; leave out \
                 `--source bpf` to read the trace buffer, or use Linux 6.12 or later"
            ),
        };
    }
    let has_sample = tracefs.root().join("events/osnoise").join(sample).exists();
    match (config.source, has_sample, btf) {
        (SourceChoice::Buffer, ..) | (SourceChoice::Auto, false, _) | (SourceChoice::Auto, _, None) => {
            Ok(SourceChoice::Buffer)
        }
        // The tracer writes its samples there in any case: to have them twice would take time from what is measured.
        (SourceChoice::Auto, ..) if config.events.is_samples_only() => Ok(SourceChoice::Buffer),
        (SourceChoice::Bpf, false, _) => bail!(
            "this kernel has no tracepoint `osnoise:{sample}`, which came in Linux 6.15; leave out `--source bpf` to read \
             the trace buffer"
        ),
        (SourceChoice::Bpf, _, None) => {
            bail!("this kernel does not publish its types; leave out `--source bpf` to read the trace buffer")
        }
        (SourceChoice::Bpf | SourceChoice::Auto, true, Some(_)) => Ok(SourceChoice::Bpf),
    }
}

impl RecordSource {
    /// Opens it for the instance in `directory`. Nothing is attached yet.
    ///
    /// # Errors
    /// Where the kernel refuses the programs, or a file of the instance is not of its form.
    pub fn open(choice: SourceChoice, config: &TracerConfig, directory: &Path, btf: Option<&PathBuf>) -> Result<Self> {
        let stacks = config.print_stack_us.is_some();
        let programs = match (choice, btf) {
            (SourceChoice::Bpf, Some(btf)) => {
                Some(TracerPrograms::load(config.tracer, config.events, config.attach, btf, config.ring_bytes)?)
            }
            _ => None,
        };
        let buffer = (programs.is_none() || stacks).then(|| TraceBuffer::open(directory, programs.is_some()));
        Ok(Self {
            programs,
            buffer: buffer.transpose()?,
            clock: LocalClock::default(),
            threads: ThreadNames::default(),
            symbols: if stacks { KernelSymbols::of_kernel() } else { KernelSymbols::default() },
            pending: Vec::new(),
        })
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// Where the kernel refuses one of the tracepoints.
    pub fn attach(&mut self) -> Result<()> {
        self.programs.as_mut().map_or(Ok(()), TracerPrograms::attach)
    }

    /// Listens no more; what there is can still be read.
    ///
    /// # Errors
    /// Where a program cannot be detached.
    pub fn detach(&mut self) -> Result<()> {
        self.programs.as_mut().map_or(Ok(()), TracerPrograms::detach)
    }

    /// What was said since the last time, oldest first, but for what may not be complete yet.
    ///
    /// # Errors
    /// Where a source cannot be read or understood.
    pub fn take(&mut self) -> Result<Vec<TimerlatRecord>> {
        // Whatever is younger may have companions in the other source, or on another CPU, that were not there when that
        // one was read.
        let horizon_ns = clock::monotonic_ns().saturating_sub(IN_FLIGHT_NS);
        self.read()?;
        let complete = self.pending.partition_point(|record| record.at_ns <= horizon_ns);
        let young = self.pending.split_off(complete);
        Ok(std::mem::replace(&mut self.pending, young))
    }

    /// All that is left, once nothing more is said.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_remaining(&mut self) -> Result<Vec<TimerlatRecord>> {
        self.read()?;
        Ok(std::mem::take(&mut self.pending))
    }

    fn read(&mut self) -> Result<()> {
        let Self { programs, buffer, clock, threads, symbols, pending: held } = self;
        let before = held.len();
        if let Some(buffer) = buffer {
            buffer.drain(threads, held)?;
        }
        for record in &mut held[before..] {
            if let TimerlatEvent::Stack { frames, .. } = &mut record.event {
                frames.iter_mut().for_each(|frame| name(frame, symbols));
            }
        }
        if let Some(programs) = programs {
            programs.drain(|bytes| {
                held.push(said::decode(bytes, clock, threads)?);
                Ok(())
            })?;
        }
        // Stable: what one CPU said at one time stays in its order.
        held.sort_by_key(|record| record.at_ns);
        Ok(())
    }

    /// What was said and could not be read, by CPU.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn lost(&self) -> Result<LostByCpu> {
        match (&self.programs, &self.buffer) {
            (Some(programs), _) => programs.lost(),
            (None, Some(buffer)) => Ok(buffer.lost()),
            (None, None) => Ok(LostByCpu::new()),
        }
    }

    /// Events for which the kernel skipped a program; none where it does not count them, or nothing is attached.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn missed(&self) -> Result<Option<u64>> {
        self.programs.as_ref().map_or(Ok(None), TracerPrograms::missed)
    }
}

/// A function in place of an address, where it is known.
fn name(frame: &mut KernelFrame, symbols: &KernelSymbols) {
    if let KernelFrame::Address(address) = frame
        && let Some(name) = symbols.name_of(*address)
    {
        *frame = KernelFrame::Symbol(name.to_owned());
    }
}
