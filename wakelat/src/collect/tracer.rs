//! What the timerlat and osnoise tracers say, by BPF: the programs on their tracepoints.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, RingBuf},
};
use wakelat_common::tracer::TracerRecord;

use super::{
    attach::{self, AttachMethod, LoadedProgram, ProgramSpec},
    counters,
    load::{self, OBJECT},
};
use crate::config::{Attach, Tracer, TracerEvents};

/// Loaded programs. Dropping it detaches and unloads everything.
pub struct TracerPrograms {
    ebpf: Ebpf,
    programs: Vec<LoadedProgram>,
    ring: RingBuf<MapData>,
    /// How many records the ring buffer holds at most.
    ring_capacity: usize,
    lost: PerCpuArray<MapData, u64>,
}

impl TracerPrograms {
    /// Loads those on the samples of `tracer` and on what else is in `events`, and has them verified. Nothing is attached yet.
    ///
    /// # Errors
    /// Where the kernel refuses a map or a program, with the kernel's own reason.
    pub fn load(tracer: Tracer, events: TracerEvents, attach: Attach, btf: &Path, ring_bytes: u32) -> Result<Self> {
        let btf = load::parse_types(load::read_types(btf)?)?;
        let ways: &[AttachMethod] = match attach {
            Attach::Raw => &[AttachMethod::Raw],
            Attach::Btf => &[AttachMethod::Typed],
            Attach::Auto | Attach::Classic => &[AttachMethod::Typed, AttachMethod::Raw],
        };
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .map_max_entries("SAMPLES", ring_bytes)
            // Of the maps of waits, nothing is used.
            .map_max_entries("TASK_OVERFLOW", 1)
            .map_max_entries("HISTOGRAMS", 1)
            .load(OBJECT)
            .context("cannot load the BPF programs")?;
        // Interferences come first: whatever a sample sums up is there before it.
        let targets: Vec<ProgramSpec> = events.names().chain([tracer.sample()]).map(ProgramSpec::new).collect();
        let attached = attach::verify(&mut ebpf, &targets, ways, Some(&btf))?;
        Ok(Self {
            ring: RingBuf::try_from(load::take(&mut ebpf, "SAMPLES")?)?,
            ring_capacity: ring_bytes as usize / size_of::<TracerRecord>(),
            lost: PerCpuArray::try_from(load::take(&mut ebpf, "TRACER_LOST")?)?,
            programs: attached,
            ebpf,
        })
    }

    /// Starts listening.
    ///
    /// # Errors
    /// Where the kernel refuses one of the tracepoints.
    pub fn attach(&mut self) -> Result<()> {
        attach::attach(&mut self.ebpf, &mut self.programs)
    }

    /// Stops listening: afterwards no program runs any more.
    ///
    /// # Errors
    /// Where a program cannot be detached.
    pub fn detach(&mut self) -> Result<()> {
        attach::detach(&mut self.ebpf, &mut self.programs).map(|_| ())
    }

    /// Gives the records that wait in the ring buffer to `take`, in their order: as many as it can hold. What is said
    /// meanwhile waits for the next time, so that a reader that is too slow comes to an end all the same.
    ///
    /// # Errors
    /// What `take` returns.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for _ in 0..self.ring_capacity {
            let Some(record) = self.ring.next() else { break };
            take(&record)?;
        }
        Ok(())
    }

    /// Records for which there was no room so far, by CPU.
    ///
    /// # Errors
    /// Where the kernel refuses to read the map.
    pub fn lost(&self) -> Result<BTreeMap<u32, u64>> {
        let lost = self.lost.get(&0, 0).context("cannot read the counters")?;
        Ok((0..).zip(lost.iter().copied()).collect())
    }

    /// Events for which the kernel skipped a program, as one was active on that CPU; none where it does not count them.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn missed(&self) -> Result<Option<u64>> {
        counters::missed(&self.ebpf, &self.programs)
    }
}
