//! The JSON document of a finding.

use serde::Serialize;

use super::ActorDocument;
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
pub(super) struct FindingDocument {
    component: &'static str,
    #[serde(flatten)]
    actor: ActorDocument,
    tasks: Option<usize>,
    sum_ns: u128,
    of_ns: u128,
    victims: Vec<VictimDocument>,
    evidence: String,
    remedy: &'static str,
}

impl FindingDocument {
    pub(super) fn new(found: &Finding, summary: &Summary) -> Self {
        let actor = match found.cause.name {
            CauseName::Task(comm) => {
                ActorDocument { kind: Some("task"), name: Some(comm.to_string()), ..ActorDocument::default() }
            }
            CauseName::Interrupt(source) => ActorDocument::noise(&source),
            CauseName::Cgroup(id) => ActorDocument::new(&Actor::Cgroup(id), summary),
            CauseName::Wakelat => ActorDocument {
                kind: Some("task"),
                name: Some("wakelat".to_owned()),
                pid: summary.own_pid,
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
struct VictimDocument {
    comm: String,
    sum_ns: u128,
    of_ns: u128,
}
