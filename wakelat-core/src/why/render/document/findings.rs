//! The JSON document of a finding.

use serde::Serialize;

use super::culprit::{ActorDocument, ActorKind};
use crate::{
    render::Style,
    timeline::component::Actor,
    why::{
        Summary,
        causes::CauseName,
        finding::{Finding, Victim},
        render::finding,
    },
};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FindingDocument {
    /// Component of the cause.
    #[cfg_attr(test, schemars(extend("enum" = crate::render::schema_values::component_names())))]
    component: &'static str,
    #[serde(flatten)]
    actor: ActorDocument,
    /// Number of different task names that the finding combines, without evicted ones; `null` for any other
    /// finding.
    tasks: Option<usize>,
    /// Its time in all waits.
    sum_ns: u128,
    /// Total of all waits.
    of_ns: u128,
    /// Names of tasks whose waiting time it is a large share of, at most three; empty if it is a large share of the
    /// total only.
    victims: Vec<VictimDocument>,
    /// The same finding in words.
    evidence: String,
    /// What to do about it.
    remedy: &'static str,
}

impl FindingDocument {
    pub(super) fn new(found: &Finding, summary: &Summary) -> Self {
        let actor = match found.cause.name {
            CauseName::Task(comm) => {
                ActorDocument { kind: Some(ActorKind::Task), name: Some(comm.to_string()), ..ActorDocument::default() }
            }
            CauseName::Interrupt(source) => ActorDocument::noise(&source),
            CauseName::Cgroup(id) => ActorDocument::new(&Actor::Cgroup(id), summary),
            CauseName::Wakelat => ActorDocument {
                kind: Some(ActorKind::Task),
                name: Some("wakelat".to_owned()),
                pid: if let [pid] = summary.own_pids[..] { Some(pid) } else { None },
                is_own: true,
                ..ActorDocument::default()
            },
            CauseName::Many(_) | CauseName::Unnamed => ActorDocument::default(),
        };
        let victim = |victim: &Victim| VictimDocument {
            comm: victim.comm.to_string(),
            sum_ns: victim.ns,
            of_ns: victim.total_ns,
        };
        Self {
            component: found.cause.component.name(),
            actor,
            tasks: if let CauseName::Many(tasks) = found.cause.name { Some(tasks) } else { None },
            sum_ns: found.sum.ns,
            of_ns: found.total_ns,
            victims: found.victims.iter().map(victim).collect(),
            evidence: finding::evidence(found, &summary.cgroups, &Style::default()),
            remedy: finding::remedy(found),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VictimDocument {
    /// Name of the task.
    comm: String,
    /// Its time in the waits of that name.
    sum_ns: u128,
    /// Total of all waits of that name.
    of_ns: u128,
}
