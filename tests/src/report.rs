//! The JSON report, read as any other program would read it.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

use crate::workload::Performance;

/// One document of schema `wakelat.report/1`.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonReport {
    /// Name and version of the schema.
    pub schema: String,
    /// `uname -r`.
    pub kernel: String,
    /// Start of the window: ns since 1970.
    pub start_unix_ns: u64,
    /// Length of the window: ns.
    pub duration_ns: u64,
    /// Requested length of the window: ns.
    #[serde(default)]
    pub requested_ns: Option<u64>,
    /// Intervals without a report of their own, which this report includes.
    #[serde(default)]
    pub skipped_intervals: u64,
    /// Where the waits were aggregated.
    #[serde(default)]
    pub mode: String,
    /// The waits.
    pub groups: Vec<JsonGroup>,
    /// What was counted and what was not.
    pub coverage: JsonCoverage,
    /// What measuring cost.
    #[serde(default)]
    pub overhead: Option<crate::overhead_report::JsonOverhead>,
    /// What was sampled under an overhead limit.
    #[serde(default)]
    pub sampling: Option<crate::overhead_report::JsonSampling>,
}

/// Waits with one key and class.
#[derive(Clone, Deserialize)]
pub struct JsonGroup {
    /// What the waits have in common.
    pub key: BTreeMap<String, Value>,
    /// Class of the waits.
    pub class: String,
    /// Number of waits.
    pub count: u64,
    /// Sum of the latencies: ns.
    pub sum_ns: u64,
    /// Shortest latency: ns.
    pub min_ns: u64,
    /// Longest latency: ns.
    pub max_ns: u64,
    /// When the longest wait ended: ns since 1970.
    pub max_at_unix_ns: Option<u64>,
    /// How long the thread ran: ns.
    #[serde(default)]
    pub run_ns: Option<u64>,
    /// The longest waits.
    #[serde(default)]
    pub worst: Vec<JsonWorst>,
    /// Percentiles, each by its percent: ns.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Confidence intervals of the percentiles of all tasks, by percent, if tasks were sampled.
    #[serde(default)]
    pub percentile_intervals_ns: Option<BTreeMap<String, Option<JsonInterval>>>,
    /// The distribution.
    pub buckets: Vec<JsonBucket>,
}

/// One of the longest waits.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonWorst {
    /// Latency: ns.
    pub latency_ns: u64,
    /// The task that waited.
    pub tid: u32,
    /// The task that the CPU switched from.
    pub prev_comm: String,
    /// The cgroup of the task that waited.
    pub cgroup_id: Option<u64>,
}

/// The range that contains a percentile.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonInterval {
    /// Lower bound: ns.
    pub low_ns: u64,
    /// Upper bound, if known: ns.
    pub high_ns: Option<u64>,
}

/// The waits of at least `from_ns` and less than `to_ns`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonBucket {
    /// Lower bound: ns.
    pub from_ns: u64,
    /// Upper bound: ns.
    pub to_ns: u64,
    /// Number of waits.
    pub count: u64,
}

/// The accounting identity of wakeups, and of preemptions if requested.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonCoverage {
    /// Counters of classes `wakeup` and `new`.
    #[serde(flatten)]
    pub wakeups: JsonTerms,
    /// Counters of class `preempted`.
    #[serde(default)]
    pub preemptions: Option<JsonTerms>,
    /// Counters of switch-ins, with `--from queued`.
    #[serde(default)]
    pub switch_ins: Option<JsonSwitchIns>,
    /// Events for which the kernel skipped a program; none before 5.12.
    pub missed: Option<u64>,
    /// Waits in the group `(other)`.
    #[serde(default)]
    pub groups_merged: u64,
    /// Those for which the kernel's table of groups was full.
    #[serde(default)]
    pub group_table_full: u64,
    /// Whether everything that was `filtered` belongs to wakelat's own threads.
    #[serde(default)]
    pub filtered_is_own: bool,
}

