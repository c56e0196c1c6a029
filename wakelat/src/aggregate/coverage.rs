//! The accounting identity of one window, from what the kernel counted before and after it.

use wakelat_common::{Counter, Counters};

use crate::report::Terms;

/// One subject's account at one instant, since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The kernel's counters, all CPUs together. `seen` must have been read after the others: then no wait is in one of
    /// them without being in `seen`.
    pub counters: Counters,
    /// Samples that user space has counted in its groups.
    pub received: u64,
    /// Waits that were going on when a rest began.
    pub rested: u64,
}

impl Account {
    fn terms(&self) -> Terms {
        let counters = &self.counters;
        Terms {
            seen: counters[Counter::Seen],
            carried: 0,
            delivered: self.received,
            woken_running: counters[Counter::WokenRunning],
            woken_waiting: counters[Counter::WokenWaiting],
            filtered: counters[Counter::Filtered],
            below_threshold: counters[Counter::BelowThreshold],
            not_watched: counters[Counter::NotWatched],
            start_map_full: counters[Counter::StartMapFull],
            ring_full: counters[Counter::RingFull],
            discarded: counters[Counter::Discarded],
            stale: counters[Counter::Stale],
            censored: self.rested,
            rested: self.rested,
        }
    }

    /// Waits whose end is not counted yet: still going on, or in the ring buffer.
    fn open(&self) -> u64 {
        u64::try_from(self.terms().unaccounted()).unwrap_or(0)
    }
}

/// The terms of the window between two accounts. What was open when it began is carried into it and counts as seen in
/// it.
///
/// `censored` is the number of tasks found waiting when the run ended. Between two windows of a run nobody can look at
/// all tasks at once: without it, all that is open counts as censored, and is carried into the next window. Waits that a rest
/// ended join them.
pub fn terms(before: &Account, after: &Account, censored: Option<u64>) -> Terms {
    let (old, new) = (before.terms(), after.terms());
    let carried = before.open();
    Terms {
        seen: new.seen - old.seen + carried,
        carried,
        delivered: new.delivered - old.delivered,
        woken_running: new.woken_running - old.woken_running,
        woken_waiting: new.woken_waiting - old.woken_waiting,
        filtered: new.filtered - old.filtered,
        below_threshold: new.below_threshold - old.below_threshold,
        not_watched: new.not_watched - old.not_watched,
        start_map_full: new.start_map_full - old.start_map_full,
        ring_full: new.ring_full - old.ring_full,
        discarded: new.discarded - old.discarded,
        stale: new.stale - old.stale,
        censored: censored.unwrap_or_else(|| after.open()) + new.rested - old.rested,
        rested: new.rested - old.rested,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(seen: u64, woken_running: u64, received: u64) -> Account {
        let mut counters = Counters::default();
        counters.0[Counter::Seen as usize] = seen;
        counters.0[Counter::WokenRunning as usize] = woken_running;
        Account { counters, received, rested: 0 }
    }

    #[test]
    fn t20_windows_add_up_to_the_run() {
        let cuts = [account(0, 0, 0), account(10, 3, 5), account(17, 4, 13), account(30, 9, 21)];
        let windows: Vec<Terms> = cuts.windows(2).map(|cut| terms(&cut[0], &cut[1], None)).collect();
        let run = terms(&cuts[0], &cuts[3], None);
        let sum = |term: fn(&Terms) -> u64| windows.iter().map(term).sum::<u64>();
        assert_eq!(sum(|terms| terms.delivered), run.delivered);
        assert_eq!(sum(|terms| terms.woken_running), run.woken_running);
        assert_eq!(sum(|terms| terms.seen - terms.carried), run.seen);
        assert_eq!(windows.last().unwrap().censored, run.censored);
    }

    #[test]
    fn a_wait_that_nobody_found_at_the_end_is_unaccounted() {
        let terms = terms(&account(0, 0, 0), &account(10, 0, 8), Some(1));
        assert_eq!(terms.unaccounted(), 1);
    }

    #[test]
    fn a_wait_that_a_rest_ended_is_censored_in_the_window_of_the_rest_alone() {
        let rested = Account { rested: 2, ..account(10, 0, 7) };
        let [first, second] =
            [(account(0, 0, 0), rested, None), (rested, Account { rested: 2, ..account(15, 0, 13) }, Some(0))]
                .map(|(before, after, found)| terms(&before, &after, found));
        assert_eq!((first.censored, first.rested, first.unaccounted()), (3, 2, 0));
        assert_eq!((second.carried, second.censored, second.rested, second.unaccounted()), (1, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn the_identity_holds_in_every_window(steps in prop::collection::vec((0u64..50, 0u64..50, 0u64..50), 1..20)) {
            let (mut before, mut running, mut received, mut seen) = (Account::default(), 0, 0, 0);
            for (more_running, more_received, open) in steps {
                running += more_running;
                received += more_received;
                seen = (running + received + open).max(seen);
                let after = account(seen, running, received);
                let window = terms(&before, &after, None);
                prop_assert_eq!(window.unaccounted(), 0);
                before = after;
            }
        }
    }
}
