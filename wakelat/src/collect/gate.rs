//! The window as the programs know it: whether it is open, and the instant at which it ends.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};

use super::{Collector, load::take};

/// Words that the programs test at each event.
pub(super) struct WindowGate {
    open: Array<MapData, u32>,
    end_at_ns: Array<MapData, u64>,
}

impl WindowGate {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let (open, end_at_ns) = (take(ebpf, ".data.open")?, take(ebpf, ".data.end")?);
        Ok(Self { open: Array::try_from(open)?, end_at_ns: Array::try_from(end_at_ns)? })
    }
}

impl Collector {
    /// Events count from now on.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn open(&mut self) -> Result<()> {
        self.gate.open.set(0, 1, 0).context("cannot open the window")
    }

    /// No event counts that begins from now on. Programs that run may still count theirs.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn close(&mut self) -> Result<()> {
        self.gate.open.set(0, 0, 0).context("cannot close the window")
    }

    /// No event counts at `at_ns` (CLOCK_MONOTONIC) or later, however late wakelat itself gets a CPU. An earlier end that was
    /// given before must not have passed.
    ///
    /// # Errors
    /// Where the kernel refuses to write the map.
    pub fn end_at(&mut self, at_ns: u64) -> Result<()> {
        self.gate.end_at_ns.set(0, at_ns, 0).context("cannot set the end of the window")
    }
}
