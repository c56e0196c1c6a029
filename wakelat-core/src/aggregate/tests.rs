//! Tests of the groups.

use proptest::prelude::*;
use wakelat_common::{
    Sample, bucket,
    group::octave,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN, KIND_SAMPLE},
};

use super::*;
use crate::{
    decode,
    render::testing::wait,
    report::LatencyFrom,
    timeline::{
        Timeline,
        testing::{EventStream, irq, task},
    },
};

struct Paths;

impl Names for Paths {
    fn cgroup(&self, id: u64) -> String {
        let id_of_container = "3f4e5d6c7b8a9012".repeat(4);
        match id {
            1 => format!("/docker/{id_of_container}"),
            2 => format!("/docker/{id_of_container}/init.scope"),
            _ => "/system.slice/nginx.service".to_owned(),
        }
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        (tid == 77).then(|| Comm::new(b"bash"))
    }
}

#[test]
fn wakers_of_the_longest_waits_have_names_if_known() {
    let mut groups = Groups::new(Vec::new(), false, 10);
    [Some(77), Some(78), None].into_iter().for_each(|waker_tid| groups.record(&Wait { waker_tid, ..wait() }));
    let report = groups.report(&Paths, None);
    assert_eq!(report[0].wakers, BTreeMap::from([(77, Comm::new(b"bash"))]));
}

#[test]
fn a_report_shares_its_distributions_instead_of_copying_them() {
    let mut groups = Groups::new(vec![Key::Tid], false, 10);
    (0..1_000).for_each(|latency_ns| groups.record(&Wait { latency_ns, ..wait() }));
    let first = groups.report(&Paths, None);
    assert!(groups.groups.values().all(|waits| Arc::ptr_eq(&waits.distribution, &first[0].distribution)));
    // A wait that is recorded while a report exists does not change that report.
    groups.record(&wait());
    assert_eq!((first[0].distribution.count(), groups.report(&Paths, None)[0].distribution.count()), (1_000, 1_001));
}

#[test]
fn a_merged_wait_counts_once_however_many_components_it_has() {
    let mut stream = EventStream::default();
    stream.switch(0, 0, task(1, "hog"));
    stream.interrupt(0, (300, 310), irq(1, "x"));
    stream.end_wait(0, (100, 900), task(2, "waiter"));
    let mut timeline = Timeline::new(LatencyFrom::Wakeup);
    let breakdowns: Vec<Breakdown> = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect();
    let components = breakdowns[0].components().count();
    assert_eq!((breakdowns.len(), components), (1, 2));
    for (limit, merged) in [(components, 0), (components - 1, 1), (0, 1)] {
        let mut groups = Groups::new(vec![Key::Component], false, limit);
        groups.record_breakdown(&breakdowns[0]);
        groups.report(&Paths, None);
        assert_eq!(groups.merged(), merged, "room for {limit}");
    }
}

fn shown(report: &[Group]) -> Vec<(String, u64)> {
    report.iter().map(|group| (group.key[0].value.to_string(), group.distribution.count())).collect()
}

#[test]
fn the_groups_that_waited_longest_are_shown_even_if_they_appear_late() {
    let mut groups = Groups::new(vec![Key::Tid], false, 2);
    let mut add = |tid, waits| (0..waits).for_each(|_| groups.record(&Wait { tid, latency_ns: 100, ..wait() }));
    (1..=5).for_each(|tid| add(tid, 1));
    add(6, 7);
    add(2, 3);
    let expected = [("6", 7), ("2", 4), ("(other)", 4)].map(|(tid, waits)| (tid.to_owned(), waits));
    let mut report = shown(&groups.report(&Paths, None));
    report.sort_by_key(|(tid, waits)| (tid == "(other)", std::cmp::Reverse(*waits)));
    assert_eq!(report, expected);
    assert_eq!(groups.merged(), 4);
    // A report changes nothing.
    assert_eq!(groups.report(&Paths, None).len(), 3);
    assert_eq!(groups.merged(), 4);
}

#[test]
fn evicting_groups_loses_no_wait_and_keeps_a_steady_group() {
    let mut groups = Groups::new(vec![Key::Tid], false, 4);
    groups.room = 64;
    for tid in 1..=10_000 {
        groups.record(&Wait { tid, latency_ns: 100, ..wait() });
        groups.record(&Wait { tid: 20_000, latency_ns: 90, ..wait() });
    }
    let report = groups.report(&Paths, None);
    let counts = shown(&report);
    let steady = counts.iter().find(|(tid, _)| tid == "20000").expect("it waited longest");
    assert_eq!(steady.1, 10_000);
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 20_000);
    assert_eq!(groups.merged(), 20_000 - 10_000 - 3);
    assert!(groups.groups.size() <= 64);
}

#[test]
fn all_cgroups_of_a_container_are_one_group() {
    let mut groups = Groups::new(vec![Key::Container], false, 10);
    for cgroup_id in [1, 2, 2, 3] {
        groups.record(&Wait { cgroup_id: Some(cgroup_id), ..wait() });
    }
    let report = groups.report(&Paths, None);
    assert_eq!(shown(&report), [("3f4e5d6c7b8a".to_owned(), 3), ("(none)".to_owned(), 1)]);
}

