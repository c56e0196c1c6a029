//! The time of waits by component and cause, in JSON documents.

use serde::Serialize;

use super::{culprit::CulpritDocument, worst_wait::ExemplarDocument};
use crate::{
    aggregate::space_saving::Evicted,
    render::key_document::key,
    report::KeyPart,
    timeline::component::Component,
    why::{
        Summary,
        groups::GroupBreakdown,
        sums::{BreakdownSum, CulpritSum, TimeSum},
    },
};

/// Maximum number of culprits of a group in the document; the largest are written.
const MAX_CULPRITS: usize = 20;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupBreakdownDocument<'a> {
    /// What the waits have in common, as in a report; `{}` for a whole class.
    #[serde(serialize_with = "key")]
    #[cfg_attr(test, schemars(schema_with = "crate::render::key_document::schema"))]
    key: &'a [KeyPart],
    /// Class of the waits, as in a report.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::schema_values::group_classes())))]
    class: &'static str,
    /// Number of waits.
    count: u64,
    /// Sum of all latencies.
    sum_ns: u128,
    /// Longest wait.
    max_ns: u64,
    /// Waits during which the task moved to another CPU.
    migrated: u64,
    /// With `from` = `wakeup`: wake delivery by component, which comes before the waits and is not in `sum_ns`.
    before: Vec<ComponentDocument>,
    /// Time of the waits by component, largest first; the components add up to `sum_ns`.
    components: Vec<ComponentDocument>,
    /// The causes with the most time, at most 20.
    culprits: Vec<CulpritSumDocument>,
    /// Culprits that had no room in the table: each class keeps 16,384, and those with the least time make room for new
    /// ones; all groups together keep 65,536, and beyond that each group keeps its largest.
    culprits_rest: EvictedDocument,
}

/// A group with its longest waits.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupWithWorstDocument<'a> {
    #[serde(flatten)]
    pub(super) group: GroupBreakdownDocument<'a>,
    /// Longest waits of the group, longest first, as many as `--worst` requests, each with the fields of `worst`;
    /// empty for `(other)`.
    pub(super) worst: Vec<ExemplarDocument<'a>>,
    /// How many of these waits were dropped for lack of room, the shortest first: the longest waits of all groups
    /// together have 16 MiB.
    pub(super) worst_given_up: u64,
}

/// The sum of the entries that a bounded table evicted because it was full.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EvictedDocument {
    /// Time of these entries in all waits: ns.
    sum_ns: u128,
    /// Number of these entries; one that appeared again later may be counted again.
    count: u64,
    /// No entry in the rest had more time than this, and the listed times are at most this much too low: ns. At
    /// most the total divided by 7/8 of the capacity of the table.
    error_ns: u128,
}

impl EvictedDocument {
    pub(super) fn new(rest: Evicted) -> Self {
        Self { sum_ns: rest.sum, count: rest.count, error_ns: rest.error }
    }
}

impl<'a> GroupBreakdownDocument<'a> {
    pub(super) fn new(group: &'a GroupBreakdown, summary: &Summary) -> Self {
        let sums: &BreakdownSum = &group.sums;
        let before =
            [Component::Placement, Component::Ipi].into_iter().zip(&sums.before).filter(|(_, sum)| sum.waits > 0);
        let culprit = |one: CulpritSum| CulpritSumDocument {
            culprit: CulpritDocument::new(&one.culprit, summary),
            sum: TimeSumDocument::new(&one.sum),
        };
        Self {
            key: &group.key,
            class: group.class.name(),
            count: sums.waits,
            sum_ns: sums.ns,
            max_ns: sums.max_ns,
            migrated: sums.migrated,
            before: before.map(|(component, sum)| ComponentDocument::new(component, sum)).collect(),
            components: sums
                .components()
                .iter()
                .map(|(component, sum)| ComponentDocument::new(*component, sum))
                .collect(),
            culprits: sums.culprits().into_iter().take(MAX_CULPRITS).map(culprit).collect(),
            culprits_rest: EvictedDocument::new(sums.evicted()),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComponentDocument {
    /// A component from semantics.md.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::schema_values::component_names())))]
    component: &'static str,
    #[serde(flatten)]
    sum: TimeSumDocument,
}

impl ComponentDocument {
    pub(super) fn new(component: Component, sum: &TimeSum) -> Self {
        Self { component: component.name(), sum: TimeSumDocument::new(sum) }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TimeSumDocument {
    /// Its time in all waits.
    pub(super) sum_ns: u128,
    /// Its longest time in one wait.
    pub(super) max_ns: u64,
    /// Waits in which it had any time.
    pub(super) waits: u64,
}

impl TimeSumDocument {
    pub(super) fn new(sum: &TimeSum) -> Self {
        Self { sum_ns: sum.ns, max_ns: sum.max_ns, waits: sum.waits }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CulpritSumDocument {
    #[serde(flatten)]
    culprit: CulpritDocument,
    #[serde(flatten)]
    sum: TimeSumDocument,
}
