//! The figures equal the results of other parts of wakelat for the same events, however they are grouped and merged.

use std::sync::Arc;

use proptest::prelude::*;

use super::{
    data::{measured_time::Measuring, wait_buckets::OCTAVES, wait_table::WaitTable},
    testing::demo,
    view::{
        group_details::GroupDetails,
        group_id::{GroupId, Grouping},
        group_rows::GroupRows,
        selection::{Selection, TimeSpan},
        wait_filter::WaitFilter,
    },
};
use crate::{
    aggregate::key::Names,
    hash::HashMap,
    report::LatencyFrom,
    timeline::{
        component::Component,
        event::{Event, EventKind},
        testing::{EventStream, idle, task},
    },
    why::{
        NameCache, SummaryBuilder, SummaryOptions,
        testing::{TestNames, one_hog, softirqs, throttled},
    },
};

fn options() -> SummaryOptions {
    SummaryOptions {
        from: LatencyFrom::Wakeup,
        by: Vec::new(),
        merged: true,
        max_groups: 10,
        worst: 20,
        not_collected: Vec::new(),
        stacks: Vec::new(),
        own_pids: Vec::new(),
    }
}

/// What is measured of these events, and the summary of `why`.
struct Both {
    measuring: Measuring,
    builder: SummaryBuilder,
    known: NameCache,
}

impl Both {
    fn new() -> Self {
        Self {
            measuring: Measuring::new(LatencyFrom::Wakeup, false),
            builder: SummaryBuilder::new(options()),
            known: NameCache::default(),
        }
    }

    fn event(&mut self, event: Option<&Event>, names: &dyn Names) {
        let Some(event) = event else {
            self.measuring.start_window();
            return self.builder.start_window();
        };
        self.known.learn(event, names);
        self.builder.push(event, &self.known);
        self.measuring.event(event, 0, names);
    }

    fn of(events: &[Event]) -> Self {
        let mut both = Self::new();
        events.iter().for_each(|event| both.event(Some(event), &TestNames));
        both
    }

    /// Asserts that both have the same sums in every grouping, and in details.
    fn assert_equal(mut self) {
        self.measuring.end_report();
        let summary = self.builder.summary(1, &self.known);
        let all = summary.all();
        assert!(all.waits > 0);
        let Measuring { measured, names, .. } = &self.measuring;
        for span in [TimeSpan::All, TimeSpan::Between(0, u64::MAX)] {
            let tables = span.tables(measured);
            for grouping in Grouping::ALL {
                let rows = GroupRows::new(&tables, &Selection::default(), grouping, names);
                let figures = &rows.all.figures;
                let shown = (figures.waits, u128::from(figures.ns), figures.max_ns, figures.latencies.count());
                assert_eq!(shown, (all.waits, all.ns, all.max_ns, all.waits), "{span:?} {grouping:?}");
                for component in Component::ALL {
                    let ns = u128::from(figures.components[component as usize]);
                    assert_eq!(ns, all.component(component).ns, "{component:?}");
                }
                let of_groups = rows.groups.iter().map(|group| group.figures.ns).sum::<u64>();
                assert_eq!(of_groups, figures.ns);
            }
            let details = GroupDetails::new(measured, span, &Selection::default(), names);
            let culprits: u64 = details.culprits.iter().map(|(_, ns)| ns).sum();
            assert_eq!(culprits + details.others_ns(), details.figures.ns);
            let longest = |ns: &u64| *ns >= details.missing_ns;
            let shown: Vec<u64> = details.longest.iter().map(|wait| wait.latency_ns).filter(longest).collect();
            let expected: Vec<u64> =
                summary.worst.iter().map(|wait| wait.breakdown.latency_ns).filter(longest).collect();
            let common = shown.len().min(expected.len());
            assert!(common > 0);
            assert_eq!(shown[..common], expected[..common]);
            for wait in &details.longest {
                let shares: u64 = wait.shares.iter().map(|share| share.ns).sum();
                assert_eq!(shares + wait.left_out.1, wait.latency_ns);
            }
        }
    }
}

#[test]
fn the_sums_of_the_demo_are_those_of_why() {
    let mut both = Both::new();
    demo(|event, _, names| both.event(event, names));
    both.assert_equal();
}

