//! Reads the counters of the programs.

use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::{Context as _, Result};
use aya::Ebpf;
use wakelat_common::{Counter, Counters, counter::SUBJECTS, cpu_state::CpuState};

use super::{Collector, CounterTotals, attach::LoadedProgram, queue_clock_table::QueueTable};
use wakelat_kernel::{features::counts_missed_runs, release::Release};

/// The counters of wakeups and of preemptions.
type BySubject = [Counters; SUBJECTS as usize];

impl Collector {
    /// The counters, summed over all CPUs. Exact once the programs are detached.
    pub fn totals(&self) -> Result<CounterTotals> {
        let [wakeups, preemptions] = self.counters();
        Ok(CounterTotals {
            wakeups,
            preemptions,
            events_lost: self.events_lost()?,
            switch_ins: self.queue_table.as_ref().map(QueueTable::terms),
        })
    }

    /// The counters while the programs run, after `take` has taken what they have counted and passed on. A wait that is
    /// in another counter, or that `take` took, is also in `seen`.
    ///
    /// # Errors
    /// If the kernel refuses to read the map, or `take` fails.
    pub fn totals_after(&mut self, take: impl FnOnce(&mut Self) -> Result<()>) -> Result<CounterTotals> {
        take(self)?;
        // With the counters of switch-ins: all of one CPU are read at one instant, so no switch-in is in some of its
        // terms only.
        let totals = self.totals()?;
        let [wakeups, preemptions] = settled(|| self.counters());
        Ok(CounterTotals { wakeups, preemptions, ..totals })
    }

    /// The counters of each [`Subject`](wakelat_common::counter::Subject), summed over all CPUs.
    fn counters(&self) -> BySubject {
        let mut sums = [Counters::default(); SUBJECTS as usize];
        for words in self.cpu_words.values() {
            for (sum, counters) in sums.iter_mut().zip(words.counters) {
                sum.0.iter_mut().zip(counters.0).for_each(|(sum, count)| *sum += count);
            }
        }
        sums
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

/// The counters of both subjects while the programs count: all but `seen` by one reading and `seen` by the next, so
/// that `seen` has every wait that is in another counter.
///
/// `read` reads one counter after the other. A wakeup that the filter rejects in between would be seen without being
/// rejected, as if its task still waited: reads until none was seen in between, or until that is unlikely to happen.
fn settled(mut read: impl FnMut() -> BySubject) -> BySubject {
    /// On two CPUs, one reading in a hundred or fewer meets a wakeup. On many busy CPUs all may, and then a few wakeups
    /// count as waiting.
    const MAX_READINGS: usize = 16;
    let seen = |counters: &BySubject| counters.map(|of| of[Counter::Seen]);
    let mut last = read();
    for reading in 1..=MAX_READINGS {
        let next = read();
        if seen(&next) == seen(&last) || reading == MAX_READINGS {
            for (last, next) in last.iter_mut().zip(next) {
                last.0[Counter::Seen as usize] = next[Counter::Seen];
            }
            break;
        }
        last = next;
    }
    last
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

    /// The counters of a CPU on which the filter rejects every wakeup. During each reading for which `busy` is true, one
    /// wakeup comes after its `seen` was read and before the rest, and one after the rest.
    fn read_while_busy(busy: impl Fn(usize) -> bool) -> BySubject {
        let (mut wakeups, mut reading) = (1_000, 0);
        settled(|| {
            let mut counters = Counters::default();
            counters.0[Counter::Seen as usize] = wakeups;
            wakeups += u64::from(busy(reading));
            counters.0[Counter::Filtered as usize] = wakeups;
            wakeups += u64::from(busy(reading));
            reading += 1;
            [counters, Counters::default()]
        })
    }

    fn pending([wakeups, _]: BySubject) -> i64 {
        wakeups[Counter::Seen].cast_signed() - wakeups[Counter::Filtered].cast_signed()
    }

    #[test]
    fn a_wakeup_that_is_rejected_while_the_counters_are_read_is_not_pending() {
        assert_eq!(pending(read_while_busy(|_| false)), 0);
        for quiet in 1..14 {
            assert_eq!(pending(read_while_busy(|reading| reading < quiet)), 0, "{quiet}");
            assert_eq!(pending(read_while_busy(|reading| reading % 7 != quiet % 7)), 0, "{quiet}");
        }
    }

    #[test]
    fn every_wait_in_another_counter_is_seen_even_if_wakeups_come_in_every_reading() {
        assert_eq!(pending(read_while_busy(|_| true)), 1);
    }

    #[test]
    fn misses_are_unknown_if_the_kernel_does_not_count_them() {
        assert_eq!(recursion_misses("prog_type:\t26\nrecursion_misses:\t12\nverified_insns:\t9\n"), Some(12));
        assert_eq!(recursion_misses("prog_type:\t26\nprog_id:\t1\n"), None);
    }
}
