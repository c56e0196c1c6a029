//! The measurement window as the programs see it: whether it is open, and when it ends.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};

use super::{Collector, map::take};

/// Global variables that the programs check at each event.
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
    /// Opens the window: events count from now on.
    pub fn open(&mut self) -> Result<()> {
        self.gate.open.set(0, 1, 0).context("cannot open the measurement window")
    }

    /// Closes the window: later events do not count. Programs that are running may still count theirs.
    pub fn close(&mut self) -> Result<()> {
        self.gate.open.set(0, 0, 0).context("cannot close the measurement window")
    }

    /// Sets the end of the window: no event counts at `at_ns` (CLOCK_MONOTONIC) or later, however late
    /// wakelat itself gets a CPU. An end set earlier must not have passed yet.
    pub fn end_at(&mut self, at_ns: u64) -> Result<()> {
        self.gate.end_at_ns.set(0, at_ns, 0).context("cannot set the end of the measurement window")
    }
}