/// The terms of one accounting identity.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct JsonTerms {
    /// Wakeups or preemptions seen.
    pub seen: u64,
    /// The part of `seen` that began in an earlier window and was still pending.
    #[serde(default)]
    pub carried: u64,
    /// Waits in the groups.
    pub measured: u64,
    /// Wakeups of a task that was on a CPU.
    pub already_running: u64,
    /// Wakeups of a task that was already waiting.
    pub already_queued: u64,
    /// Excluded by a filter or the threshold.
    pub filtered: u64,
    /// The part of `filtered` that only the threshold excluded.
    #[serde(default)]
    pub below_threshold: u64,
    /// Wakeups of tasks that were not sampled.
    #[serde(default)]
    pub not_sampled: u64,
    /// Lost: no room in the task table.
    pub task_table_full: u64,
    /// Lost: no room in the ring buffer.
    pub ring_buffer_full: u64,
    /// Lost: the end is before the start.
    pub invalid: u64,
    /// Lost: the switch-in was never seen.
    pub missed_switch: u64,
    /// Still waiting at the end, or when a pause began.
    pub still_waiting: u64,
    /// The part of `still_waiting` that was pending when a pause began.
    #[serde(default)]
    pub paused: u64,
}

/// The terms of the identity of switch-ins.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct JsonSwitchIns {
    /// Switches to a task other than idle.
    pub seen: u64,
    /// Waits in the groups.
    pub measured: u64,
    /// Excluded by a filter or the threshold.
    pub filtered: u64,
    /// Of a class that was not requested.
    pub other_class: u64,
    /// Lost: no room in the ring buffer.
    pub ring_buffer_full: u64,
    /// Lost: the clock was before the start.
    pub invalid: u64,
    /// The last switch-out was not seen.
    pub unknown_start: u64,
    /// The task ran unseen before.
    pub after_unseen: u64,
    /// The kernel has not timed the wait.
    pub not_timed: u64,
    /// Sum of the waits with an unknown start, as far as it is known: ns.
    pub unknown_ns: u64,
    /// Waits that ended unseen.
    pub unseen: u64,
    /// Their sum: ns.
    pub unseen_ns: u64,
    /// Switches to idle.
    pub to_idle: u64,
    /// Switches that were not seen.
    pub unseen_switches: u64,
    /// Tasks that still waited at the end.
    pub still_waiting: Option<u64>,
}

impl JsonSwitchIns {
    /// The sum of all terms but `seen`.
    pub fn accounted(&self) -> u64 {
        let lost = self.ring_buffer_full + self.invalid;
        let unknown = self.unknown_start + self.after_unseen + self.not_timed;
        self.measured + self.filtered + self.other_class + lost + unknown
    }
}

/// One document of schema `wakelat.wait/1`.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonWait {
    /// When the wait ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its class.
    pub class: String,
    /// Its latency: ns.
    pub latency_ns: u64,
    /// Wake delivery, from `sched_waking` to `sched_wakeup`: ns.
    pub delivery_ns: Option<u64>,
    /// The task that waited.
    pub tid: u32,
    /// The process of that task.
    pub pid: Option<u32>,
    /// The CPU on which the wait ended.
    pub cpu: u32,
    /// The CPU on which the task ran before.
    pub prev_cpu: Option<u32>,
    /// The waker.
    pub waker_tid: Option<u32>,
    /// Length of each component, if `--breakdown` asks for them: ns.
    #[serde(default)]
    pub components: BTreeMap<String, u64>,
}

impl JsonWait {
    /// Every wait in the output of `trace --json`, in the order in which they ended.
    pub fn parse_all(json: &str) -> Vec<Self> {
        let mut waits = Vec::new();
        for document in serde_json::Deserializer::from_str(json).into_iter::<Value>() {
            let document = document.unwrap_or_else(|error| panic!("{error} in {json}"));
            if document["schema"] == "wakelat.wait/1" {
                waits.push(Self::deserialize(&document).unwrap_or_else(|error| panic!("{error} in {document}")));
            }
        }
        waits.sort_by_key(|wait| wait.at_ns);
        waits
    }
}

