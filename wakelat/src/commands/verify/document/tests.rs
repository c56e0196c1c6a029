use json_schemas::{assert_current, assert_valid};
use serde_json::{Value, json};

use super::{
    super::{
        checks::{self, CheckOutcome},
        evaluation::{Verdict, tests::rich},
        not_compared::NotCompared,
        switch_counts::SwitchCounts,
    },
    *,
};

pub(super) fn verdicts() -> [&'static str; 3] {
    [Verdict::Agree, Verdict::Disagree, Verdict::NotCompared].map(Verdict::name)
}

pub(super) fn reasons() -> [&'static str; 3] {
    [NotCompared::NoHistTriggers, NotCompared::NotMounted, NotCompared::Denied("/t".into())].map(|why| why.name())
}

pub(super) fn outcomes() -> [&'static str; 3] {
    [CheckOutcome::Agree, CheckOutcome::Disagree, CheckOutcome::Unknown].map(CheckOutcome::name)
}

/// The numbers of the checks. A check has its own, and none if it cannot be made.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct CheckNumbers {
    /// Schedstat: tasks that existed throughout the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<u64>,
    /// Schedstat: tasks with different numbers of waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks_differ: Option<u64>,
    /// Schedstat: waits counted by the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_waits: Option<u64>,
    /// Schedstat: waits that wakelat measured and that the kernel counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakelat_waits: Option<u64>,
    /// Schedstat: waits that the kernel does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted: Option<u64>,
    /// Schedstat: waits that ended while their task's counters were being read.
    #[serde(skip_serializing_if = "Option::is_none")]
    ambiguous: Option<u64>,
    /// Schedstat: waits that the kernel may have counted only after their task's counters were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<u64>,
    /// Schedstat: tasks that were runnable when their counters were first read.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    /// Schedstat: waits counted on one side only that no boundary effect of the window explains, summed over the
    /// tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    unexplained: Option<u64>,
    /// Schedstat: the kernel's time of the tasks whose numbers of waits are equal, without `unfinished_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_ns: Option<u64>,
    /// Schedstat: wakelat's time of the same tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakelat_ns: Option<u64>,
    /// Schedstat: the kernel's time of waits that had not ended when the window did.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_ns: Option<u64>,
    /// Schedstat: how many `unexplained` waits losses and untraced switches can cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerated_waits: Option<u64>,
    /// Schedstat: how far wakelat's time may be below the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerated_ns: Option<u64>,
    /// Ctxt: context switches counted by the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<u64>,
    /// Ctxt: runs of the program on `sched_switch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<u64>,
    /// Ctxt: runs that the kernel skipped; absent if it does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    /// Ctxt: switches that fired no tracepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    untraced: Option<u64>,
    /// Queue clock: waits that the tracepoints measured between the two readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoint_waits: Option<u64>,
    /// Queue clock: waits that the queue clock measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_waits: Option<u64>,
    /// Queue clock: the part of `tracepoint_waits` of class `wakeup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoint_wakeup: Option<u64>,
    /// Queue clock: the part of `queue_clock_waits` of class `wakeup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_wakeup: Option<u64>,
    /// Queue clock: the part of class `new`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoint_new: Option<u64>,
    /// Queue clock: the part of class `new`.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_new: Option<u64>,
    /// Queue clock: the part of class `preempted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoint_preempted: Option<u64>,
    /// Queue clock: the part of class `preempted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_preempted: Option<u64>,
    /// Queue clock: waits that ended while the counts were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    during_readings: Option<u64>,
    /// Queue clock: waits that may be in progress at the readings: two for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_progress: Option<u64>,
    /// Queue clock: switch-ins of tasks whose last switch-out the queue clock has not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_start: Option<u64>,
    /// Queue clock: switch-ins of tasks that ran unseen since their last switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_unseen: Option<u64>,
    /// Queue clock, run queues: waits that the kernel has not timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_timed: Option<u64>,
    /// Queue clock: waits with an end before their start.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<u64>,
    /// Queue clock: switches for which the kernel skipped the queue clock's program; absent if it does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_missed: Option<u64>,
    /// Queue clock: waits that the tracepoints may lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoints_lack: Option<u64>,
    /// Queue clock: sum of `tracepoint_waits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracepoint_ns: Option<u64>,
    /// Queue clock, run queues: sum of the waits that the queue clock measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_clock_ns: Option<u64>,
    /// Distributions: the power of two with the largest difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_ns: Option<u64>,
    /// Distributions: how far the two lengths of a wait may be apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance_ns: Option<u64>,
    /// Distributions: waits above `bound_ns` plus `distance_ns`, by the instrument with the longer waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_above_longer: Option<u64>,
    /// Distributions: waits above `bound_ns`, by the other instrument.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_above_shorter: Option<u64>,
    /// Distributions: by how much `waits_above_longer` exceeds `waits_above_shorter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_more: Option<u64>,
    /// Distributions: the largest `waits_more` that agrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_allowed: Option<u64>,
    /// Run queues: waits that the kernel counted on all run queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_queue_waits: Option<u64>,
    /// Run queues: the smallest number of waits that agrees with the queue clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    fewest_waits: Option<u64>,
    /// Run queues: the largest number of waits that agrees with the queue clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_waits: Option<u64>,
    /// Run queues: switches that the queue clock's program may not have seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<u64>,
    /// Run queues: waiting time that the kernel counted on all run queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_queue_ns: Option<u64>,
    /// Run queues: the known part of the waits without a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_ns: Option<u64>,
    /// Run queues: sum of the waits that ended unseen.
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen_ns: Option<u64>,
}

fn written(verification: &Verification) -> Value {
    let text = serde_json::to_string(&VerificationDocument::new(verification)).unwrap();
    assert_eq!(assert_valid(&text), 1);
    serde_json::from_str(&text).unwrap()
}

/// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
#[test]
fn the_schema_is_that_of_the_type() {
    assert_current::<VerificationDocument>();
}

#[test]
fn a_verification_without_triggers_has_its_reason() {
    let document = written(&Verification { comparison: Err(NotCompared::Denied("/t".into())), ..rich() });
    assert_eq!((&document["verdict"], &document["comparison"]), (&json!("not_compared"), &Value::Null));
    assert_eq!(document["not_compared"]["reason"], "tracefs_closed");
    assert_eq!(written(&rich())["not_compared"], Value::Null);
}

#[test]
fn an_unknown_number_of_skipped_runs_is_absent_and_0_is_0() {
    let switches = |count| SwitchCounts { runs_before: count, kernel: count, runs_after: count };
    for missed in [Some(12), Some(0), None] {
        let mut verification = rich();
        verification.checks[1] = checks::ctxt(switches(0), switches(1_000), missed, 2).0;
        let document = written(&verification);
        assert_eq!(document["checks"][1]["name"], "ctxt");
        assert_eq!(document["checks"][1]["numbers"].get("missed"), missed.map(Value::from).as_ref(), "{document:#}");
    }
}
