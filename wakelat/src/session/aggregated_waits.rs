//! Takes what the programs have aggregated in the kernel, and the records in the ring buffers with it.

use anyhow::Result;
use wakelat_core::{decode, why::counted::CauseGroups};

use super::{Run, clock::monotonic_ns};
use crate::{
    collect::{AggregatedWaits, Collector, DrainExtent},
    status::status,
};

impl Run<'_> {
    /// Takes what the kernel has aggregated and the records in the ring buffers until `at_ns`, which is now.
    pub(super) fn take_all(&mut self, at_ns: u64, collector: &mut Collector) -> Result<()> {
        self.take_aggregated(collector)?;
        self.drain_to(DrainExtent::Until { at_ns }, collector)?;
        Ok(())
    }

    /// Takes what the programs have aggregated since the last call.
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
        let causes = collector.take_causes();
        if let Some(causes) = causes.as_ref().filter(|_| self.view.shows_causes() != Some(CauseGroups::Names)) {
            causes.groups().for_each(|[id, _]| self.names.note_cgroup(id));
        }
        self.names.resolve_new_cgroups();
        if let Some(causes) = causes {
            self.view.causes(causes, &self.names);
        }
        Ok(())
    }

    /// Passes the waits since the last report to a view that records groups.
    pub(super) fn pass_groups(&mut self) -> Result<()> {
        if self.view.takes_groups() {
            self.view.groups(self.windows.groups(), self.windows.unix_offset_ns(), &self.names)?;
            self.windows.clear_groups();
            self.names.forget_threads();
        }
        Ok(())
    }

    /// Takes what is left once the programs are detached.
    pub(super) fn drain_remaining(&mut self, collector: &mut Collector, end_at_ns: u64, quiet: bool) -> Result<()> {
        /// Records between two readings of the clock.
        const AT_ONCE: usize = 4_096;
        const NOTICEABLE_NS: u64 = 300_000_000;
        self.take_aggregated(collector)?;
        let mut reported = quiet;
        while self.drain_to(DrainExtent::Rest { limit: AT_ONCE }, collector)? > 0 {
            if !reported && monotonic_ns().saturating_sub(end_at_ns) > NOTICEABLE_NS {
                status("the window has ended; reading the rest of the ring buffer");
                reported = true;
            }
        }
        Ok(())
    }
}