impl JsonTerms {
    /// Wakeups or preemptions that the filter let pass.
    pub fn selected(&self) -> u64 {
        self.seen - self.filtered
    }

    /// Waits that began and that the filter let pass. A wakeup need not begin one: a timer may expire
    /// before its task sleeps, and an unlock wakes the next task for the lock, which may still be
    /// spinning for it or have been preempted while spinning (`mutex_optimistic_spin()`,
    /// kernel/locking/mutex.c; `rtmutex_spin_on_owner()`, kernel/locking/rtmutex.c).
    pub fn begun(&self) -> u64 {
        self.selected() - self.already_running - self.already_queued
    }

    /// Asserts that every one of `expected` waits of `performance` was measured, and that nothing was
    /// lost. See [`crate::supervisor`] for the exception.
    pub fn assert_complete(&self, expected: u64, performance: &Performance) {
        assert!(self.measured + self.missed_switch <= expected, "{expected} waits expected: {self:?}");
        let missing = expected - self.measured;
        assert!(missing <= performance.untraced, "{missing} of {expected} waits missing: {self:?}, {performance:?}");
        self.assert_nothing_lost(performance);
    }

    /// Asserts that nothing was lost. See [`crate::supervisor`] for the exception.
    pub fn assert_nothing_lost(&self, performance: &Performance) {
        assert_eq!(self.task_table_full + self.ring_buffer_full + self.invalid, 0, "lost: {self:?}");
        assert!(self.missed_switch <= performance.untraced, "ends not seen: {self:?}, {performance:?}");
    }

    fn assert_identity(&self, what: &str) {
        let sum = self.measured
            + self.already_running
            + self.already_queued
            + self.filtered
            + self.not_sampled
            + self.task_table_full
            + self.ring_buffer_full
            + self.invalid
            + self.missed_switch
            + self.still_waiting;
        assert_eq!(self.seen, sum, "the identity of {what} does not hold: {self:?}");
    }
}

impl JsonReport {
    /// Parses every document in `json` and checks each: the identities hold, the groups have as many
    /// waits as were measured, and no group contradicts itself.
    pub fn parse_all(json: &str) -> Vec<Self> {
        let documents = serde_json::Deserializer::from_str(json).into_iter::<Self>();
        let reports: Vec<Self> = documents.map(|r| r.unwrap_or_else(|error| panic!("{error} in {json}"))).collect();
        reports.iter().for_each(Self::assert_sound);
        reports
    }

    /// The groups of `class`.
    pub fn of_class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a JsonGroup> + 'a {
        self.groups.iter().filter(move |group| group.class == class)
    }

    /// The groups with `name` = `value` in their key.
    pub fn with<'a>(&'a self, name: &'a str, value: impl Into<Value>) -> impl Iterator<Item = &'a JsonGroup> + 'a {
        let value = value.into();
        self.groups.iter().filter(move |group| group.key.get(name) == Some(&value))
    }

    /// Number of waits of `class` measured.
    pub fn count(&self, class: &str) -> u64 {
        self.of_class(class).map(|group| group.count).sum()
    }

    /// The longest latency: ns.
    pub fn max_ns(&self) -> u64 {
        self.groups.iter().map(|group| group.max_ns).max().unwrap_or(0)
    }

    /// Asserts that nothing was lost, for wakeups and for preemptions. See [`crate::supervisor`] for the exception.
    pub fn assert_nothing_lost(&self, performance: &Performance) {
        self.coverage.wakeups.assert_nothing_lost(performance);
        self.coverage.preemptions.iter().for_each(|terms| terms.assert_nothing_lost(performance));
    }

    /// Sum of all latencies: ns.
    pub fn sum_ns(&self) -> u64 {
        self.groups.iter().map(|group| group.sum_ns).sum()
    }

    fn assert_sound(&self) {
        assert_eq!(self.schema, "wakelat.report/1");
        if let Some(terms) = &self.coverage.switch_ins {
            assert_eq!(terms.seen, terms.accounted(), "the identity of switch-ins does not hold: {terms:?}");
            assert_eq!(self.groups.iter().map(|group| group.count).sum::<u64>(), terms.measured, "{self:?}");
            return self.groups.iter().for_each(JsonGroup::assert_sound);
        }
        self.coverage.wakeups.assert_identity("wakeups");
        assert_eq!(self.count("wakeup") + self.count("new"), self.coverage.wakeups.measured, "{self:?}");
        let preemptions = self.coverage.preemptions.unwrap_or_default();
        preemptions.assert_identity("preemptions");
        assert_eq!(self.count("preempted"), preemptions.measured, "{self:?}");
        self.groups.iter().for_each(JsonGroup::assert_sound);
    }
}

