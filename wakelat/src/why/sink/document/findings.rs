//! What stands out.

use serde::Serialize;

use super::WhoDocument;
use crate::{
    sink::Style,
    timeline::part::Actor,
    why::{
        Summary,
        causes::Name,
        finding::{Finding, Victim},
        sink::finding,
    },
};

#[derive(Serialize)]
pub(super) struct FindingDocument {
    part: &'static str,
    #[serde(flatten)]
    who: WhoDocument,
    tasks: Option<usize>,
    sum_ns: u128,
    of_ns: u128,
    victims: Vec<VictimDocument>,
    evidence: String,
    remedy: &'static str,
}

impl FindingDocument {
    pub(super) fn new(found: &Finding, summary: &Summary) -> Self {
        let who = match found.cause.name {
            Name::Task(comm) => {
                WhoDocument { kind: Some("task"), name: Some(comm.to_string()), ..WhoDocument::default() }
            }
            Name::Noise(source) => WhoDocument::noise(&source),
            Name::Cgroup(id) => WhoDocument::new(&Actor::Cgroup(id), summary),
            Name::Own => WhoDocument {
                kind: Some("task"),
                name: Some("wakelat".to_owned()),
                pid: summary.own_pid,
                ..WhoDocument::default()
            },
            Name::Many(_) | Name::Nobody => WhoDocument::default(),
        };
        let victim =
            |victim: &Victim| VictimDocument { comm: victim.comm.to_string(), sum_ns: victim.ns, of_ns: victim.of_ns };
        Self {
            part: found.cause.part.name(),
            who,
            tasks: if let Name::Many(tasks) = found.cause.name { Some(tasks) } else { None },
            sum_ns: found.sum.ns,
            of_ns: found.whole_ns,
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
