//! Windows with a known cause of waits, composed event by event.

use std::collections::BTreeMap;

use wakelat_common::{Class, timeline::vector};

use super::{NameCache, Summary, SummaryBuilder, SummaryOptions};
use crate::{
    aggregate::key::{Key, Names},
    render::testing,
    report::{CoverageTerms, LatencyFrom, Report},
    timeline::{
        event::{Event, EventKind, ForkExecEvent, InterruptSource, TaskInfo, WorkItemEvent},
        stack_event::{Role, StackEvent, StackId},
        stack_frames::{StackCounts, StackFrames, Symbolize},
        testing::{EventStream, fifo, idle, irq, task},
    },
    wait::{Comm, Namespace},
};

/// A millisecond: ns.
const MS: u64 = 1_000_000;

/// When each window begins: ns of CLOCK_MONOTONIC.
pub const BEGIN: u64 = testing::START_NS;

/// The names of the cgroups, wakers and functions in the windows.
pub struct TestNames;

impl Names for TestNames {
    fn cgroup(&self, id: u64) -> String {
        match id {
            42 => {
                format!("/kubepods/burstable/pod0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/{}", "3f4e5d6c7b8a9012".repeat(4))
            }
            7 => "/system.slice/nginx.service".to_owned(),
            8 => "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            _ => "/".to_owned(),
        }
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        (tid == 900).then(|| Comm::new(b"wrk"))
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        (tid == 2100).then_some(Namespace { pid_ns: Some(4_026_532_301), tid: 17 })
    }

    fn function(&self, address: u64) -> Option<String> {
        match address {
            0xa => Some("vmstat_update".to_owned()),
            0xb => Some("wb_workfn".to_owned()),
            _ => None,
        }
    }
}

fn nginx() -> TaskInfo {
    TaskInfo { cgroup_id: Some(7), ..task(1234, "nginx") }
}

/// Sends requests to nginx.
fn wrk() -> TaskInfo {
    TaskInfo { wanted: false, ..task(900, "wrk") }
}

fn hog(tid: u32) -> TaskInfo {
    TaskInfo { cgroup_id: Some(8), wanted: false, ..task(tid, "stress-ng-cpu") }
}

/// A hog has the CPU; every 10 ms nginx is woken and waits until the hog's slice is over. The tick comes every 4 ms.
pub fn one_hog() -> EventStream {
    let mut stream = EventStream::default();
    stream.switch(1, BEGIN, wrk());
    stream.switch(0, BEGIN, hog(4711));
    for round in 0..20 {
        let start = BEGIN + round * 10 * MS;
        let woken = start + 1_300_000;
        let tick = start + 4 * MS - 700_000;
        stream.interrupt(0, (tick, tick + 9_000), InterruptSource::Vector(vector::LOCAL_TIMER));
        stream.interrupt(0, (tick + 9_000, tick + 21_000), InterruptSource::Softirq(7));
        let waited = stream.end_wait(0, (woken, start + 4 * MS), nginx());
        (waited.wait.delivery_ns, waited.waker_cpu, waited.wait.waker_tid) = (Some(1_800), Some(1), Some(900));
        stream.switch(0, start + 5 * MS, hog(4711));
    }
    stream
}

/// The symbols of the stacks in the windows.
struct TestSymbolizer;

