//! Causes of a window, composed wait by wait.

use std::collections::HashMap;

use wakelat_common::{
    cause_sums::{BY_OWN_GROUP, GroupSums, LongestWait, PairKey, PairSum},
    wait_division::{DividedCause, GroupWords, has_group},
};

use super::{
    super::{super::testing::TestNames, CauseGroups, CauseTotals},
    CountedCause, CountedSummary, GroupNames, SummaryLimits,
};

/// A millisecond: ns.
const MS: u64 = 1_000_000;

/// A part of a wait: why, while which group ran, and for how long in ns.
pub type TestPart = (DividedCause, GroupWords, u64);

/// Waits of preempted tasks, each with its group and its parts, the last one first, as the programs of one CPU would count
/// them.
pub fn totals(waits: &[(GroupWords, &[TestPart])]) -> CauseTotals {
    let mut groups: HashMap<GroupWords, GroupSums> = HashMap::new();
    let mut pairs: HashMap<(u32, GroupWords, GroupWords), PairSum> = HashMap::new();
    for (waiting, parts) in waits {
        let sums = groups.entry(*waiting).or_insert(GroupSums::EMPTY);
        let latency_ns = parts.iter().map(|(.., ns)| ns).sum();
        sums.begin_wait(latency_ns);
        if sums.is_longest(latency_ns) {
            sums.longest =
                LongestWait { at_ns: 1_000_000_500, pid: 4711, comm: [u64::from_ne_bytes(*b"wl-task\0"), 0] };
        }
        if let [.., (first, running, _)] = parts {
            let by_own = *first == DividedCause::Task && running == waiting;
            sums.count_preemption(if by_own { BY_OWN_GROUP } else { *first as u32 });
        }
        for (cause, running, ns) in parts.iter().filter(|(.., ns)| *ns > 0) {
            sums.add(*cause as u32, *ns, 0);
            if has_group(*cause as u32) {
                let pair = pairs.entry((*cause as u32, *waiting, *running)).or_insert(PairSum::EMPTY);
                pair.add(*ns, sums.count, 0);
            }
        }
    }
    let mut totals = CauseTotals::default();
    groups.iter().for_each(|(waiting, sums)| totals.add_group(*waiting, sums));
    pairs.iter().for_each(|((cause, waiting, running), sum)| {
        totals.add_pair(&PairKey::new(0, 0, *cause, *waiting, *running), sum);
    });
    totals
}

/// nginx (cgroup 7) waits behind its own tasks and behind those of session-3 (cgroup 8), which also waits.
pub fn one_neighbour() -> CountedSummary {
    let (nginx, session) = ([7, 0], [8, 0]);
    let waits: Vec<(GroupWords, &[TestPart])> = vec![
        (
            nginx,
            &[
                (DividedCause::Task, [8, 0], 6 * MS),
                (DividedCause::Task, [7, 0], MS),
                (DividedCause::Idle, [0; 2], 40_000),
            ],
        ),
        (nginx, &[(DividedCause::Task, [8, 0], 3 * MS), (DividedCause::KernelThread, [1, 0], 50_000)]),
        (session, &[(DividedCause::Higher, [1, 0], 2 * MS), (DividedCause::BeforeHistory, [0; 2], 10_000)]),
    ];
    let names = GroupNames { by: CauseGroups::Cgroups, names: &TestNames };
    totals(&waits).into_summary(&names, SummaryLimits::groups(16), &[CountedCause::Interrupts])
}