#[test]
fn the_sums_of_known_causes_are_those_of_why() {
    for stream in [one_hog(), throttled(), softirqs()] {
        Both::of(&stream.events).assert_equal();
    }
}

#[test]
fn run_times_are_the_sums_of_the_slices() {
    let mut measuring = Measuring::new(LatencyFrom::Wakeup, false);
    let mut slices: HashMap<(u32, u32), u64> = HashMap::default();
    let mut since: HashMap<u32, (u32, u64)> = HashMap::default();
    let mut last_ns = 0;
    demo(|event, _, names| {
        let Some(event) = event else {
            since.values_mut().for_each(|(_, since_ns)| *since_ns = last_ns);
            slices.clear();
            return measuring.start_window();
        };
        if let EventKind::Switch(switch) = &event.kind
            && let Some((tid, since_ns)) = since.insert(event.cpu, (switch.next.tid, switch.at_ns))
        {
            let is_seen = tid == switch.prev.tid && switch.unseen.is_none();
            // Without its switch-out, a task is taken to have run until the end of the interval before.
            let to_ns = if is_seen { switch.at_ns } else { (switch.at_ns - 1) / 125_000_000 * 125_000_000 };
            *slices.entry((tid, event.cpu)).or_default() += to_ns.saturating_sub(since_ns);
        }
        last_ns = last_ns.max(event.kind.at_ns());
        measuring.event(event, 0, names);
    });
    measuring.end_report();
    for (cpu, (tid, since_ns)) in since {
        *slices.entry((tid, cpu)).or_default() += last_ns - since_ns;
    }
    slices.retain(|(tid, _), ns| *tid != 0 && *ns > 0);
    let mut shown: HashMap<(u32, u32), u64> = HashMap::default();
    for ((task, cpu), ns) in &measuring.measured.total.runs {
        *shown.entry((task.tid, *cpu)).or_default() += ns;
    }
    assert!(slices.len() > 50, "{}", slices.len());
    assert_eq!(shown, slices);
}

#[test]
fn a_filter_and_a_group_select_the_same_waits() {
    let mut measuring = Measuring::new(LatencyFrom::Wakeup, false);
    demo(|event, _, names| event.into_iter().for_each(|event| measuring.event(event, 0, names)));
    measuring.end_report();
    let Measuring { measured, names, .. } = &measuring;
    let tables = TimeSpan::All.tables(measured);
    let all = GroupRows::new(&tables, &Selection::default(), Grouping::Task, names);
    let of_all = GroupDetails::new(measured, TimeSpan::All, &Selection::default(), names);
    let mut over_time: Vec<_> = of_all.over_time.iter().map(|(number, _)| (*number, [0; OCTAVES])).collect();
    for row in &all.groups {
        let GroupId::Task(tid, comm) = row.id else { panic!("{:?}", row.id) };
        let group = GroupDetails::new(
            measured,
            TimeSpan::All,
            &Selection { scope: vec![row.id], ..Selection::default() },
            names,
        );
        assert_eq!(
            (group.figures.waits, group.figures.ns, group.run_ns),
            (row.figures.waits, row.figures.ns, row.run_ns)
        );
        for ((_, sum), (_, of_group)) in over_time.iter_mut().zip(group.over_time) {
            sum.iter_mut().zip(of_group).for_each(|(sum, waits)| *sum += waits);
        }
        let filter =
            WaitFilter::parse(&format!("--tid {tid} --comm {}", comm.to_string().replace('[', "[[]"))).unwrap();
        let rows = GroupRows::new(&tables, &Selection { filter, ..Selection::default() }, Grouping::Task, names);
        assert_eq!((rows.all.figures.waits, rows.all.run_ns), (row.figures.waits, row.run_ns), "{comm} {tid}");
    }
    assert!(over_time.len() > 10 && over_time == of_all.over_time, "{over_time:?}");
}

