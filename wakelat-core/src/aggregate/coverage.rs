//! The accounting identity of one window, from the kernel's counters before and after it.

use wakelat_common::{Counter, Counters};

use crate::report::CoverageTerms;

/// The counters of wakeups or of preemptions at one instant, since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverageSnapshot {
    /// The kernel's counters, summed over all CPUs. `seen` must be read after the others: then every
    /// wait in one of them is in `seen` too.
    pub counters: Counters,
    /// Samples that user space has added to its groups.
    pub received: u64,
    /// Waits that were pending when a pause began.
    pub paused: u64,
}

impl CoverageSnapshot {
    fn terms(&self) -> CoverageTerms {
        let counters = &self.counters;
        CoverageTerms {
            seen: counters[Counter::Seen],
            carried: 0,
            measured: self.received,
            already_running: counters[Counter::AlreadyRunning],
            already_queued: counters[Counter::AlreadyQueued],
            filtered: counters[Counter::Filtered],
            below_threshold: counters[Counter::BelowThreshold],
            not_sampled: counters[Counter::NotSampled],
            task_table_full: counters[Counter::TaskTableFull],
            ring_buffer_full: counters[Counter::RingBufferFull],
            invalid: counters[Counter::Invalid],
            missed_switch: counters[Counter::MissedSwitch],
            still_waiting: self.paused,
            paused: self.paused,
        }
    }

    /// Waits whose end is not counted yet: still pending, or in the ring buffer.
    fn still_waiting(&self) -> u64 {
        u64::try_from(self.terms().unaccounted()).unwrap_or(0)
    }
}

/// The terms of the window between two snapshots. Waits that were open when it began are carried into it
/// and count as seen in it.
///
/// `found_waiting` is the number of tasks found waiting when the run ended. Between two windows of a
/// run, it is none, because the state of all tasks cannot be read at one instant: then all open waits
/// count as still waiting, and are carried into the next window. Waits that a pause ended are added.
pub fn terms(before: &CoverageSnapshot, after: &CoverageSnapshot, found_waiting: Option<u64>) -> CoverageTerms {
    let (old, new) = (before.terms(), after.terms());
    let carried = before.still_waiting();
    CoverageTerms {
        seen: new.seen - old.seen + carried,
        carried,
        measured: new.measured - old.measured,
        already_running: new.already_running - old.already_running,
        already_queued: new.already_queued - old.already_queued,
        filtered: new.filtered - old.filtered,
        below_threshold: new.below_threshold - old.below_threshold,
        not_sampled: new.not_sampled - old.not_sampled,
        task_table_full: new.task_table_full - old.task_table_full,
        ring_buffer_full: new.ring_buffer_full - old.ring_buffer_full,
        invalid: new.invalid - old.invalid,
        missed_switch: new.missed_switch - old.missed_switch,
        still_waiting: found_waiting.unwrap_or_else(|| after.still_waiting()) + new.paused - old.paused,
        paused: new.paused - old.paused,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot(seen: u64, already_running: u64, received: u64) -> CoverageSnapshot {
        let mut counters = Counters::default();
        counters.0[Counter::Seen as usize] = seen;
        counters.0[Counter::AlreadyRunning as usize] = already_running;
        CoverageSnapshot { counters, received, paused: 0 }
    }

    #[test]
    fn t20_windows_add_up_to_the_run() {
        let snapshots = [snapshot(0, 0, 0), snapshot(10, 3, 5), snapshot(17, 4, 13), snapshot(30, 9, 21)];
        let windows: Vec<CoverageTerms> = snapshots.windows(2).map(|pair| terms(&pair[0], &pair[1], None)).collect();
        let run = terms(&snapshots[0], &snapshots[3], None);
        let sum = |term: fn(&CoverageTerms) -> u64| windows.iter().map(term).sum::<u64>();
        assert_eq!(sum(|terms| terms.measured), run.measured);
        assert_eq!(sum(|terms| terms.already_running), run.already_running);
        assert_eq!(sum(|terms| terms.seen - terms.carried), run.seen);
        assert_eq!(windows.last().unwrap().still_waiting, run.still_waiting);
    }

    #[test]
    fn a_wait_that_is_not_found_at_the_end_is_unaccounted() {
        let terms = terms(&snapshot(0, 0, 0), &snapshot(10, 0, 8), Some(1));
        assert_eq!(terms.unaccounted(), 1);
    }

    #[test]
    fn a_wait_that_a_pause_ended_is_still_waiting_only_in_the_window_of_the_pause() {
        let paused = CoverageSnapshot { paused: 2, ..snapshot(10, 0, 7) };
        let [first, second] = [
            (snapshot(0, 0, 0), paused, None),
            (paused, CoverageSnapshot { paused: 2, ..snapshot(15, 0, 13) }, Some(0)),
        ]
        .map(|(before, after, found)| terms(&before, &after, found));
        assert_eq!((first.still_waiting, first.paused, first.unaccounted()), (3, 2, 0));
        assert_eq!((second.carried, second.still_waiting, second.paused, second.unaccounted()), (1, 0, 0, 0));
    }

    proptest! {
        /// Between two windows the identity holds by definition; the last one reveals the waits that are counted
        /// nowhere, in whichever window that happened.
        #[test]
        fn the_last_window_reveals_every_wait_that_is_counted_nowhere(
            steps in prop::collection::vec((0u64..50, 0u64..50, 0u64..50), 1..20), lost_in in 0usize..20, lost in 0u64..5,
        ) {
            let (mut before, mut running, mut received, mut nowhere) = (CoverageSnapshot::default(), 0, 0, 0);
            let last = steps.len() - 1;
            for (index, (more_running, more_received, open)) in steps.into_iter().enumerate() {
                running += more_running;
                received += more_received;
                if index == lost_in.min(last) {
                    nowhere = lost;
                }
                let after = snapshot((running + received + open + nowhere).max(before.counters[Counter::Seen]), running, received);
                let waiting = after.still_waiting();
                let window = terms(&before, &after, None);
                prop_assert_eq!((window.unaccounted(), window.still_waiting), (0, waiting));
                if index == last {
                    let window = terms(&before, &after, Some(waiting - nowhere));
                    prop_assert_eq!(window.unaccounted(), i64::try_from(nowhere).unwrap().into());
                }
                before = after;
            }
        }
    }
}
