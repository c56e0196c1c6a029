//! What the programs keep of a CPU and use in every run: one value, so that a run has one lookup for all of it.

use crate::{
    counter::{Counters, SUBJECTS},
    program_runs::CpuProgramRuns,
    queue_clock::QueueState,
    record_slots::SlotRing,
};

/// The words of a CPU. No program of another CPU writes them; user space writes only a part of [`Self::slots`] while
/// programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CpuWords {
    /// The runs of the programs.
    pub runs: CpuProgramRuns,
    /// What the program on `sched_switch` keeps, if the run queue's clock measures the waits.
    pub queue: QueueState,
    /// Indexed by [`Subject`](crate::counter::Subject).
    pub counters: [Counters; SUBJECTS as usize],
    /// Its ring of slots, if the programs pass records.
    pub slots: SlotRing,
}

const _: () = assert!(size_of::<CpuWords>().is_multiple_of(64));
