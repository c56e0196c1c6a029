//! The JSON document `wakelat.why-causes/1`.

use std::io::{self, Write};

use serde::Serialize;

use super::counted::evidence;
use crate::{
    render::{
        Style,
        coverage_document::CoverageDocument,
        report_document::{BucketDocument, OverheadDocument, SamplingDocument, WindowDocument},
    },
    report::Report,
    why::counted::{
        CauseTime, GroupTotal,
        summary::{CauseShares, CountedCause, CountedSummary, GroupCauses, PairCauses},
    },
};

/// Maximum number of pairs in a document.
const MAX_PAIRS: usize = 1_000;

/// Writes the causes and the report of the same window as a single line of JSON.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(summary: &CountedSummary, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(&WhyCausesDocument::new(summary, report))?;
    line.push(b'\n');
    out.write_all(&line)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WhyCausesDocument<'a> {
    /// `wakelat.why-causes/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.why-causes/1")))]
    schema: &'static str,
    /// The kernel's release, as in `uname -r`.
    kernel: &'a str,
    /// Start of the window.
    start_unix_ns: u64,
    /// Length of the window.
    duration_ns: u64,
    #[serde(flatten)]
    window: WindowDocument,
    /// The start of a latency: always `queued`.
    #[cfg_attr(test, schemars(extend("const" = "queued")))]
    from: &'static str,
    /// What a group is: `cgroup`, `container` or `comm`.
    #[cfg_attr(test, schemars(extend("enum" = ["cgroup", "container", "comm"])))]
    by: &'static str,
    /// The largest cause, in words; `null` without waiting time.
    finding: Option<String>,
    /// All waits.
    #[serde(flatten)]
    all: TotalDocument,
    /// Their causes, most time first; they add up to `sum_ns`.
    causes: Vec<CauseDocument>,
    /// The groups that waited, the one with the most waiting time first; the one whose name is `null` comes last.
    groups: Vec<GroupDocument<'a>>,
    /// Groups beyond `--max-groups` (`serve`: `--max-series`), merged into the one whose name is `null`.
    groups_merged: u64,
    /// Which group waited for which, most time first, at most 1,000.
    pairs: Vec<PairDocument<'a>>,
    /// The pairs that are not listed.
    pairs_rest: PairsRestDocument,
    /// Parts of waits whose pair had no room in a table of pairs.
    pairs_lost: u64,
    /// The causes that this kernel does not count, so that their time belongs to what ran: some of `interrupts`,
    /// `stolen` and `throttled`.
    not_separated: Vec<&'static str>,
    /// The fields of `coverage` in `wakelat.report/1`.
    coverage: CoverageDocument,
    /// The fields of `overhead` in `wakelat.report/1`.
    overhead: Option<OverheadDocument>,
    /// The fields of `sampling` in `wakelat.report/1`; `null` without `--max-overhead`.
    sampling: Option<SamplingDocument>,
}