/// The elements in which the programs keep `waits`, which they group by `parts`: one for each key, octave, class
/// and CPU.
fn elements(waits: &[Wait], keys: &[Key]) -> Vec<(GroupElement, Wait)> {
    let mut elements: Vec<(GroupKey, u8, GroupElement)> = Vec::new();
    for wait in waits {
        let key = GroupKey::new(wait, &[keys, &[Key::Cpu, Key::Class]].concat(), false);
        let index = bucket::index(wait.latency_ns);
        let octave = octave(index);
        let found = elements.iter().position(|element| (element.0, element.1) == (key, octave));
        let at = found.unwrap_or_else(|| {
            elements.push((key, octave, GroupElement::EMPTY));
            elements.len() - 1
        });
        elements[at].2.record(index, wait.latency_ns, || sample(wait));
    }
    elements.into_iter().map(|(_, _, element)| (element, decode::wait(&element.longest).unwrap())).collect()
}

fn sample(wait: &Wait) -> Sample {
    let mut comm = [0; 16];
    comm[..wait.comm.as_bytes().len()].copy_from_slice(wait.comm.as_bytes());
    Sample {
        kind: KIND_SAMPLE,
        class: wait.class as u8,
        cpu: wait.cpu,
        at_ns: wait.at_ns,
        latency_ns: wait.latency_ns,
        delivery_ns: DELIVERY_UNKNOWN,
        cgroup_id: wait.cgroup_id.unwrap_or(0),
        pid: wait.tid,
        tgid: wait.pid,
        prev_cpu: CPU_UNKNOWN,
        comm,
        ..Sample::NONE
    }
}

fn any_wait() -> impl Strategy<Value = Wait> {
    (0..3_u32, 0..3_u32, 0..3_u64, 0..2_u32, 0..3_u8, (0..40_u32, 0..64_u64), 0..1_000_u64).prop_map(
        |(tid, pid, cgroup_id, cpu, class, (shift, value), at_ns)| Wait {
            class: Class::from_u8(class).unwrap(),
            at_ns,
            latency_ns: value << shift,
            tid: 1 + tid,
            pid: 1 + pid,
            comm: Comm::new(&[b'a' + tid as u8]),
            cgroup_id: (cgroup_id > 0).then_some(cgroup_id),
            cpu,
            ..wait()
        },
    )
}

proptest! {
    #[test]
    fn groups_of_the_kernel_are_those_of_its_samples(
        waits in prop::collection::vec(any_wait(), 1..200),
        keys in prop::sample::subsequence(
            vec![Key::Cpu, Key::Class, Key::Cgroup, Key::Container, Key::Pid, Key::Tid, Key::Comm], 1..7,
        ),
        merged: bool,
    ) {
        prop_assume!(group_parts(&keys) != 0);
        let mut samples = Groups::new(keys.clone(), merged, 100);
        waits.iter().for_each(|wait| samples.record(wait));
        let mut counted = Groups::new(keys.clone(), merged, 100);
        elements(&waits, &keys).iter().for_each(|(element, longest)| counted.add_element(element, longest));
        let (samples, counted) = (samples.report(&Paths, None), counted.report(&Paths, None));
        prop_assert_eq!(samples.len(), counted.len());
        for (sampled, counted) in samples.iter().zip(&counted) {
            prop_assert_eq!((&sampled.key, sampled.class), (&counted.key, counted.class));
            let exact = |group: &Group| {
                let waits = &group.distribution;
                (waits.count(), waits.sum_ns(), waits.min_ns(), waits.max_ns(), waits.buckets())
            };
            prop_assert_eq!(exact(sampled), exact(counted));
            let worst = |group: &Group| group.worst.iter().map(|wait| wait.latency_ns).collect::<Vec<_>>();
            // The longest is always known; the others as far as no wait of an element can be longer.
            prop_assert!(!counted.worst.is_empty());
            prop_assert!(worst(sampled).starts_with(&worst(counted)));
        }
    }
}

#[test]
fn waits_without_room_in_the_kernel_are_the_group_other() {
    let mut groups = Groups::new(vec![Key::Tid], false, 10);
    let own = Wait { latency_ns: 100, ..wait() };
    elements(&[own; 3], &[Key::Tid]).iter().for_each(|(element, longest)| groups.add_element(element, longest));
    let mut histogram = Box::new(Histogram::EMPTY);
    for latency_ns in [7, 5_000] {
        let without_room = Wait { latency_ns, tid: 9, ..wait() };
        histogram.record(latency_ns, || sample(&without_room));
    }
    groups.add_counted(Class::Wakeup, &histogram, histogram.worst().iter().flat_map(decode::wait));
    let report = groups.report(&Paths, None);
    assert_eq!(shown(&report), [("1234".to_owned(), 3), ("(other)".to_owned(), 2)]);
    assert_eq!((groups.merged(), groups.table_full()), (2, 2));
    assert_eq!(report[1].worst.iter().map(|wait| wait.latency_ns).collect::<Vec<_>>(), [5_000, 7]);
    groups.clear();
    assert_eq!((groups.report(&Paths, None).len(), groups.merged(), groups.table_full()), (0, 0, 0));
}
