//! The measurement window as the programs see it: whether it is open, and when it ends.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};
use wakelat_common::window::WindowWords;

use super::{Collector, map::take};

/// Global variables that the programs read at each event.
pub(super) struct WindowGate {
    open: Array<MapData, u32>,
    shared: Array<MapData, WindowWords>,
    /// The value in `shared`.
    words: WindowWords,
}

impl WindowGate {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let (open, shared) = (take(ebpf, ".data.open")?, take(ebpf, ".data.window")?);
        Ok(Self { open: Array::try_from(open)?, shared: Array::try_from(shared)?, words: WindowWords::ENDLESS })
    }

    /// Switches the programs to the other half of the histograms and groups. Returns the half that they wrote to;
    /// those that are running may still write to it.
    pub(super) fn swap_halves(&mut self) -> Result<u32> {
        let written = self.words.half;
        self.words.half = 1 - written;
        self.shared.set(0, self.words, 0).context("cannot switch the histogram buffers")?;
        Ok(written as u32)
    }
}

impl Collector {
    /// Begins the next period of measuring under an overhead limit, at `at_ns` (CLOCK_MONOTONIC): the run queue's clock
    /// measures waits that begin and end in one period.
    pub fn begin_period(&mut self, at_ns: u64) -> Result<()> {
        self.gate.words.period += 1;
        self.gate.words.period_began_at_ns = at_ns;
        self.gate.shared.set(0, self.gate.words, 0).context("cannot begin a period of measuring")
    }

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
        self.gate.words.end_at_ns = at_ns;
        self.gate.shared.set(0, self.gate.words, 0).context("cannot set the end of the measurement window")
    }
}
