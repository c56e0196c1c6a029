//! Reads the counters of the programs.

use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::{Context as _, Result};
use aya::Ebpf;
use wakelat_common::{Counter, Counters, counter::Subject, cpu_state::CpuState};

use super::{Collector, CounterTotals, attach::LoadedProgram, queue_clock_table::QueueTable};
use wakelat_kernel::{features::counts_missed_runs, release::Release};

impl Collector {
    /// The counters, summed over all CPUs. Exact once the programs are detached.
    pub fn totals(&self) -> Result<CounterTotals> {
        Ok(CounterTotals {
            wakeups: self.sum(Subject::Wakeups),
            preemptions: self.sum(Subject::Preemptions),
            events_lost: self.events_lost()?,
            switch_ins: self.queue_table.as_ref().map(QueueTable::terms),
        })
    }

    /// The counters while the programs run. Calls `between` after reading all counters, and then reads `seen`
    /// again: a wait that is in another counter, or that `between` takes from the ring buffer, is also in
    /// `seen`.
    ///
    /// # Errors
    /// If the kernel refuses to read the map, or `between` fails.
    pub fn totals_around(&mut self, between: impl FnOnce(&mut Self) -> Result<()>) -> Result<CounterTotals> {
        let mut totals = self.totals()?;
        between(self)?;
        let now = self.totals()?;
        totals.wakeups.0[Counter::Seen as usize] = now.wakeups[Counter::Seen];
        totals.preemptions.0[Counter::Seen as usize] = now.preemptions[Counter::Seen];
        // Those of each CPU are read at one instant, so no switch-in is in some of its terms only.
        totals.switch_ins = now.switch_ins;
        Ok(totals)
    }

    fn sum(&self, subject: Subject) -> Counters {
        let mut sum = Counters::default();
        for words in self.cpu_words.values() {
            for (sum, count) in sum.0.iter_mut().zip(words.counters[subject as usize].0) {
                *sum += count;
            }
        }
        sum
    }

    fn events_lost(&self) -> Result<u64> {
        let Some(states) = &self.cpu_states else { return Ok(0) };
        Ok(states.get(&0, 0).context("cannot read the counters")?.iter().map(|state: &CpuState| state.lost).sum())
    }

    /// Events for which the kernel skipped a program because one was active on that CPU; `None` if the kernel
    /// does not count them. From `recursion_misses` in /proc/self/fdinfo.
    ///
    /// # Errors
    /// If /proc/self/fdinfo cannot be read.
    pub fn missed(&self) -> Result<Option<u64>> {
        missed(&self.ebpf, &self.programs)
    }
}

/// Sums `recursion_misses` over `programs`: see [`Collector::missed`].
pub(super) fn missed(ebpf: &Ebpf, programs: &[LoadedProgram]) -> Result<Option<u64>> {
    let mut missed = None;
    let release = Release::running();
    for loaded in programs {
        let Some(program) = loaded.program(ebpf) else { continue };
        let fd = program.fd()?.as_fd().as_raw_fd();
        let path = format!("/proc/self/fdinfo/{fd}");
        let info = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        // Also where the kernel shows a count that stays 0.
        if !counts_missed_runs(&release, loaded.is_classic()) {
            continue;
        }
        if let Some(misses) = recursion_misses(&info) {
            *missed.get_or_insert(0) += misses;
        }
    }
    Ok(missed)
}

fn recursion_misses(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_unknown_if_the_kernel_does_not_count_them() {
        assert_eq!(recursion_misses("prog_type:\t26\nrecursion_misses:\t12\nverified_insns:\t9\n"), Some(12));
        assert_eq!(recursion_misses("prog_type:\t26\nprog_id:\t1\n"), None);
    }
}
