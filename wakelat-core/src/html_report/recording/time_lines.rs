//! The timelines of single waits.

use serde::Serialize;

use super::name_table::NameTable;
use crate::{aggregate::key::Names, render::Style, timeline::Breakdown, why::render::labels};

/// Pieces of a share that are this part of the wait apart, or less, are drawn as one: the gap is not visible.
const VISIBLE: u64 = 1_000;

/// Number of shares of a wait that are drawn, the longest; the others are only in its table.
const DRAWN: usize = 20;

/// The timeline of a wait.
#[derive(Serialize)]
pub struct TimeLine {
    /// The row of the wait.
    row: usize,
    shares: Vec<TimeLineShare>,
}

/// Numbers of the component and of the culprit, its time (ns), and begin and end of each of its pieces since the wait
/// began (ns); no pieces if it is not drawn.
type TimeLineShare = (usize, Option<usize>, u64, Vec<(u64, u64)>);

impl TimeLine {
    /// The timeline of the wait in `row`. Tasks of the processes `own_pids` are wakelat itself.
    pub fn new(row: usize, breakdown: &Breakdown, own_pids: &[u32], names: &dyn Names, table: &mut NameTable) -> Self {
        let pieces = |index: usize| breakdown.pieces(index, breakdown.latency_ns / VISIBLE);
        let mut times: Vec<u64> = breakdown.shares.iter().map(|share| share.ns).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let least_ns = times.get(DRAWN).map_or(0, |ns| ns + 1);
        let mut shares = Vec::new();
        for (index, share) in breakdown.shares.iter().enumerate() {
            let cgroups = labels::cgroup_of(&share.culprit.actor, names);
            let culprit = labels::actor(&share.culprit.actor, &cgroups, &Style::default())
                + labels::own_mark(&share.culprit.actor, own_pids);
            let culprit = (!culprit.is_empty()).then(|| table.number(culprit));
            let component = table.number(labels::component(share.culprit.component).to_owned());
            shares.push((component, culprit, share.ns, if share.ns >= least_ns { pieces(index) } else { Vec::new() }));
        }
        Self { row, shares }
    }
}
