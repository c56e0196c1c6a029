//! Compares the waits that the queue clock counts with those that the kernel counts on its run queues
//! (`/proc/schedstat`). Pure: [`super::queue_clock_side`] reads both.
//!
//! The kernel counts a wait at the switch-in that ends it, after the program on `sched_switch` has run
//! (`sched_info_arrive()`, kernel/sched/stats.h), for each task but idle. Its count therefore includes the waits of
//! tasks that exit within the window, and is the program's, except for
//!
//! - waits that end between two readings, and the switch in progress on each CPU at each of the two;
//! - switches that the program has not seen, because they fired no tracepoint or the kernel skipped the program;
//! - waits without a start (`not_timed`), which kernels before 5.14 count and later ones do not.

use wakelat_core::{render::units, report::SwitchInTerms};
use wakelat_kernel::run_queue_schedstat::RunQueueSchedstat;

use super::checks::{Check, CheckOutcome};

/// The name of the check in JSON.
pub const NAME: &str = "run_queues";

/// The kernel's counters, and the terms of the queue clock read just before and just after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunQueueReading {
    /// The terms, read before the kernel's counters.
    pub terms_before: SwitchInTerms,
    /// The kernel's counters of all run queues.
    pub kernel: RunQueueSchedstat,
    /// The terms, read after the kernel's counters.
    pub terms_after: SwitchInTerms,
}

/// Waits that the program has seen end, and that every kernel counts.
fn counted(terms: &SwitchInTerms) -> u64 {
    terms.measured + terms.unknown_start + terms.after_unseen + terms.invalid
}

/// Judges the number of waits between two readings. `measured_ns` is the sum of the measured waits, and `hidden` the
/// number of switches that the program may not have seen.
///
/// The two times are shown and not compared: if a task moves while it waits, the kernel adds the time until then
/// before the wait ends (`sched_info_dequeue()`), and nothing bounds the time of the waits pending at a reading.
pub fn check(opened: &RunQueueReading, closed: &RunQueueReading, measured_ns: u128, hidden: u64) -> Check {
    let cpus = opened.kernel.cpus;
    let waits = closed.kernel.waits.saturating_sub(opened.kernel.waits);
    let waited_ns = closed.kernel.waited_ns.saturating_sub(opened.kernel.waited_ns);
    let not_timed = closed.terms_after.not_timed.saturating_sub(opened.terms_before.not_timed);
    let fewest = counted(&closed.terms_before).saturating_sub(counted(&opened.terms_after)).saturating_sub(cpus);
    let seen = counted(&closed.terms_after).saturating_sub(counted(&opened.terms_before));
    let most = seen + cpus + not_timed + hidden;
    let within = |part: fn(&SwitchInTerms) -> u64| part(&closed.terms_after).saturating_sub(part(&opened.terms_before));
    let unknown_ns = within(|terms| terms.unknown_ns);
    let unseen_ns = within(|terms| terms.unseen_ns);
    let own_ns = measured_ns + u128::from(unknown_ns) + u128::from(unseen_ns);
    let mut found = format!(
        "waits: {} counted by the kernel on its run queues, {} to {} possible by the queue clock, because of {} without a \
         start, {} that may be unseen, and those at the edges of the window; waiting time, not compared: {} by \
         the kernel, {} by the queue clock",
        units::thousands(waits),
        units::thousands(fewest),
        units::thousands(most),
        units::thousands(not_timed),
        units::thousands(hidden),
        units::duration(waited_ns, false),
        units::duration(own_ns, false),
    );
    let outcome = if closed.kernel.cpus != cpus {
        found.push_str("; a CPU went online or offline within the window, so the counts cannot be compared");
        CheckOutcome::Unknown
    } else if (fewest..=most).contains(&waits) {
        CheckOutcome::Agree
    } else {
        CheckOutcome::Disagree
    };
    let numbers = vec![
        ("run_queue_waits", waits),
        ("fewest_waits", fewest),
        ("most_waits", most),
        ("not_timed", not_timed),
        ("hidden", hidden),
        ("run_queue_ns", waited_ns),
        ("queue_clock_ns", u64::try_from(measured_ns).unwrap_or(u64::MAX)),
        ("unknown_ns", unknown_ns),
        ("unseen_ns", unseen_ns),
    ];
    Check { name: NAME, outcome, found, numbers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpus: u64, kernel: u64, before: u64, after: u64) -> RunQueueReading {
        let terms = |measured| SwitchInTerms { measured, unknown_start: 3, ..SwitchInTerms::default() };
        let kernel = RunQueueSchedstat { cpus, waits: kernel, waited_ns: kernel * 10 };
        RunQueueReading { terms_before: terms(before), kernel, terms_after: terms(after) }
    }

    fn outcome(kernel_waits: u64, hidden: u64) -> CheckOutcome {
        // 4 waits end around the first reading and 6 around the last; between them, 1,000.
        let (opened, closed) = (reading(2, 50, 100, 104), reading(2, 50 + kernel_waits, 1_104, 1_110));
        check(&opened, &closed, 0, hidden).outcome
    }

    #[test]
    fn the_count_lies_between_what_the_readings_allow_and_one_switch_for_each_cpu() {
        use CheckOutcome::{Agree, Disagree};
        for (kernel_waits, hidden, expected) in [
            (998, 0, Agree),
            (997, 0, Disagree),
            (1_012, 0, Agree),
            (1_013, 0, Disagree),
            (1_013, 1, Agree),
            (1_014, 1, Disagree),
        ] {
            assert_eq!(outcome(kernel_waits, hidden), expected, "{kernel_waits}, {hidden}");
        }
    }

    #[test]
    fn each_wait_without_a_start_may_be_counted_or_not() {
        let opened = reading(1, 0, 0, 0);
        let mut closed = reading(1, 101 + 7, 100, 100);
        closed.terms_after.not_timed = 7;
        assert_eq!(check(&opened, &closed, 0, 0).outcome, CheckOutcome::Agree);
        closed.kernel.waits += 1;
        assert_eq!(check(&opened, &closed, 0, 0).outcome, CheckOutcome::Disagree);
    }

    #[test]
    fn a_cpu_that_goes_offline_leaves_nothing_to_compare() {
        let check = check(&reading(2, 50, 100, 100), &reading(1, 20, 200, 200), 0, 0);
        assert_eq!(check.outcome, CheckOutcome::Unknown);
    }
}