impl Symbolize for TestSymbolizer {
    fn kernel(&self, trace: StackId) -> StackFrames {
        let names = match trace {
            StackId::Id(1) => &["try_to_wake_up", "ep_poll_callback", "__wake_up_common", "sock_def_readable"][..],
            StackId::Id(_) => &["__schedule", "schedule", "ep_poll", "do_epoll_wait"][..],
            missing => return StackFrames::Missing(missing),
        };
        StackFrames::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn user(&self, _: u32, trace: StackId) -> StackFrames {
        match trace {
            StackId::Id(_) => StackFrames::Named(vec!["epoll_wait".to_owned(), "ngx_epoll_process_events".to_owned()]),
            missing => StackFrames::Missing(missing),
        }
    }
}

/// One round of [`one_hog`] with stacks, after which the hog preempts nginx.
pub fn one_round() -> EventStream {
    let mut stream = EventStream::default();
    stream.switch(1, BEGIN, wrk());
    stream.switch(0, BEGIN, hog(4711));
    stream.interrupt(0, (BEGIN + 3 * MS, BEGIN + 3 * MS + 9_000), InterruptSource::Vector(vector::LOCAL_TIMER));
    let (role, at_ns) = (Role::Wakee, BEGIN - MS);
    let (kernel, user) = (StackId::Id(2), StackId::Id(3));
    stream.stack(0, StackEvent { at_ns, role, tid: 1234, by_tid: 1234, by_pid: 1234, kernel, user });
    let (role, at_ns) = (Role::Waker, BEGIN + 1_298_200);
    let (kernel, user) = (StackId::Id(1), StackId::MapFull);
    stream.stack(1, StackEvent { at_ns, role, tid: 1234, by_tid: 900, by_pid: 900, kernel, user });
    let waited = stream.end_wait(0, (BEGIN + 1_300_000, BEGIN + 4 * MS), nginx());
    (waited.wait.delivery_ns, waited.waker_cpu, waited.wait.waker_tid) = (Some(1_800), Some(1), Some(900));
    stream.preempt(0, BEGIN + 5 * MS, hog(4711));
    stream
}

/// Two hogs alternate every 3 ms: each waits, preempted, for the other, and nginx waits for both.
pub fn two_hogs() -> EventStream {
    let mut stream = EventStream::default();
    stream.switch(0, BEGIN, hog(4711));
    for round in 0..30 {
        let at = BEGIN + (round + 1) * 3 * MS;
        let next = hog(4711 + (round as u32 + 1) % 2);
        if round == 17 {
            stream.end_wait(0, (at - 7 * MS, at), nginx());
            stream.switch(0, at + 200_000, next);
            continue;
        }
        stream.preempt(0, at, next);
        let last = stream.events.last_mut().unwrap();
        let crate::timeline::event::EventKind::Switch(switch) = &mut last.kind else { unreachable!() };
        if round > 0 {
            let mut waited = crate::timeline::testing::detailed_wait(0, at - 3 * MS, at, &switch.next, &switch.prev);
            waited.wait.class = Class::Preempted;
            switch.ended_wait = Some(waited);
        }
        switch.prev.wanted = true;
    }
    stream
}

/// A `SCHED_FIFO` thread preempts nginx for 8 ms at a time.
pub fn fifo_thread() -> EventStream {
    let mut stream = EventStream::default();
    let rt = TaskInfo { wanted: false, ..fifo(99, "irq/24-nvme0q1", 49) };
    stream.switch(1, BEGIN, nginx());
    for round in 0..10 {
        let at = BEGIN + round * 20 * MS + 5 * MS;
        stream.preempt(1, at, rt);
        stream.interrupt(1, (at + 2 * MS, at + 2 * MS + 40_000), irq(24, "nvme0q1"));
        stream.end_wait(1, (at, at + 8 * MS), nginx()).wait.class = Class::Preempted;
    }
    stream
}

/// An idle CPU wakes from its third C-state.
pub fn idle_cpu() -> EventStream {
    let mut stream = EventStream::default();
    for round in 0..50 {
        let at = BEGIN + round * 4 * MS;
        stream.switch(2, at, idle());
        let woken = at + 2 * MS;
        stream.interrupt(2, (woken - 110_000, woken - 108_000), InterruptSource::Vector(vector::RESCHEDULE));
        let waited = stream.end_wait(2, (woken - 260_000, woken), nginx());
        (waited.wait.delivery_ns, waited.remote, waited.waker_cpu) = (Some(150_000), true, Some(0));
        waited.wait.waker_tid = Some(0);
        let crate::timeline::event::EventKind::Switch(switch) = &mut stream.events.last_mut().unwrap().kind else {
            unreachable!()
        };
        switch.idle_state = Some(3);
    }
    stream
}

/// A container has used up its quota most of the time; in between, it also waits for a hog.
pub fn throttled() -> EventStream {
    let mut stream = EventStream::default();
    let pod = |name| TaskInfo { cgroup_id: Some(42), ..task(2100, name) };
    stream.switch(0, BEGIN, hog(4711));
    for round in 0..20 {
        let at = BEGIN + round * 100 * MS;
        let waited = stream.end_wait(0, (at + 20 * MS, at + 95 * MS), pod("java"));
        (waited.throttled_ns, waited.throttled_at_start) = (Some(62 * MS), true);
        waited.wait.class = Class::Preempted;
        stream.switch(0, at + 98 * MS, hog(4711));
    }
    stream
}

/// A waiting task migrates to another CPU and continues to wait there.
pub fn migrated() -> EventStream {
    let mut stream = EventStream::default();
    stream.switch(0, BEGIN, hog(4711));
    stream.switch(1, BEGIN, hog(4712));
    stream.migrate(nginx(), BEGIN + 9 * MS, 0, 1);
    let waited = stream.end_wait(1, (BEGIN + 2 * MS, BEGIN + 12 * MS), nginx());
    (waited.cpu, waited.migrations) = (Some(0), 1);
    stream
}

/// Network load: a softirq has the CPU for a long time, interrupted by its device.
pub fn softirqs() -> EventStream {
    let mut stream = EventStream::default();
    stream.switch(0, BEGIN, task(1, "systemd"));
    for round in 0..40 {
        let at = BEGIN + round * 5 * MS;
        for packet in 0..4 {
            let from = at + 500_000 + packet * 300_000;
            stream.interrupt(0, (from, from + 30_000), irq(31, "eth0-rx-0"));
        }
        stream.interrupt(0, (at + 400_000, at + 1_900_000), InterruptSource::Softirq(3));
        stream.end_wait(0, (at + 450_000, at + 2 * MS), nginx()).wait.delivery_ns = Some(900);
        stream.switch(0, at + 2 * MS + 300_000, task(1, "systemd"));
    }
    stream
}

/// `make` creates compilers all the time, each of which has the CPU for 5 ms while nginx waits.
pub fn fork_burst() -> EventStream {
    let mut stream = EventStream::default();
    for round in 0..40 {
        let (at, tid) = (BEGIN + u64::from(round) * 6 * MS, 5_000 + round);
        // Forks and execs happen on a CPU of their own.
        let event = |tid, name: &str, child| {
            EventKind::ForkExec(ForkExecEvent { at_ns: at, tid, comm: Comm::new(name.as_bytes()), child })
        };
        for (seq, kind) in [event(77, "make", Some(tid)), event(tid, "cc1", None)].into_iter().enumerate() {
            stream.events.push(Event { cpu: 9, seq: 2 * round + seq as u32 + 1, kind });
        }
        stream.switch(0, at, TaskInfo { wanted: false, ..task(tid, "cc1") });
        stream.end_wait(0, (at + 100_000, at + 5 * MS), nginx());
    }
    stream
}

/// A workqueue worker has the CPU, most of the time for one function.
pub fn worker() -> EventStream {
    let mut stream = EventStream::default();
    let worker = TaskInfo { wanted: false, ..task(321, "kworker/0:1") };
    for round in 0..20 {
        let at = BEGIN + u64::from(round) * 10 * MS;
        stream.switch(0, at, worker);
        let item = |after_ns, function| EventKind::WorkItem(WorkItemEvent { at_ns: at + after_ns, tid: 321, function });
        let items = [item(100, Some(0xa)), item(MS, None), item(2 * MS, Some(0xb)), item(6 * MS, None)];
        for (seq, kind) in items.into_iter().enumerate() {
            stream.events.push(Event { cpu: 9, seq: 4 * round + seq as u32 + 1, kind });
        }
        stream.end_wait(0, (at + MS / 2, at + 7 * MS), nginx());
    }
    stream
}

/// All windows, by name.
pub fn stories() -> BTreeMap<&'static str, EventStream> {
    BTreeMap::from([
        ("one_hog", one_hog()),
        ("two_hogs", two_hogs()),
        ("fifo_thread", fifo_thread()),
        ("idle_cpu", idle_cpu()),
        ("throttled", throttled()),
        ("migrated", migrated()),
        ("softirqs", softirqs()),
        ("storm", fork_burst()),
        ("worker", worker()),
        ("stacks", one_round()),
    ])
}

