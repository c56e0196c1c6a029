//! Waits until the runs of the programs that may not have seen a change of their settings have ended.
//!
//! An RCU grace period shows it, but on a busy machine it can take seconds: the kernel's grace-period thread has an ordinary
//! priority (`rcutree.kthread_prio`) and waits for a CPU like any other task. A CPU that is so busy switches often, and then
//! the program on `sched_switch` itself shows it: it counts each run at its beginning, and the runs on a CPU follow one
//! another. So the count is read after the change, and once it is two more, the run that may have been under way has ended:
//!
//! ```text
//!  user space    change    count is n                                         count is n + 2
//!  program       run n, or the beginning of run n + 1, whose     run n + 1     run n + 2
//!                count is not visible yet: may see the old         ends          begins
//! ```
//!
//! Run n + 2 sees the change: its count of run n + 1 was not visible when the count was read, which was after the change, and
//! there is a full barrier between two runs (`__schedule()`, kernel/sched/core.c).
//!
//! A CPU that has never been online has no runs. If its count is still 0 when it is looked at later, no run was under way: a
//! run reads the settings after it has counted itself.

use std::{rc::Rc, thread::sleep, time::Duration};

use anyhow::Result;
use wakelat_common::{cpu_words::CpuWords, program_runs::ProgramKind};
use wakelat_kernel::features::is_preempt_rt;

use super::{mapped_array::MappedArray, rcu_grace_period::Barrier};

/// How long to wait for switches before each look at the counts. A busy CPU switches within some milliseconds. One that is
/// idle, or has a single task, need not; grace periods are short if all CPUs are like that.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(3), Duration::from_millis(6), Duration::from_millis(10)];

/// Runs of the program on `sched_switch` after which the one that was under way has ended.
const ENOUGH: u64 = 2;

/// Proof that every run of a program that was under way at a certain time has ended.
pub(super) struct Quiescent(());

/// What shows that runs have ended.
pub(super) struct RunningPrograms {
    barrier: Barrier,
    cpu_words: Rc<MappedArray<CpuWords>>,
    /// Whether a program can be preempted: kernels with PREEMPT_RT run the programs of some tracepoints that way.
    preemptible: bool,
}

impl RunningPrograms {
    /// `cpu_words`: what the programs keep of each CPU.
    ///
    /// # Errors
    /// If the kernel refuses a map.
    pub(super) fn new(cpu_words: &Rc<MappedArray<CpuWords>>) -> Result<Self> {
        Ok(Self { barrier: Barrier::new()?, cpu_words: Rc::clone(cpu_words), preemptible: is_preempt_rt() })
    }

    /// Waits for the programs on `sched_switch`, which the kernel never preempts. They stay attached.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub(super) fn wait_for_switches(&self) -> Result<Quiescent> {
        let before: Vec<u64> = self.switches().collect();
        for length in LOOKS {
            sleep(length);
            if have_ended(&before, self.switches()) {
                return Ok(Quiescent(()));
            }
        }
        self.wait_for_grace_period()
    }

    /// Waits for all programs, while they stay attached. A CPU that switches runs no other program: the kernel disables
    /// preemption around the programs of a tracepoint (include/linux/tracepoint.h).
    ///
    /// # Errors
    /// As for [`Self::wait_for_switches`].
    pub(super) fn wait(&self) -> Result<Quiescent> {
        if self.preemptible { self.wait_for_grace_period() } else { self.wait_for_switches() }
    }

    /// Waits for all programs, whether they are attached or not.
    ///
    /// # Errors
    /// As for [`Self::wait_for_switches`].
    pub(super) fn wait_for_grace_period(&self) -> Result<Quiescent> {
        self.barrier.wait()?;
        Ok(Quiescent(()))
    }

    /// The runs of the program on `sched_switch` that have begun, by CPU.
    fn switches(&self) -> impl Iterator<Item = u64> {
        self.cpu_words.values().map(|words| words.runs.kinds[ProgramKind::Switch as usize].count)
    }
}

/// Whether the runs that were under way when the counts were `before` have ended by the time they are `now`.
fn have_ended(before: &[u64], now: impl Iterator<Item = u64>) -> bool {
    before.iter().zip(now).all(|(before, now)| now == 0 || now.wrapping_sub(*before) >= ENOUGH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_under_way_has_ended_when_the_second_after_it_begins() {
        let have_ended = |now: [u64; 2]| have_ended(&[7, 0], now.into_iter());
        assert!(!have_ended([7, 0]));
        assert!(!have_ended([8, 2]));
        assert!(!have_ended([9, 1]));
        assert!(have_ended([9, 2]));
        assert!(have_ended([100, 100]));
        assert!(have_ended([9, 0]), "a CPU without runs");
    }
}
