//! The source of a live run: BPF programs on the tracepoints, or the trace buffer. Returns the records in
//! the order of time, and the number of lost ones.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{
    collect::osnoise_tracers::{TracerPrograms, decode::decode},
    config::{SourceChoice, TracerConfig},
    session::clock,
};
use wakelat_core::osnoise_tracers::record::{KernelFrame, LostByCpu, TimerlatEvent, TimerlatRecord};
use wakelat_kernel::{btf::RingBufferSupport, kernel_symbols::KernelSymbols};
use wakelat_tracefs::TracefsMount;
use wakelat_tracefs::osnoise_tracers::{buffer::TraceBuffer, comm_cache::ThreadNames, local_clock::LocalClock};

/// Maximum time from the time stamp of a record until a reader can see it: ns.
const IN_FLIGHT_NS: u64 = 1_000_000;

/// Reads the records of a run.
pub struct RecordSource {
    programs: Option<TracerPrograms>,
    /// The trace buffer. With programs, it is used only for stacks.
    buffer: Option<TraceBuffer>,
    clock: LocalClock,
    threads: ThreadNames,
    symbols: KernelSymbols,
    /// Records that were read, but are too recent: others that precede them may still come.
    pending: Vec<TimerlatRecord>,
}

/// Selects the source of a run on this kernel.
///
/// # Errors
///
/// Fails if `--source bpf` was given, but the samples have no tracepoint, the kernel has no BTF, or the
/// ring buffer cannot be used.
pub fn choose(
    config: &TracerConfig,
    tracefs: &TracefsMount,
    btf: Option<&Path>,
    ring_buffer: RingBufferSupport,
) -> Result<SourceChoice> {
    let sample = config.setup.tracer.sample();
    if ring_buffer == RingBufferSupport::SleepingLock {
        return match config.source {
            SourceChoice::Auto | SourceChoice::Buffer => Ok(SourceChoice::Buffer),
            SourceChoice::Bpf => bail!(
                "on this kernel the BPF ring buffer can freeze the machine, because its lock sleeps with PREEMPT_RT; leave \
                 out `--source bpf` to read the trace buffer, or use Linux 6.12 or later"
            ),
        };
    }
    let has_sample = tracefs.root().join("events/osnoise").join(sample).exists();
    match (config.source, has_sample, btf) {
        (SourceChoice::Buffer, ..) | (SourceChoice::Auto, false, _) | (SourceChoice::Auto, _, None) => {
            Ok(SourceChoice::Buffer)
        }
        // The tracer writes its samples to the buffer in any case. Recording them twice would take time
        // from what is measured.
        (SourceChoice::Auto, ..) if config.events.is_samples_only() => Ok(SourceChoice::Buffer),
        (SourceChoice::Bpf, false, _) => bail!(
            "this kernel has no tracepoint `osnoise:{sample}`, which came in Linux 6.15; leave out `--source bpf` to read \
             the trace buffer"
        ),
        (SourceChoice::Bpf, _, None) => {
            bail!("this kernel has no BTF; leave out `--source bpf` to read the trace buffer")
        }
        (SourceChoice::Bpf | SourceChoice::Auto, true, Some(_)) => Ok(SourceChoice::Bpf),
    }
}

