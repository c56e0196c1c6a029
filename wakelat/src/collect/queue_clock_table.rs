//! What the program keeps if the run queues' own clock measures the waits: a slot per thread, and counters.

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, PerCpuValues},
};
use wakelat_common::queue_clock::{MAX_SLOTS, MIN_SLOTS, QueueSlot, QueueState, SwitchCounter};
use wakelat_core::report::SwitchInTerms;

use super::{map::take, mapped_array::MappedArray};

/// The maps of the program.
pub(super) struct QueueTable {
    slots: MappedArray<QueueSlot>,
    state: PerCpuArray<MapData, QueueState>,
}

/// The number of slots, a power of two.
#[derive(Clone, Copy)]
pub(super) struct QueueTableSize {
    /// Its logarithm.
    pub bits: u32,
}

impl QueueTableSize {
    /// At least [`MIN_SLOTS`], in 4 MiB; more only for more tasks.
    pub(super) fn of(max_tasks: u32) -> Self {
        Self { bits: max_tasks.clamp(MIN_SLOTS, MAX_SLOTS).ilog2() }
    }

    pub(super) fn slots(self) -> u32 {
        1 << self.bits
    }
}

impl QueueTable {
    /// Takes the maps, with slots of this number, from the object.
    pub(super) fn take(ebpf: &mut Ebpf, size: QueueTableSize) -> Result<Self> {
        Ok(Self {
            slots: MappedArray::take(ebpf, "QUEUE_SLOTS", size.slots() as usize)?,
            state: PerCpuArray::try_from(take(ebpf, "QUEUE_STATE")?)?,
        })
    }

    /// Forgets all threads, and the kernel's counts of switches, while no program runs: what happens from now on
    /// until the programs run again is not measured.
    ///
    /// # Errors
    /// If the kernel refuses to write the map.
    pub(super) fn clear(&mut self) -> Result<()> {
        const FAILED: &str = "cannot reset the switch counts of each CPU";
        self.slots.take_each(|_| {});
        let per_cpu = self.state.get(&0, 0).context(FAILED)?;
        let reset: Vec<QueueState> = per_cpu.iter().map(|state| QueueState { nr_switches: 0, ..*state }).collect();
        let reset = PerCpuValues::try_from(reset).map_err(|error| anyhow!(error).context(FAILED))?;
        self.state.set(0, reset, 0).context(FAILED)
    }

    /// The state of each CPU at an instant of its own at which no program was changing it.
    fn consistent_states(&self) -> Result<Vec<QueueState>> {
        /// More than enough: a run takes less time than reading all CPUs.
        const MAX_READS: usize = 1_000;
        let read = || self.state.get(&0, 0).context("cannot read the counters");
        let mut states: Vec<QueueState> = read()?.iter().copied().collect();
        for _ in 0..MAX_READS {
            if states.iter().all(QueueState::is_consistent) {
                break;
            }
            let later = read()?;
            let torn = states.iter_mut().zip(later.iter()).filter(|(state, _)| !state.is_consistent());
            torn.for_each(|(state, later)| *state = *later);
        }
        Ok(states)
    }

    /// The counters of all CPUs.
    pub(super) fn terms(&self) -> Result<SwitchInTerms> {
        let per_cpu = self.consistent_states()?;
        let sum = |counter| per_cpu.iter().map(|state: &QueueState| state[counter]).sum();
        Ok(SwitchInTerms {
            seen: sum(SwitchCounter::Seen),
            measured: sum(SwitchCounter::Measured),
            filtered: sum(SwitchCounter::Filtered),
            below_threshold: sum(SwitchCounter::BelowThreshold),
            other_class: sum(SwitchCounter::OtherClass),
            not_sampled: sum(SwitchCounter::NotSampled),
            ring_buffer_full: sum(SwitchCounter::RingBufferFull),
            invalid: sum(SwitchCounter::Invalid),
            unknown_start: sum(SwitchCounter::UnknownStart),
            after_unseen: sum(SwitchCounter::AfterUnseen),
            not_timed: sum(SwitchCounter::NotTimed),
            unknown_ns: sum(SwitchCounter::UnknownNs),
            unseen: sum(SwitchCounter::UnseenWaits),
            unseen_ns: sum(SwitchCounter::UnseenWaitsNs),
            to_idle: sum(SwitchCounter::ToIdle),
            unseen_switches: sum(SwitchCounter::UnseenSwitches),
            still_waiting: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_slots_is_a_power_of_two_between_its_bounds() {
        for (max_tasks, bits) in [(2, 18), (18_432, 18), (300_000, 18), (1 << 20, 20), (u32::MAX, 22)] {
            assert_eq!(QueueTableSize::of(max_tasks).bits, bits, "{max_tasks}");
        }
    }
}
