use proptest::prelude::*;
use wakelat_common::cause_sums::GroupSums;

use super::{
    super::super::testing::TestNames,
    testing::{TestPart, one_neighbour, totals},
    *,
};

fn summary(by: CauseGroups, waits: &[(GroupWords, &[TestPart])]) -> CountedSummary {
    totals(waits).into_summary(&GroupNames { by, names: &TestNames }, SummaryLimits::groups(16), &[])
}

fn ns(causes: &CauseShares) -> Vec<(CountedCause, u128)> {
    causes.iter().map(|(cause, time)| (*cause, time.ns)).collect()
}

fn name(text: &str) -> GroupWords {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    [bytes[..8].try_into().map(u64::from_ne_bytes).unwrap(), bytes[8..].try_into().map(u64::from_ne_bytes).unwrap()]
}

#[test]
fn a_neighbour_is_named_with_its_share() {
    let found = one_neighbour();
    assert_eq!(found.causes[0], (CountedCause::OtherGroups, CauseTime { ns: 9_000_000, waits: 2 }));
    let pair = &found.pairs[0];
    let names = (&*pair.waiting, &*pair.running);
    assert_eq!(names, ("/system.slice/nginx.service", "/user.slice/user-1000.slice/session-3.scope"));
    assert_eq!(found.groups[0].name.as_deref(), Some("/system.slice/nginx.service"));
}

#[test]
fn cgroups_of_no_container_are_the_system_and_those_of_one_container_are_its_own() {
    let parts = [(DividedCause::Task, [42, 0], 5), (DividedCause::Task, [7, 0], 3), (DividedCause::Task, [8, 0], 2)];
    let found = summary(CauseGroups::Containers, &[([42, 0], &parts)]);
    assert_eq!(ns(&found.causes), [(CountedCause::OwnGroup, 5), (CountedCause::System, 5)]);
    assert_eq!(found.pairs.iter().map(|pair| &*pair.running).collect::<Vec<_>>(), ["(none)", "3f4e5d6c7b8a"]);
    let found = summary(CauseGroups::Containers, &[([7, 0], &parts)]);
    assert_eq!(ns(&found.causes), [(CountedCause::OtherGroups, 5), (CountedCause::System, 5)]);
}

#[test]
fn names_are_groups_whatever_the_bytes_after_their_end() {
    let (mut dirty, clean) = (name("nginx"), name("nginx"));
    dirty[1] = 77;
    let parts = [(DividedCause::Task, clean, 5), (DividedCause::Task, name("make"), 4)];
    let found = summary(CauseGroups::Names, &[(dirty, &parts), (clean, &[])]);
    assert_eq!(found.groups.len(), 1);
    assert_eq!(ns(&found.groups[0].causes), [(CountedCause::OwnGroup, 5), (CountedCause::OtherGroups, 4)]);
}

#[test]
fn groups_beyond_the_limit_and_waits_without_room_are_one_group() {
    let mut totals = totals(&[
        ([7, 0], &[(DividedCause::Idle, [0; 2], 50)]),
        ([8, 0], &[(DividedCause::Idle, [0; 2], 30)]),
        ([42, 0], &[(DividedCause::Stolen, [0; 2], 20)]),
    ]);
    let mut undivided = GroupSums::EMPTY;
    undivided.begin_wait(9);
    totals.add_other(&undivided);
    let found =
        totals.into_summary(&GroupNames { by: CauseGroups::Cgroups, names: &TestNames }, SummaryLimits::groups(1), &[]);
    assert_eq!((found.groups.len(), found.groups_merged), (2, 2));
    let rest = &found.groups[1];
    assert_eq!((rest.name.as_deref(), rest.total.sum_ns), (None, 59));
    assert_eq!(
        ns(&rest.causes),
        [(CountedCause::Idle, 30), (CountedCause::Stolen, 20), (CountedCause::UntrackedGroup, 9)]
    );
}

proptest! {
    #[test]
    fn causes_add_up_to_the_waits_of_all_and_of_each_group(
        waits in prop::collection::vec((0..5u64, prop::collection::vec((0..10usize, 0..5u64, 0..1_000u64), 0..6)), 0..40),
        lost in any::<bool>(),
        by in prop::sample::select(vec![CauseGroups::Cgroups, CauseGroups::Containers, CauseGroups::Names]),
        max_groups in 1..6usize,
    ) {
        let group = |number: u64| [[7, 8, 42, 1, 9][number as usize], 0];
        let waits: Vec<(GroupWords, Vec<TestPart>)> = waits
            .into_iter()
            .map(|(waiting, parts)| {
                let part = |(cause, running, ns): (usize, u64, u64)| (DividedCause::ALL[cause], group(running), ns);
                (group(waiting), parts.into_iter().map(part).collect())
            })
            .collect();
        let borrowed: Vec<(GroupWords, &[TestPart])> = waits.iter().map(|(group, parts)| (*group, &parts[..])).collect();
        let mut totals = totals(&borrowed);
        if lost {
            // Waits of a group without room are not divided.
            let mut undivided = GroupSums::EMPTY;
            undivided.begin_wait(9);
            totals.add_other(&undivided);
        }
        let found = totals.into_summary(&GroupNames { by, names: &TestNames }, SummaryLimits::groups(max_groups), &[]);
        let sum = |causes: &CauseShares| causes.iter().map(|(_, time)| time.ns).sum::<u128>();
        let waited: u128 = waits.iter().flat_map(|(_, parts)| parts).map(|(.., ns)| u128::from(*ns)).sum();
        let waited = waited + if lost { 9 } else { 0 };
        prop_assert_eq!((found.all.sum_ns, sum(&found.causes)), (waited, waited));
        prop_assert!(found.groups.iter().all(|group| sum(&group.causes) == group.total.sum_ns));
        prop_assert_eq!(found.groups.iter().map(|group| group.total.sum_ns).sum::<u128>(), waited);
        prop_assert!(found.groups.len() <= max_groups + 1);
    }

    #[test]
    fn pairs_beyond_the_limit_are_the_shortest_and_their_waits_are_counted(
        times in prop::collection::vec(1..1_000u64, 1..20),
        most in 1..20usize,
    ) {
        let running = |number: usize| name(&format!("running/{number}"));
        let parts: Vec<TestPart> =
            times.iter().enumerate().map(|(number, ns)| (DividedCause::Task, running(number), *ns)).collect();
        let all = || totals(&[(name("waiting"), &parts[..])]);
        let names = GroupNames { by: CauseGroups::Names, names: &TestNames };
        let whole = all().into_summary(&names, SummaryLimits::groups(9), &[]);
        let found = all().into_summary(&names, SummaryLimits { groups: 9, pairs: most }, &[]);
        let kept = most.min(times.len());
        let ns = |summary: &CountedSummary| summary.pairs.iter().map(|pair| pair.time.ns).collect::<Vec<_>>();
        prop_assert_eq!(ns(&found), &ns(&whole)[..kept]);
        prop_assert_eq!((found.pairs_lost, &found.causes), ((times.len() - kept) as u64, &whole.causes));
    }
}
