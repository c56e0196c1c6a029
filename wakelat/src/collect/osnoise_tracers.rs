//! Reads the records of the timerlat and osnoise tracers by BPF programs on their tracepoints.

pub mod decode;

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray},
};

use super::{
    attach::{self, AttachMethod, LoadedProgram, ProgramSpec},
    counters,
    load::{self, OBJECT},
    map,
    rcu_grace_period::Barrier,
    ring_buffers::{RingBuffers, UnmappedRings, online_cpus},
};
use crate::config::Attach;
use wakelat_tracefs::osnoise_tracers::{Tracer, TracerEvents};

/// Loaded programs on the tracer's tracepoints. Dropping it detaches and unloads everything.
pub struct TracerPrograms {
    ebpf: Ebpf,
    programs: Vec<LoadedProgram>,
    rings: RingBuffers,
    lost: PerCpuArray<MapData, u64>,
    barrier: Barrier,
}

impl TracerPrograms {
    /// Loads and verifies the programs on the samples of `tracer` and on `events`. Attaches nothing.
    ///
    /// # Errors
    /// If the kernel refuses a map or a program, with the kernel's own reason.
    pub fn load(tracer: Tracer, events: TracerEvents, attach: Attach, btf: &Path, ring_bytes: u32) -> Result<Self> {
        let btf = load::parse_types(load::read_types(btf)?)?;
        let methods: &[AttachMethod] = match attach {
            Attach::Raw => &[AttachMethod::Raw],
            Attach::Btf => &[AttachMethod::Typed],
            Attach::Auto | Attach::Classic => &[AttachMethod::Typed, AttachMethod::Raw],
        };
        let rings = UnmappedRings::new(ring_bytes, &online_cpus()?)?;
        let watermark = rings.watermark();
        let mut loader = EbpfLoader::new();
        // The maps of waits are not used.
        loader.btf(Some(&btf)).map_max_entries("TASK_OVERFLOW", 1).map_max_entries("HISTOGRAMS", 1);
        rings.configure(&watermark, &mut loader);
        let mut ebpf = loader.load(OBJECT).context("cannot load the BPF programs")?;
        // Attached before the sample: every interference that a sample sums up is recorded before it.
        let targets: Vec<ProgramSpec> = events.names().chain([tracer.sample()]).map(ProgramSpec::new).collect();
        let programs = rings.fill_table(&mut ebpf, |ebpf| attach::verify(ebpf, &targets, methods, Some(&btf)))?;
        Ok(Self {
            rings: rings.map()?,
            lost: PerCpuArray::try_from(map::take(&mut ebpf, "TRACER_LOST")?)?,
            barrier: Barrier::new()?,
            programs,
            ebpf,
        })
    }

    /// Attaches the programs.
    ///
    /// # Errors
    /// If the kernel refuses one of the tracepoints.
    pub fn attach(&mut self) -> Result<()> {
        attach::attach(&mut self.ebpf, &mut self.programs)
    }

    /// Detaches the programs. Afterwards none of them is running: all records are in the ring buffer, and
    /// the counters do not change.
    ///
    /// # Errors
    /// If a program cannot be detached.
    pub fn detach(&mut self) -> Result<()> {
        attach::detach(&mut self.ebpf, &mut self.programs)?;
        self.barrier.wait()?;
        Ok(())
    }

    /// Passes the records in the ring buffers to `take`, those of each CPU in their order. Records that arrive meanwhile
    /// wait for the next call.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn drain(&mut self, take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.rings.drain_unmerged(take)
    }

    /// Records lost so far because the ring buffer was full, by CPU.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub fn lost(&self) -> Result<BTreeMap<u32, u64>> {
        let lost = self.lost.get(&0, 0).context("cannot read the counters")?;
        Ok((0..).zip(lost.iter().copied()).collect())
    }

    /// Events for which the kernel skipped a program because one was active on that CPU; `None` if the kernel
    /// does not count them.
    ///
    /// # Errors
    /// If /proc/self/fdinfo cannot be read.
    pub fn missed(&self) -> Result<Option<u64>> {
        counters::missed(&self.ebpf, &self.programs)
    }
}
