//! What runs on a CPU between two switches.

use super::{DividedCause, GroupWords, NO_RANK, cpu_totals::CpuTotals};
use crate::branch_free::{choose, is_less};

/// What runs on a CPU from one switch to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RunnerSlice {
    /// What the CPU had done when it began.
    pub(super) totals: CpuTotals,
    pub(super) runner: Runner,
}

/// What has a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Runner {
    /// The group of the task.
    pub(super) group: GroupWords,
    /// Its [`rank`](super::rank); [`NO_RANK`] for the idle task and if it is unknown.
    pub(super) rank: u32,
    /// The [`DividedCause`] for a task that is not outranked.
    pub(super) cause: u32,
}

impl Runner {
    /// The idle task.
    pub const IDLE: Self = Self { group: [0; 2], rank: NO_RANK, cause: DividedCause::Idle as u32 };

    /// A task.
    #[inline(always)]
    pub const fn task(group: GroupWords, rank: u32, is_kernel_thread: bool) -> Self {
        let cause = if is_kernel_thread { DividedCause::KernelThread } else { DividedCause::Task };
        Self { group, rank, cause: cause as u32 }
    }

    /// Why a task of this rank waits while this runs: the number of a [`DividedCause`]. `zero`: see
    /// [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub(super) const fn cause(&self, rank: u32, zero: u64) -> u32 {
        choose(is_less(self.rank as u64, rank as u64, zero), DividedCause::Higher as u64, self.cause as u64) as u32
    }
}