#[test]
fn intervals_of_a_long_time_are_merged_and_keep_all_sums() {
    let mut stream = EventStream::default();
    for second in 0..4_000u64 {
        let at_ns = 1 + second * 1_000_000_000;
        stream.switch(0, at_ns, task(7, "hog"));
        stream.end_wait(0, (at_ns, at_ns + 500_000_000), task(8 + (second % 3) as u32, "nginx"));
        stream.switch(0, at_ns + 600_000_000, idle());
    }
    let mut both = Both::of(&stream.events);
    both.measuring.end_report();
    let measured = &both.measuring.measured;
    assert!((300..=600).contains(&measured.intervals.len()), "{}", measured.intervals.len());
    assert_eq!(measured.interval_ns, 8_000_000_000);
    let tables = TimeSpan::Between(0, u64::MAX).tables(measured);
    let run_ns: u64 = tables.iter().flat_map(|table| table.runs.values()).sum();
    assert_eq!(run_ns, 4_000 * 600_000_000);
    assert_eq!(tables.iter().map(|table| table.latencies.count()).sum::<u64>(), 4_000);
    both.assert_equal();
}

#[test]
fn tasks_without_room_are_counted_as_others() {
    let mut table = WaitTable::default();
    let mut timeline = crate::timeline::Timeline::default();
    let mut stream = EventStream::default();
    for tid in 1..=100u64 {
        stream.switch(0, tid * 1_000, idle());
        stream.end_wait(0, (tid * 1_000, tid * 1_000 + tid), task(tid as u32, "task"));
    }
    for event in &stream.events {
        if let Some(breakdown) = timeline.push(event) {
            table.add(breakdown, || super::data::kept_wait::KeptWait::new(breakdown, 0, None));
        }
    }
    (1..=100).for_each(|tid| table.add_run(super::data::wait_table::TaskKey::new(&task(tid, "task")), 0, tid.into()));
    table.shorten(16);
    assert_eq!((table.waits.len(), table.runs.len(), table.merged_waits), (15, 15, 86));
    let names = super::data::task_names::TaskNames::default();
    let tables = [Arc::new(table)];
    let rows = GroupRows::new(&tables, &Selection::default(), Grouping::Task, &names);
    assert_eq!((rows.all.figures.waits, rows.all.figures.ns, rows.all.run_ns), (100, 5_050, 5_050));
    assert_eq!(rows.all.figures.max_ns, 100);
    assert!(rows.groups.iter().any(|row| row.id.name(&names, &crate::render::Style::default()) == "(other)"));
}

proptest! {
    #[test]
    fn merging_tables_in_any_order_keeps_counts_and_sums(
        waits in prop::collection::vec((1..6u32, 0..2u32, 1..1_000_000u64), 1..80), cut in 0..80usize,
    ) {
        let mut stream = EventStream::default();
        let mut at_ns = 1_000_000;
        for (tid, cpu, ns) in &waits {
            stream.switch(*cpu, at_ns, task(99, "hog"));
            stream.end_wait(*cpu, (at_ns, at_ns + ns), task(*tid, "task"));
            at_ns += ns + 1;
        }
        let (mut timeline, mut parts) = (crate::timeline::Timeline::default(), [WaitTable::default(), WaitTable::default()]);
        let mut added = 0;
        for event in &stream.events {
            if let Some(breakdown) = timeline.push(event) {
                let part = usize::from(added >= cut);
                parts[part].add(breakdown, || super::data::kept_wait::KeptWait::new(breakdown, 0, None));
                added += 1;
            }
        }
        let [first, second] = parts;
        let (mut one, mut other) = (first.clone(), second.clone());
        one.merge(&second);
        other.merge(&first);
        for table in [one, other] {
            let sums = table.waits.values().map(|sum| &sum.figures);
            prop_assert_eq!(sums.clone().map(|figures| figures.waits).sum::<u64>(), waits.len() as u64);
            prop_assert_eq!(sums.map(|figures| figures.ns).sum::<u64>(), table.ns);
            prop_assert_eq!(table.ns, waits.iter().map(|(.., ns)| ns).sum::<u64>());
            let mut longest: Vec<u64> = waits.iter().map(|(.., ns)| *ns).collect();
            longest.sort_unstable_by(|a, b| b.cmp(a));
            let kept: Vec<u64> = table.longest.waits().iter().map(|wait| wait.latency_ns).collect();
            let whole = kept.partition_point(|ns| *ns > table.longest.missing_ns());
            prop_assert_eq!(&kept[..whole], &longest[..whole]);
        }
    }
}
