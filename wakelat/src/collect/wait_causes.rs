//! The causes of waits that the programs have counted, in two halves like the histograms.

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, PerCpuValues},
};
use wakelat_common::cause_sums::{GroupSums, GroupSumsKey, PairKey, PairSum, direct_groups, direct_pairs};
use wakelat_core::why::counted::{CauseTotals, summary::CountedCause};
use wakelat_kernel::btf::CauseClocks;

use super::{
    Collector, direct_table::DirectTableReader, element_batch::BatchedMap, map::take, running_programs::Quiescent,
};

/// Elements that one system call returns. Those of groups have some 3 KiB each.
const GROUP_BATCH: usize = 64;
const PAIR_BATCH: usize = 1024;

/// What fills the room for keys that no element has been copied to.
const NO_GROUP: GroupSumsKey = GroupSumsKey { cpu: 0, half: 0, waiting: [0; 2] };
const NO_PAIR: PairKey = PairKey::new(0, 0, 0, [0; 2], [0; 2]);

/// The sums of all CPUs.
pub(super) struct CauseTables {
    direct_groups: DirectTableReader<GroupSumsKey, GroupSums>,
    direct_pairs: DirectTableReader<PairKey, PairSum>,
    groups: BatchedMap<GroupSumsKey, GroupSums>,
    pairs: BatchedMap<PairKey, PairSum>,
    others: PerCpuArray<MapData, GroupSums>,
    /// What was taken from the maps.
    taken: CauseTotals,
}

impl CauseTables {
    pub(super) fn take(ebpf: &mut Ebpf, cpus: u32) -> Result<Self> {
        Ok(Self {
            direct_groups: DirectTableReader::take(ebpf, "DIRECT_GROUPS", cpus, direct_groups(cpus))?,
            direct_pairs: DirectTableReader::take(ebpf, "DIRECT_PAIRS", cpus, direct_pairs(cpus))?,
            groups: BatchedMap::take(ebpf, "GROUP_SUMS", GROUP_BATCH, NO_GROUP, GroupSums::EMPTY)?,
            pairs: BatchedMap::take(ebpf, "PAIR_SUMS", PAIR_BATCH, NO_PAIR, PairSum::EMPTY)?,
            others: PerCpuArray::try_from(take(ebpf, "OTHER_GROUPS")?)?,
            taken: CauseTotals::default(),
        })
    }

    /// Takes the contents of a half that no program writes to any more out of the maps.
    pub(super) fn take_half(&mut self, half: u32, _quiet: &Quiescent) -> Result<()> {
        const FAILED: &str = "cannot read the causes of waits";
        let taken = &mut self.taken;
        self.direct_groups.take_half(half, |place| {
            taken.add_group(place.key.waiting, &place.value);
            Ok(())
        })?;
        self.direct_pairs.take_half(half, |place| {
            taken.add_pair(&place.key, &place.value);
            Ok(())
        })?;
        let take_group = |key: &GroupSumsKey, sums: &_| {
            taken.add_group(key.waiting, sums);
            Ok(())
        };
        self.groups.take_wanted(|key| key.half == half, take_group).context(FAILED)?;
        let take_pair = |key: &_, sum: &_| {
            taken.add_pair(key, sum);
            Ok(())
        };
        self.pairs.take_wanted(|key| key.half() == half, take_pair).context(FAILED)?;
        let others = self.others.get(&half, 0).context(FAILED)?;
        if others.iter().any(|sums| sums.count > 0) {
            others.iter().for_each(|sums| taken.add_other(sums));
            let empty = PerCpuValues::try_from(vec![GroupSums::EMPTY; others.len()])
                .map_err(|error| anyhow!(error).context(FAILED))?;
            self.others.set(half, empty, 0).context(FAILED)?;
        }
        Ok(())
    }
}

impl Collector {
    /// The causes that [`Self::take_counted`] has found since the last call; `None` if the programs do not count them.
    pub fn take_causes(&mut self) -> Option<CauseTotals> {
        self.causes.as_mut().map(|causes| std::mem::take(&mut causes.taken))
    }

    /// The causes that this kernel does not count, so that their time is part of others.
    pub fn causes_not_separated(&self) -> Vec<CountedCause> {
        let CauseClocks { interrupts, stolen, throttling } = self.cause_clocks;
        let counted = [
            (interrupts, CountedCause::Interrupts),
            (stolen, CountedCause::Stolen),
            (throttling, CountedCause::Throttled),
        ];
        counted.into_iter().filter(|(is_counted, _)| !is_counted).map(|(_, cause)| cause).collect()
    }
}
