//! Takes the waits that the programs have aggregated.

use anyhow::Result;

use super::{Run, clock::monotonic_ns};
use crate::collect::{AggregatedWaits, Collector, DrainExtent};
use wakelat_core::decode;

impl Run<'_> {
    /// Takes what the kernel has aggregated and the records in the ring buffers until now. Returns when it began.
    pub(super) fn take_all(&mut self, collector: &mut Collector) -> Result<u64> {
        let at_ns = monotonic_ns();
        self.take_aggregated(collector)?;
        self.drain_to(DrainExtent::Until { at_ns }, collector)?;
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
