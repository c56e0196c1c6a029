//! Takes the waits that the programs have aggregated.

use anyhow::Result;

use super::{Run, clock::monotonic_ns};
use crate::collect::{AggregatedWaits, Collector};
use wakelat_core::decode;

impl Run<'_> {
    /// Takes the kernel's histograms and the records in the ring buffer. Returns when it began.
    pub(super) fn take_all(&mut self, collector: &mut Collector) -> Result<u64> {
        let at_ns = monotonic_ns();
        self.take_aggregated(collector)?;
        self.drain(collector)?;
        Ok(at_ns)
    }

    /// Takes what the programs have aggregated.
    pub(super) fn take_aggregated(&mut self, collector: &mut Collector) -> Result<()> {
        collector.take_counted(|waits| {
            match waits {
                AggregatedWaits::Class(class, histogram) => self.windows.record_counted(class, histogram),
                AggregatedWaits::Group(element) => {
                    let longest = decode::wait(&element.longest)?;
                    if self.windows.record_element(element, &longest) {
                        self.names.learn_from(&longest, self.by);
                    }
                }
            }
            Ok(())
        })?;
        self.names.resolve_new_cgroups();
        Ok(())
    }
}
