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
    /// When the window began: ns since 1970.
    pub start_unix_ns: u64,
    /// How long it was: ns.
    pub duration_ns: u64,
    /// How long it was to be: ns.
    #[serde(default)]
    pub requested_ns: Option<u64>,
    /// Intervals that have no report and are part of it.
    #[serde(default)]
    pub skipped_intervals: u64,
    /// Where the waits were counted.
    #[serde(default)]
    pub mode: String,
    /// The waits.
    pub groups: Vec<JsonGroup>,
    /// What was counted and what was not.
    pub coverage: JsonCoverage,
}

/// Waits with one key and class.
#[derive(Clone, Deserialize)]
pub struct JsonGroup {
    /// What they have in common.
    pub key: BTreeMap<String, Value>,
    /// Their class.
    pub class: String,
    /// How many.
    pub count: u64,
    /// Their sum: ns.
    pub sum_ns: u64,
    /// The shortest: ns.
    pub min_ns: u64,
    /// The longest: ns.
    pub max_ns: u64,
    /// When the longest ended: ns since 1970.
    pub max_at_unix_ns: Option<u64>,
    /// How long their thread ran: ns.
    #[serde(default)]
    pub run_ns: Option<u64>,
    /// The longest ones.
    #[serde(default)]
    pub worst: Vec<JsonWorst>,
    /// Percentiles, each by its percent: ns.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Where the percentiles of all tasks lie, by their percent, where not all were watched.
    #[serde(default)]
    pub percentile_intervals_ns: Option<BTreeMap<String, Option<JsonInterval>>>,
    /// The distribution.
    pub buckets: Vec<JsonBucket>,
}

/// One of the longest waits.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonWorst {
    /// How long: ns.
    pub latency_ns: u64,
    /// Whose.
    pub tid: u32,
    /// Who had the CPU.
    pub prev_comm: String,
    /// Whose cgroup.
    pub cgroup_id: Option<u64>,
}

/// Where a percentile lies.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonInterval {
    /// Not below: ns.
    pub low_ns: u64,
    /// Not above, where that is known: ns.
    pub high_ns: Option<u64>,
}

/// The waits of at least `from_ns` and less than `to_ns`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JsonBucket {
    /// Lower bound: ns.
    pub from_ns: u64,
    /// Upper bound: ns.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// The accounting identity of wakeups, and of preemptions where they were asked for.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonCoverage {
    /// Of classes `wakeup` and `new`.
    #[serde(flatten)]
    pub wakeups: JsonTerms,
    /// Of class `preempted`.
    #[serde(default)]
    pub preemptions: Option<JsonTerms>,
    /// Events for which the kernel skipped a program; none before 5.12.
    pub missed: Option<u64>,
    /// Whether all that was `filtered` is of wakelat's own threads.
    #[serde(default)]
    pub filtered_is_own: bool,
}

/// The terms of one identity.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct JsonTerms {
    /// Waits that began.
    pub seen: u64,
    /// Of `seen`: waits of the window before that were still going on.
    #[serde(default)]
    pub carried: u64,
    /// Samples in the groups.
    pub delivered: u64,
    /// Wakeups of a task on a CPU.
    pub woken_running: u64,
    /// Wakeups of a task that waited already.
    pub woken_waiting: u64,
    /// Refused by filter or threshold.
    pub filtered: u64,
    /// Of `filtered`: the threshold alone refused it.
    #[serde(default)]
    pub below_threshold: u64,
    /// Of tasks that were not watched.
    #[serde(default)]
    pub not_watched: u64,
    /// No room in the map of starts.
    pub start_map_full: u64,
    /// No room in the ring buffer.
    pub ring_full: u64,
    /// End before start.
    pub discarded: u64,
    /// Switch-in never seen.
    pub stale: u64,
    /// Still waiting at the end, or when a rest began.
    pub censored: u64,
    /// Of `censored`: when a rest began.
    #[serde(default)]
    pub rested: u64,
}

/// One document of schema `wakelat.wait/1`.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonWait {
    /// When it ended: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its class.
    pub class: String,
    /// How long it was: ns.
    pub latency_ns: u64,
    /// From `sched_waking` to `sched_wakeup`: ns.
    pub delivery_ns: Option<u64>,
    /// Who waited.
    pub tid: u32,
    /// Its process.
    pub pid: Option<u32>,
    /// Where it ended.
    pub cpu: u32,
    /// Where the task ran before.
    pub prev_cpu: Option<u32>,
    /// Who woke it.
    pub waker_tid: Option<u32>,
    /// The ns of each part, where `--parts` asks for them.
    #[serde(default)]
    pub parts: BTreeMap<String, u64>,
}