impl<'a> WhyCausesDocument<'a> {
    fn new(summary: &'a CountedSummary, report: &'a Report) -> Self {
        let (listed, rest) = summary.pairs.split_at(MAX_PAIRS.min(summary.pairs.len()));
        Self {
            schema: "wakelat.why-causes/1",
            kernel: &report.kernel,
            start_unix_ns: report.start_unix_ns,
            duration_ns: report.duration_ns,
            window: WindowDocument::new(report),
            from: report.from.name(),
            by: summary.by.key().name(),
            finding: evidence(summary, &Style::default()),
            all: TotalDocument::new(&summary.all),
            causes: causes(&summary.causes),
            groups: summary.groups.iter().map(GroupDocument::new).collect(),
            groups_merged: summary.groups_merged,
            pairs: listed.iter().map(PairDocument::new).collect(),
            pairs_rest: PairsRestDocument { count: rest.len(), sum_ns: rest.iter().map(|pair| pair.time.ns).sum() },
            pairs_lost: summary.pairs_lost,
            not_separated: summary.not_separated.iter().map(|cause| cause.name()).collect(),
            coverage: CoverageDocument::new(report),
            overhead: report.overhead.as_ref().map(OverheadDocument::new),
            sampling: report.sampling.as_ref().map(SamplingDocument::new),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalDocument {
    /// Number of waits.
    waits: u64,
    /// Their sum: ns.
    sum_ns: u128,
    /// The longest: ns.
    max_ns: u64,
    /// Half of the waits are at most this long; the bound is at most a quarter too high from 32 ns on.
    p50_bound_ns: u64,
    /// 99 % of the waits are at most this long; the bound is at most a quarter too high from 32 ns on.
    p99_bound_ns: u64,
    /// The distribution, in rising order, without empty buckets; the counts add up to `waits`. Each power of two from
    /// 32 on is divided into four buckets; below, buckets are 8 ns wide.
    buckets: Vec<BucketDocument>,
}

impl TotalDocument {
    fn new(total: &GroupTotal) -> Self {
        let bucket = |(from_ns, to_ns, count)| BucketDocument { from_ns, to_ns, count };
        Self {
            waits: total.waits,
            sum_ns: total.sum_ns,
            max_ns: total.max_ns,
            p50_bound_ns: total.quantile_bound_ns(500),
            p99_bound_ns: total.quantile_bound_ns(990),
            buckets: total.buckets().map(bucket).collect(),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseDocument {
    /// The cause: why.md.
    #[cfg_attr(test, schemars(extend("enum" = CountedCause::ALL.map(CountedCause::name))))]
    cause: &'static str,
    /// Its time: ns.
    sum_ns: u128,
    /// Number of waits in which it had time. A wait behind several groups counts once for each.
    waits: u64,
}

fn causes(shares: &CauseShares) -> Vec<CauseDocument> {
    let document = |(cause, time): &(CountedCause, CauseTime)| CauseDocument {
        cause: cause.name(),
        sum_ns: time.ns,
        waits: time.waits,
    };
    shares.iter().map(document).collect()
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupDocument<'a> {
    /// The path of the cgroup, the ID of the container, or the name of the tasks; `null` for all other groups.
    group: Option<&'a str>,
    #[serde(flatten)]
    total: TotalDocument,
    /// The causes of its waits, most time first; they add up to `sum_ns`.
    causes: Vec<CauseDocument>,
}

impl<'a> GroupDocument<'a> {
    fn new(group: &'a GroupCauses) -> Self {
        Self { group: group.name.as_deref(), total: TotalDocument::new(&group.total), causes: causes(&group.causes) }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PairDocument<'a> {
    /// The group that waited.
    waiting: &'a str,
    /// The group that ran.
    running: &'a str,
    #[serde(flatten)]
    cause: CauseDocument,
}

impl<'a> PairDocument<'a> {
    fn new(pair: &'a PairCauses) -> Self {
        let cause = CauseDocument { cause: pair.cause.name(), sum_ns: pair.time.ns, waits: pair.time.waits };
        Self { waiting: &pair.waiting, running: &pair.running, cause }
    }
}

/// The pairs that are not listed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PairsRestDocument {
    /// Number of pairs.
    count: usize,
    /// Their time: ns.
    sum_ns: u128,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{render::testing::report, report::LatencyFrom, why::counted::summary::testing::one_neighbour};

    #[test]
    fn what_is_written_is_a_line_that_is_valid_by_the_schema() {
        let mut out = Vec::new();
        let report = Report { from: LatencyFrom::Queued, ..report(Vec::new()) };
        write(&one_neighbour(), &report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!((json_schemas::assert_valid(&text), text.lines().count()), (1, 1));
    }

    #[test]
    fn the_buckets_of_all_and_of_each_group_hold_their_waits() {
        let mut out = Vec::new();
        let report = Report { from: LatencyFrom::Queued, ..report(Vec::new()) };
        write(&one_neighbour(), &report, &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let bucket = |from_ns: u64, to_ns: u64| json!({"from_ns": from_ns, "to_ns": to_ns, "count": 1});
        // Waits of 2.01 ms, 3.05 ms and 7.04 ms.
        let [least, middle, most] =
            [bucket(1_835_008, 2_097_152), bucket(2_621_440, 3_145_728), bucket(6_291_456, 7_340_032)];
        let [nginx, session] = [&document["groups"][0], &document["groups"][1]].map(|group| &group["buckets"]);
        assert_eq!(document["buckets"], json!([least, middle, most]));
        assert_eq!((nginx, session), (&json!([middle, most]), &json!([least])));
    }

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type() {
        json_schemas::assert_current::<WhyCausesDocument>();
    }
}
