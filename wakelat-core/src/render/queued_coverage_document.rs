//! The coverage of waits by the run queue's clock, as fields of documents.

use serde::Serialize;

use crate::report::SwitchInTerms;

/// The counters of switch-ins, with their names in documents.
pub fn terms(terms: &SwitchInTerms) -> [(&'static str, Option<u64>); 16] {
    [
        ("seen", Some(terms.seen)),
        ("measured", Some(terms.measured)),
        ("filtered", Some(terms.filtered)),
        ("below_threshold", Some(terms.below_threshold)),
        ("other_class", Some(terms.other_class)),
        ("ring_buffer_full", Some(terms.ring_buffer_full)),
        ("invalid", Some(terms.invalid)),
        ("unknown_start", Some(terms.unknown_start)),
        ("after_unseen", Some(terms.after_unseen)),
        ("not_timed", Some(terms.not_timed)),
        ("unknown_ns", Some(terms.unknown_ns)),
        ("unseen", Some(terms.unseen)),
        ("unseen_ns", Some(terms.unseen_ns)),
        ("to_idle", Some(terms.to_idle)),
        ("unseen_switches", Some(terms.unseen_switches)),
        ("still_waiting", terms.still_waiting),
    ]
}

/// What became of every switch to a task other than idle.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SwitchInsDocument {
    /// Switches to a task other than idle: the sum of the terms from `measured` to `not_timed`, without
    /// `below_threshold`.
    seen: u64,
    /// Waits counted in the groups.
    measured: u64,
    /// Excluded by the filter or the threshold.
    filtered: u64,
    /// Part of `filtered`: passed the filter and was below the threshold.
    below_threshold: u64,
    /// Ended a wait of a class that was not requested.
    other_class: u64,
    /// Lost: the ring buffer had no room.
    ring_buffer_full: u64,
    /// Lost: the queue's clock was before the instant at which the task was queued.
    invalid: u64,
    /// Of a task whose last switch-out was not seen: class and full length are not known. With `--max-overhead`, also
    /// waits that began before the period of measuring.
    unknown_start: u64,
    /// Of a task that ran unseen since its last switch: class and full length are not known.
    after_unseen: u64,
    /// Not timed by the kernel: the task was preempted in a sleeping state and never left the queue.
    not_timed: u64,
    /// Sum of the waits in `unknown_start` and `after_unseen`, as far as it is known.
    unknown_ns: u64,
    /// Waits that ended unseen or, with `--max-overhead`, in a pause, by the kernel's own count; not part of `seen`.
    unseen: u64,
    /// Sum of these waits.
    unseen_ns: u64,
    /// Switches to idle; not part of `seen`.
    to_idle: u64,
    /// Switches that the kernel counted between the first and the last one seen on each CPU, and that were not
    /// seen.
    unseen_switches: u64,
    /// Tasks that have waited since before the end of the window, when wakelat looked after it; `null` between two
    /// windows of a run.
    still_waiting: Option<u64>,
}

impl SwitchInsDocument {
    /// The document of these terms.
    pub fn new(terms: &SwitchInTerms) -> Self {
        Self {
            seen: terms.seen,
            measured: terms.measured,
            filtered: terms.filtered,
            below_threshold: terms.below_threshold,
            other_class: terms.other_class,
            ring_buffer_full: terms.ring_buffer_full,
            invalid: terms.invalid,
            unknown_start: terms.unknown_start,
            after_unseen: terms.after_unseen,
            not_timed: terms.not_timed,
            unknown_ns: terms.unknown_ns,
            unseen: terms.unseen,
            unseen_ns: terms.unseen_ns,
            to_idle: terms.to_idle,
            unseen_switches: terms.unseen_switches,
            still_waiting: terms.still_waiting,
        }
    }
}