impl JsonWait {
    /// Every wait in the output of `trace --json`, in the order in which they ended.
    ///
    /// # Panics
    /// If a document cannot be read.
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
    /// Those the filter let pass.
    pub fn selected(&self) -> u64 {
        self.seen - self.filtered
    }

    /// Of those, the waits that began. A timer may expire before its task sleeps, and an unlock wakes who is next for the lock, and
    /// may spin for it still, or have been preempted while it did (`mutex_optimistic_spin()`, kernel/locking/mutex.c;
    /// `rtmutex_spin_on_owner()`, kernel/locking/rtmutex.c).
    pub fn begun(&self) -> u64 {
        self.selected() - self.woken_running - self.woken_waiting
    }

    /// Asserts that of `expected` waits of `performance` every one was delivered, and that nothing was lost. See
    /// [`crate::supervisor`] for the exception.
    ///
    /// # Panics
    /// If it is not so.
    pub fn assert_complete(&self, expected: u64, performance: &Performance) {
        assert!(self.delivered + self.stale <= expected, "{expected} waits expected: {self:?}");
        let missing = expected - self.delivered;
        assert!(missing <= performance.untraced, "{missing} of {expected} waits missing: {self:?}, {performance:?}");
        self.assert_nothing_lost(performance);
    }

    /// Asserts that nothing was lost. See [`crate::supervisor`] for the exception.
    ///
    /// # Panics
    /// If something was.
    pub fn assert_nothing_lost(&self, performance: &Performance) {
        assert_eq!(self.start_map_full + self.ring_full + self.discarded, 0, "lost: {self:?}");
        assert!(self.stale <= performance.untraced, "ends not seen: {self:?}, {performance:?}");
    }

    fn assert_identity(&self, what: &str) {
        let parts = self.delivered
            + self.woken_running
            + self.woken_waiting
            + self.filtered
            + self.not_watched
            + self.start_map_full
            + self.ring_full
            + self.discarded
            + self.stale
            + self.censored;
        assert_eq!(self.seen, parts, "the identity of {what} does not hold: {self:?}");
    }
}

impl JsonReport {
    /// Every document in `json`, each checked: the identities hold, the groups hold as many waits as were delivered,
    /// and no group contradicts itself.
    ///
    /// # Panics
    /// If one of that is not so.
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

    /// How many waits of `class` were delivered.
    pub fn count(&self, class: &str) -> u64 {
        self.of_class(class).map(|group| group.count).sum()
    }

    /// The longest wait of all: ns.
    pub fn max_ns(&self) -> u64 {
        self.groups.iter().map(|group| group.max_ns).max().unwrap_or(0)
    }

    /// Asserts that nothing was lost in either account. See [`crate::supervisor`] for the exception.
    ///
    /// # Panics
    /// If something was.
    pub fn assert_nothing_lost(&self, performance: &Performance) {
        self.coverage.wakeups.assert_nothing_lost(performance);
        self.coverage.preemptions.iter().for_each(|terms| terms.assert_nothing_lost(performance));
    }

    /// All waits: ns.
    pub fn sum_ns(&self) -> u64 {
        self.groups.iter().map(|group| group.sum_ns).sum()
    }

    fn assert_sound(&self) {
        assert_eq!(self.schema, "wakelat.report/1");
        self.coverage.wakeups.assert_identity("wakeups");
        assert_eq!(self.count("wakeup") + self.count("new"), self.coverage.wakeups.delivered, "{self:?}");
        let preemptions = self.coverage.preemptions.unwrap_or_default();
        preemptions.assert_identity("preemptions");
        assert_eq!(self.count("preempted"), preemptions.delivered, "{self:?}");
        self.groups.iter().for_each(JsonGroup::assert_sound);
    }
}

/// Without the buckets, of which there may be hundreds.
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
        // 3 significant digits: a percentile may read up to 1/1000 above the value it stands for.
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
        "coverage": { "seen": 3, "delivered": 2, "woken_running": 1, "woken_waiting": 0, "filtered": 0,
                      "start_map_full": 0, "ring_full": 0, "discarded": 0, "stale": 0, "censored": 0, "missed": 0 } }"#;

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
    fn a_wakeup_too_many_is_noticed() {
        JsonReport::parse_all(&SOUND.replace(r#""seen": 3"#, r#""seen": 4"#));
    }

    #[test]
    #[should_panic]
    fn a_bucket_too_full_is_noticed() {
        JsonReport::parse_all(&SOUND.replace(r#""to_ns": 21, "count": 1"#, r#""to_ns": 21, "count": 2"#));
    }
}
