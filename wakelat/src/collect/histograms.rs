//! Waits that the programs have aggregated, in two halves: they write to one while user space reads the
//! other.

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, PerCpuValues},
};
use wakelat_common::{
    Class,
    group::GroupElement,
    histogram::{Histogram, slot},
};

use super::{Collector, groups::GroupMaps, map::take, running_programs::Quiescent};

/// Waits that the programs have aggregated.
#[derive(Clone, Copy, Debug)]
pub enum AggregatedWaits<'a> {
    /// Waits of a class that ended on one CPU: all of them, or those that the groups had no room for.
    Class(Class, &'a Histogram),
    /// Waits of a group.
    Group(&'a GroupElement),
}

/// The histograms of all CPUs, and the groups.
pub(super) struct Histograms {
    map: PerCpuArray<MapData, Histogram>,
    groups: Option<GroupMaps>,
}

impl Histograms {
    /// Takes the maps out of the object, those of the groups only if the programs group waits.
    pub(super) fn take(ebpf: &mut Ebpf, with_groups: bool, cpus: u32) -> Result<Self> {
        let map = PerCpuArray::try_from(take(ebpf, "HISTOGRAMS")?)?;
        let groups = with_groups.then(|| GroupMaps::take(ebpf, cpus)).transpose()?;
        Ok(Self { map, groups })
    }

    /// Takes and clears the contents of a half that no program writes to any more.
    fn take_half(
        &mut self,
        half: u32,
        _quiet: &Quiescent,
        take: &mut impl FnMut(AggregatedWaits<'_>) -> Result<()>,
    ) -> Result<()> {
        for class in Class::ALL {
            let slot = slot(class, half);
            let per_cpu = self.map.get(&slot, 0).context("cannot read the histograms")?;
            if per_cpu.iter().all(Histogram::is_empty) {
                continue;
            }
            let empty = PerCpuValues::try_from(vec![Histogram::EMPTY; per_cpu.len()])
                .map_err(|error| anyhow!(error).context("cannot clear the histograms"))?;
            self.map.set(slot, empty, 0).context("cannot clear the histograms")?;
            for histogram in per_cpu.iter().filter(|histogram| !histogram.is_empty()) {
                take(AggregatedWaits::Class(class, histogram))?;
            }
        }
        match &mut self.groups {
            Some(groups) => groups.take_half(half, |element| take(AggregatedWaits::Group(element))),
            None => Ok(()),
        }
    }
}

impl Collector {
    /// Passes what was aggregated since the previous call to `take`, as a histogram per class and CPU and as the
    /// elements of groups; nothing if waits are delivered. Programs may run meanwhile: what they aggregate from
    /// now on comes with the next call.
    ///
    /// # Errors
    /// If the kernel refuses to read or write the maps, or `take` fails.
    pub fn take_counted(&mut self, mut take: impl FnMut(AggregatedWaits<'_>) -> Result<()>) -> Result<()> {
        let Some(histograms) = &mut self.histograms else { return Ok(()) };
        let half = self.gate.swap_halves()?;
        let quiet = self.running_programs.wait_for_switches()?;
        histograms.take_half(half, &quiet, &mut take)?;
        match &mut self.causes {
            Some(causes) => causes.take_half(half, &quiet),
            None => Ok(()),
        }
    }
}
