//! What the program keeps if the run queues' own clock measures the waits: a slot per thread, and counters.

use std::{mem::offset_of, rc::Rc};

use wakelat_common::{
    cpu_words::CpuWords,
    queue_clock::{MAX_SLOTS, MIN_SLOTS, QueueState, SwitchCounter},
};
use wakelat_core::report::SwitchInTerms;

use super::mapped_array::MappedArray;

/// What user space reads of the program.
pub(super) struct QueueTable {
    words: Rc<MappedArray<CpuWords>>,
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
    /// In the words of all CPUs.
    pub(super) fn of(words: &Rc<MappedArray<CpuWords>>) -> Self {
        Self { words: Rc::clone(words) }
    }

    /// Forgets the kernel's counts of switches while no program runs: what happens from now on until the programs run
    /// again is not measured. The slots stay: the next switch of each thread shows which waits it had meanwhile.
    pub(super) fn begin_pause(&self) {
        self.words.set_word_of_each(offset_of!(CpuWords, queue.nr_switches), 0);
    }

    fn states(&self) -> impl Iterator<Item = QueueState> {
        self.words.values().map(|words| words.queue)
    }

    /// The state of each CPU at an instant of its own at which no program was changing it.
    fn consistent_states(&self) -> Vec<QueueState> {
        /// More than enough: a run takes less time than reading all CPUs.
        const MAX_READS: usize = 1_000;
        let mut states: Vec<QueueState> = self.states().collect();
        for _ in 0..MAX_READS {
            if states.iter().all(QueueState::is_consistent) {
                break;
            }
            let torn = states.iter_mut().zip(self.states()).filter(|(state, _)| !state.is_consistent());
            torn.for_each(|(state, later)| *state = later);
        }
        states
    }

    /// The counters of all CPUs.
    pub(super) fn terms(&self) -> SwitchInTerms {
        let per_cpu = self.consistent_states();
        let sum = |counter| per_cpu.iter().map(|state: &QueueState| state[counter]).sum();
        SwitchInTerms {
            seen: sum(SwitchCounter::Seen),
            measured: sum(SwitchCounter::Measured),
            filtered: sum(SwitchCounter::Filtered),
            below_threshold: sum(SwitchCounter::BelowThreshold),
            other_class: sum(SwitchCounter::OtherClass),
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
        }
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