impl RecordSource {
    /// Opens the source for the instance in `directory`. Does not attach any programs.
    pub fn open(choice: SourceChoice, config: &TracerConfig, directory: &Path, btf: Option<&PathBuf>) -> Result<Self> {
        let stacks = config.setup.print_stack_us.is_some();
        let programs = match (choice, btf) {
            (SourceChoice::Bpf, Some(btf)) => {
                Some(TracerPrograms::load(config.setup.tracer, config.events, config.attach, btf, config.ring_bytes)?)
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

    /// A source that has no records.
    #[cfg(test)]
    pub fn empty() -> Self {
        Self {
            programs: None,
            buffer: None,
            clock: LocalClock::default(),
            threads: ThreadNames::default(),
            symbols: KernelSymbols::default(),
            pending: Vec::new(),
        }
    }

    /// Attaches the programs.
    pub fn attach(&mut self) -> Result<()> {
        self.programs.as_mut().map_or(Ok(()), TracerPrograms::attach)
    }

    /// Detaches the programs. Records that are already written can still be read.
    pub fn detach(&mut self) -> Result<()> {
        self.programs.as_mut().map_or(Ok(()), TracerPrograms::detach)
    }

    /// Returns the new records, oldest first, except those that may be incomplete.
    pub fn take(&mut self) -> Result<Vec<TimerlatRecord>> {
        // For more recent records, there may be others in the other source, or on another CPU, that were
        // not available when that one was read.
        let horizon_ns = clock::monotonic_ns().saturating_sub(IN_FLIGHT_NS);
        self.read()?;
        let complete = self.pending.partition_point(|record| record.at_ns <= horizon_ns);
        let young = self.pending.split_off(complete);
        Ok(std::mem::replace(&mut self.pending, young))
    }

    /// Returns all remaining records, once nothing more is recorded.
    pub fn take_remaining(&mut self) -> Result<Vec<TimerlatRecord>> {
        self.read()?;
        Ok(std::mem::take(&mut self.pending))
    }

    fn read(&mut self) -> Result<()> {
        let Self { programs, buffer, clock: local_clock, threads, symbols, pending: records } = self;
        let before = records.len();
        if let Some(buffer) = buffer {
            buffer.drain(clock::monotonic_ns(), threads, records)?;
        }
        for record in &mut records[before..] {
            if let TimerlatEvent::Stack { frames, .. } = &mut record.event {
                frames.iter_mut().for_each(|frame| name(frame, symbols));
            }
        }
        if let Some(programs) = programs {
            programs.drain(|bytes| {
                records.push(decode(bytes, local_clock, threads)?);
                Ok(())
            })?;
        }
        // The sort is stable, so records of one CPU with the same time stay in their order.
        records.sort_by_key(|record| record.at_ns);
        Ok(())
    }

    /// The number of records that were lost before they could be read, by CPU.
    pub fn lost(&self) -> Result<LostByCpu> {
        match (&self.programs, &self.buffer) {
            (Some(programs), _) => programs.lost(),
            (None, Some(buffer)) => Ok(buffer.lost()),
            (None, None) => Ok(LostByCpu::new()),
        }
    }

    /// The number of events for which the kernel skipped a program. `None` if the kernel does not count
    /// them, or if no programs are used.
    pub fn missed(&self) -> Result<Option<u64>> {
        self.programs.as_ref().map_or(Ok(None), TracerPrograms::missed)
    }
}

/// Replaces the address of a function with its name, if known.
fn name(frame: &mut KernelFrame, symbols: &KernelSymbols) {
    if let KernelFrame::Address(address) = frame
        && let Some(name) = symbols.name_of(*address)
    {
        *frame = KernelFrame::Symbol(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use wakelat_tracefs::osnoise_tracers::{Tracer, TracerEvents};

    #[test]
    fn records_are_read_with_bpf_if_the_kernel_can_and_more_than_samples_is_recorded() {
        use RingBufferSupport::{SleepingLock, Usable};
        use SourceChoice::{Auto, Bpf, Buffer};
        let directory = tempfile::tempdir().unwrap();
        let tracefs = TracefsMount::at(directory.path());
        let chosen = |source: SourceChoice, interferences: bool, btf: bool, ring_buffer: RingBufferSupport| {
            let events = TracerEvents { interferences, single_noises: false };
            let config = TracerConfig { source, events, ..TracerConfig::new(Tracer::Timerlat) };
            choose(&config, &tracefs, btf.then_some(Path::new("vmlinux")), ring_buffer).ok()
        };
        // Before 6.15, samples have no tracepoint.
        assert_eq!(chosen(Auto, true, true, Usable), Some(Buffer));
        assert_eq!(chosen(Bpf, true, true, Usable), None);
        fs::create_dir_all(directory.path().join("events/osnoise/timerlat_sample")).unwrap();
        for (source, interferences, btf, ring_buffer, expected) in [
            (Auto, true, true, Usable, Some(Bpf)),
            (Auto, false, true, Usable, Some(Buffer)),
            (Auto, true, false, Usable, Some(Buffer)),
            (Auto, true, true, SleepingLock, Some(Buffer)),
            (Buffer, true, true, Usable, Some(Buffer)),
            (Bpf, false, true, Usable, Some(Bpf)),
            (Bpf, true, false, Usable, None),
            (Bpf, true, true, SleepingLock, None),
        ] {
            let found = chosen(source, interferences, btf, ring_buffer);
            assert_eq!(found, expected, "{source:?}, {interferences}, {btf}, {ring_buffer:?}");
        }
    }
}