/// A summary with the longest wait of all and of each group, and with the stacks of both tasks if `with_stacks`.
pub fn options(from: LatencyFrom, by: &[Key], with_stacks: bool) -> SummaryOptions {
    SummaryOptions {
        from,
        by: by.to_vec(),
        merged: false,
        max_groups: 100,
        worst: 1,
        not_collected: Vec::new(),
        stacks: if with_stacks { vec![Role::Waker, Role::Wakee] } else { Vec::new() },
        own_pids: Vec::new(),
    }
}

/// A thread of wakelat, process 8, preempts another task, and a third one waits for it.
pub fn beside_wakelat() -> EventStream {
    let mut stream = EventStream::default();
    for round in 0..20 {
        let at_ns = BEGIN + 20 * round * MS;
        stream.switch(0, at_ns, task(9, "other"));
        stream.preempt(0, at_ns + MS, task(8, "wakelat"));
        stream.end_wait(0, (at_ns + MS, at_ns + 6 * MS), task(7, "victim"));
        stream.switch(0, at_ns + 7 * MS, idle());
    }
    stream
}

/// The summary of events that wakelat, process 8, has measured.
pub fn summary_of_own(events: &[Event]) -> Summary {
    summarize(events, SummaryOptions { own_pids: vec![8], ..options(LatencyFrom::Wakeup, &[], false) })
}