/// Leaves out the buckets, because there may be hundreds.
impl fmt::Debug for JsonGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, class, count, sum_ns, min_ns, max_ns, .. } = self;
        write!(f, "{class} {key:?}: {count} waits, {sum_ns} ns together, {min_ns} to {max_ns} ns")
    }
}

impl JsonGroup {
    fn assert_sound(&self) {
        assert_eq!(self.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), self.count, "{self:?}");
        assert!(self.buckets.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns), "{self:?}");
        let (Some(first), Some(last)) = (self.buckets.first(), self.buckets.last()) else {
            panic!("a group without a wait: {self:?}")
        };
        assert!(first.from_ns <= self.min_ns && self.min_ns < first.to_ns, "{self:?}");
        assert!(last.from_ns <= self.max_ns && self.max_ns < last.to_ns, "{self:?}");
        // 3 significant digits: a percentile may read up to 1/1000 above the true value.
        let limit = self.max_ns + self.max_ns / 1000 + 1;
        assert!(self.percentiles_ns.values().all(|value| (self.min_ns - self.min_ns / 1000..=limit).contains(value)));
        assert!((self.min_ns * self.count..=self.max_ns.saturating_mul(self.count)).contains(&self.sum_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"{ "schema": "wakelat.report/1", "kernel": "6.1", "start_unix_ns": 1, "duration_ns": 2,
        "groups": [ { "key": {"comm": "a", "tid": 7}, "class": "wakeup", "count": 2, "sum_ns": 30, "min_ns": 10,
                      "max_ns": 20, "max_at_unix_ns": 3, "percentiles_ns": {"50": 10},
                      "buckets": [ {"from_ns": 10, "to_ns": 11, "count": 1}, {"from_ns": 20, "to_ns": 21, "count": 1} ] } ],
        "coverage": { "seen": 3, "measured": 2, "already_running": 1, "already_queued": 0, "filtered": 0,
                      "task_table_full": 0, "ring_buffer_full": 0, "invalid": 0, "missed_switch": 0, "still_waiting": 0, "missed": 0 } }"#;

    #[test]
    fn documents_follow_one_another() {
        let reports = JsonReport::parse_all(&format!("{SOUND}\n{SOUND}\n"));
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[0].with("tid", 7).map(|group| group.count).sum::<u64>(), 2);
        assert_eq!(reports[0].with("comm", "a").count(), 1);
        assert_eq!(reports[0].coverage.wakeups.selected(), 3);
    }

    #[test]
    #[should_panic(expected = "the identity of wakeups does not hold")]
    fn an_extra_wakeup_is_detected() {
        JsonReport::parse_all(&SOUND.replace(r#""seen": 3"#, r#""seen": 4"#));
    }

    #[test]
    fn the_report_of_a_failure_has_no_buckets() {
        let report = JsonReport::parse_all(SOUND).remove(0);
        let text = format!("{:?}", report.groups);
        assert!(text.contains("2 waits, 30 ns together, 10 to 20 ns") && !text.contains("from_ns"), "{text}");
    }

    #[test]
    #[should_panic]
    fn an_extra_wait_in_a_bucket_is_detected() {
        JsonReport::parse_all(&SOUND.replace(r#""to_ns": 21, "count": 1"#, r#""to_ns": 21, "count": 2"#));
    }
}
