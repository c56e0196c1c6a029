//! Takes what the programs have aggregated in the kernel, and the rest of the ring buffer with it.

use anyhow::Result;

use super::{Run, clock::monotonic_ns};
use crate::{collect::Collector, status::status};

impl Run<'_> {
    /// Takes what the programs have counted in the kernel since the last call.
    fn take_counted(&mut self, collector: &mut Collector) -> Result<()> {
        collector.take_counted(|class, histogram| self.windows.record_counted(class, histogram))?;
        if let Some(causes) = collector.take_causes() {
            self.view.causes(&causes, &self.names);
        }
        Ok(())
    }

    /// Takes the kernel's histograms and the records in the ring buffer. Returns when it began.
    pub(super) fn take_all(&mut self, collector: &mut Collector) -> Result<u64> {
        let at_ns = monotonic_ns();
        self.take_counted(collector)?;
        self.drain(collector)?;
        Ok(at_ns)
    }

    /// Takes what is left once the programs are detached.
    pub(super) fn drain_remaining(&mut self, collector: &mut Collector, end_at_ns: u64, quiet: bool) -> Result<()> {
        /// Records between two readings of the clock.
        const AT_ONCE: usize = 4_096;
        const NOTICEABLE_NS: u64 = 300_000_000;
        self.take_counted(collector)?;
        let mut reported = quiet;
        while self.drain_up_to(AT_ONCE, collector)? > 0 {
            if !reported && monotonic_ns().saturating_sub(end_at_ns) > NOTICEABLE_NS {
                status("the window has ended; reading the rest of the ring buffer");
                reported = true;
            }
        }
        Ok(())
    }
}