/// The summary of some events, with stacks if some of the events have stacks.
pub fn summary(events: &[Event], from: LatencyFrom, by: &[Key]) -> Summary {
    let with_stacks = events.iter().any(|event| matches!(event.kind, EventKind::Stack(_)));
    summarize(events, options(from, by, with_stacks))
}

fn summarize(events: &[Event], options: SummaryOptions) -> Summary {
    let with_stacks = !options.stacks.is_empty();
    let mut builder = SummaryBuilder::new(options);
    let mut known = NameCache::default();
    for event in events {
        known.learn(event, &TestNames);
        builder.push(event, &known);
    }
    let counts = StackCounts { attempts: 9, over_budget: 3, no_room: 1, no_user: 2, ..StackCounts::default() };
    let mut summary = builder.summary(1_000 * MS, &TestNames);
    if with_stacks {
        builder.add_stacks(&mut summary, counts, &TestSymbolizer, &known);
    }
    summary
}

/// The report of the window of `summary`.
pub fn report(summary: &Summary) -> Report {
    let mut report = testing::report(Vec::new());
    let waits = |preempted: bool| {
        let is = |group: &&super::groups::GroupBreakdown| (group.class.name() == "preempted") == preempted;
        summary.classes.iter().filter(is).map(|group| group.sums.waits).sum::<u64>()
    };
    let terms = |measured: u64| CoverageTerms { seen: measured + 3, measured, filtered: 3, ..CoverageTerms::default() };
    report.from = summary.from;
    report.coverage.wakeups = terms(waits(false));
    report.coverage.preemptions = Some(terms(waits(true)));
    report.coverage.events_lost = Some(summary.events.lost);
    report.duration_ns = 1_000 * MS;
    report.requested_ns = Some(1_000 * MS);
    report
}
