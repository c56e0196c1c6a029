//! The encoded bytes of every frame: a recording is also read by builds other than the one that wrote
//! it.

use std::{borrow::Cow, fmt::Write as _};

use wakelat_common::{Class, pending_wait::PrevState, sample::KernelCounts};

use super::{
    CollectedEvents, Encoder, Frame, FrameSink as _, GroupHistogram, Header, IntervalHistograms, Kept, MoreEvents,
    RecordedMachine, RunBefore, histograms::Longest,
};
use crate::{
    aggregate::{
        RecordedKey,
        distribution::Maximum,
        key::{Key, KeyValues},
    },
    files::Files,
    report::{
        Coverage, CoverageTerms, LatencyFrom, Mode, Overhead, ProgramTime, Report, Sampling, SwitchInTerms, Threshold,
    },
    timeline::{
        event::{
            DetailedWait, Event, EventKind, ForkExecEvent, InterruptEvent, InterruptSource, MigrationEvent,
            SwitchEvent, TaskInfo, Unseen, WakeupEvent, WorkItemEvent,
        },
        stack_event::{Role, StackEvent, StackId},
        stack_frames::{NoSymbols, StackCounts, StackFrames},
    },
    wait::{Comm, Namespace, Wait},
};

/// A task whose fields have different values, so that swapped fields are noticed.
fn task_info(first: u32, cgroup_id: Option<u64>) -> TaskInfo {
    let comm = Comm::new(b"nginx");
    TaskInfo { tid: first, pid: first + 1, comm, prio: -1, policy: first + 2, cgroup_id, wanted: true }
}

fn wait(class: Class) -> Wait {
    Wait {
        class,
        at_ns: 1,
        latency_ns: 2,
        delivery_ns: Some(3),
        tid: 4,
        pid: 5,
        comm: Comm::new(b"nginx"),
        cgroup_id: Some(6),
        prio: 7,
        policy: 8,
        cpu: 9,
        prev_cpu: Some(10),
        waker_tid: Some(11),
        prev_tid: 12,
        prev_comm: Comm::new(b"cc1plus"),
        prev_prio: 13,
        kernel_counts: KernelCounts::Unknown,
        sampling_shift: 14,
    }
}

fn detailed_wait(class: Class) -> DetailedWait {
    DetailedWait {
        wait: wait(class),
        cpu: Some(15),
        waker_cpu: Some(16),
        remote: false,
        migrations: 17,
        throttled_ns: Some(18),
        throttled_at_start: true,
        stolen_ns: 19,
    }
}

/// A wait with the tasks and the time of [`switch`], on the CPU of its event.
fn wait_of_switch(class: Class) -> DetailedWait {
    let (prev, next) = (task_info(22, Some(25)), task_info(26, None));
    let wait = Wait {
        at_ns: 29,
        tid: next.tid,
        pid: next.pid,
        cgroup_id: next.cgroup_id,
        prio: next.prio,
        policy: next.policy,
        cpu: 200,
        prev_tid: prev.tid,
        prev_comm: prev.comm,
        prev_prio: prev.prio,
        ..wait(class)
    };
    DetailedWait { wait, ..detailed_wait(class) }
}

fn switch(prev_state: PrevState) -> SwitchEvent {
    let unseen = Some(Unseen { switches: Some(20), switched_in_ns: Some(21) });
    let (prev, next) = (task_info(22, Some(25)), task_info(26, None));
    SwitchEvent {
        at_ns: 29,
        prev,
        unseen,
        prev_state,
        next,
        ended_wait: None,
        idle_state: Some(30),
        rt_throttled: true,
    }
}

fn switches() -> Vec<EventKind> {
    let by_state =
        [PrevState::Runnable, PrevState::PreemptedSleeping, PrevState::Sleeping, PrevState::Dead].map(switch);
    let by_class =
        Class::ALL.map(|class| SwitchEvent { ended_wait: Some(detailed_wait(class)), ..switch(PrevState::Sleeping) });
    let usual =
        Class::ALL.map(|class| SwitchEvent { ended_wait: Some(wait_of_switch(class)), ..switch(PrevState::Dead) });
    by_state.into_iter().chain(by_class).chain(usual).map(|switch| EventKind::Switch(Box::new(switch))).collect()
}

fn events() -> Vec<EventKind> {
    let comm = Comm::new(b"make");
    let interrupt = |source| EventKind::Interrupt(InterruptEvent { source, from_ns: 1, to_ns: 2 });
    let stack = |role, kernel, user| {
        EventKind::Stack(StackEvent { at_ns: 1, role, tid: 2, by_tid: 3, by_pid: 4, kernel, user })
    };
    let others = [
        interrupt(InterruptSource::Irq { number: 3, name: Comm::new(b"eth0") }),
        interrupt(InterruptSource::Vector(4)),
        interrupt(InterruptSource::Softirq(5)),
        EventKind::Migration(MigrationEvent { at_ns: 1, tid: 2, comm, waiting: true, from_cpu: 3, to_cpu: 4 }),
        EventKind::Wakeup(WakeupEvent {
            at_ns: 1,
            tid: 2,
            comm,
            new: true,
            running: false,
            target_cpu: 3,
            waker_tid: 4,
        }),
        EventKind::WorkItem(WorkItemEvent { at_ns: 1, tid: 2, function: Some(0xffff_ffff_8100_0000) }),
        EventKind::ForkExec(ForkExecEvent { at_ns: 1, tid: 2, comm, child: Some(3) }),
        stack(Role::Waker, StackId::Id(5), StackId::MapFull),
        stack(Role::Wakee, StackId::Missing, StackId::Id(6)),
    ];
    switches().into_iter().chain(others).collect()
}

fn terms(first: u64) -> CoverageTerms {
    CoverageTerms {
        seen: first,
        carried: first + 1,
        measured: first + 2,
        already_running: first + 3,
        already_queued: first + 4,
        filtered: first + 5,
        below_threshold: first + 6,
        not_sampled: first + 7,
        task_table_full: first + 8,
        ring_buffer_full: first + 9,
        invalid: first + 10,
        missed_switch: first + 11,
        still_waiting: first + 12,
        paused: first + 13,
    }
}

fn switch_ins() -> SwitchInTerms {
    SwitchInTerms {
        seen: 1,
        measured: 2,
        filtered: 3,
        below_threshold: 4,
        other_class: 5,
        ring_buffer_full: 6,
        invalid: 7,
        unknown_start: 8,
        after_unseen: 9,
        not_timed: 10,
        unknown_ns: 11,
        unseen: 12,
        unseen_ns: 13,
        to_idle: 14,
        unseen_switches: 15,
        still_waiting: Some(16),
    }
}

fn report(from: LatencyFrom, mode: Mode) -> Report {
    let oldest = Maximum { latency_ns: 7, at_ns: 8, tid: 9, comm: Comm::new(b"nginx"), cpu: 10 };
    let programs = ProgramTime { ns: 11, switches: 12, timed_runs: 13 };
    Report {
        kernel: "6.1".to_owned(),
        start_unix_ns: 1,
        duration_ns: 2,
        requested_ns: Some(66),
        skipped_intervals: 67,
        reader_waited_ns: Some(68),
        not_written: 69,
        unix_offset_ns: -3,
        from,
        mode,
        groups: Vec::new(),
        files: Files::default(),
        coverage: Coverage {
            wakeups: terms(20),
            preemptions: Some(terms(40)),
            switch_ins: Some(switch_ins()),
            missed: Some(4),
            events_lost: Some(5),
            oldest_waiting: Some(oldest),
            groups_merged: 6,
            group_table_full: 0,
            filtered_is_own: true,
            missing_ends: Vec::new(),
            text: None,
        },
        threshold: Some(Threshold { threshold_ns: 14, over: 15 }),
        overhead: Some(Overhead { cpus: 16, tool_ns: 17, programs }),
        sampling: Some(Sampling { limit_ppm: 18, one_in_least: 19, one_in_most: 64, measured_ns: 65 }),
    }
}

fn every_frame() -> Vec<Frame<'static>> {
    let collected = CollectedEvents { irq: true, idle: false, throttling: true, workqueue: true, fork: false };
    let machine = RecordedMachine {
        host: "web-1".to_owned(),
        kernel: "6.1".to_owned(),
        kernel_version: "#1 SMP".to_owned(),
        architecture: "x86_64".to_owned(),
        scheduler: "CFS".to_owned(),
        cpus_online: "0-3".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
    };
    let header = |from, kept, more| {
        Frame::Header(Box::new(Header {
            version: "0.1.0".to_owned(),
            command_line: vec!["wakelat".to_owned(), "record".to_owned()],
            machine: machine.clone(),
            boottime_offset_ns: 5,
            labels: [("release".to_owned(), "42".to_owned())].into(),
            trigger: Some("SIGUSR1".to_owned()),
            from,
            classes: Class::ALL.into(),
            threshold_ns: Some(6),
            merged: true,
            collected,
            own_pid: Some(1234),
            has_warm_up: false,
            kept,
            more,
            text: None,
        }))
    };
    let histograms = Kept::Histograms { by: vec![Key::Cgroup, Key::Comm], interval_ns: 1_000_000_000 };
    let comm = Comm::new(b"make");
    let values = KeyValues { class: Class::Preempted, tid: 300, pid: 299, comm, cgroup_id: 7, cpu: 1, file: 0 };
    let mut frames = vec![
        header(LatencyFrom::Wakeup, Kept::Events, MoreEvents::default()),
        header(LatencyFrom::Wakeup, Kept::Events, MoreEvents { wakeups: true, ..MoreEvents::default() }),
        header(LatencyFrom::Wakeup, Kept::Events, MoreEvents { migrations: true, ..MoreEvents::default() }),
        header(LatencyFrom::Wakeup, Kept::Events, MoreEvents { waker_stacks: true, ..MoreEvents::default() }),
        header(LatencyFrom::Wakeup, Kept::Events, MoreEvents { wakee_stacks: true, ..MoreEvents::default() }),
        header(LatencyFrom::Waking, Kept::Waits, MoreEvents::default()),
        header(LatencyFrom::Queued, histograms, MoreEvents::default()),
        Frame::Cgroup { id: 7, path: "/user.slice".into() },
        Frame::Task { tid: 300, comm: Comm::new(b"make") },
        Frame::Namespace { tid: 300, namespace: Some(Namespace { pid_ns: Some(4_026_532_301), tid: 17 }) },
        Frame::Namespace { tid: 300, namespace: None },
        Frame::Function { address: 0xa, name: Some("vmstat_update".into()) },
        Frame::UnixOffset(-3),
        Frame::WarmedUp,
    ];
    frames.extend(events().into_iter().map(|kind| Frame::Event(Cow::Owned(Event { cpu: 200, seq: 300, kind }))));
    frames.extend(
        [(LatencyFrom::Wakeup, Mode::Aggregate), (LatencyFrom::Waking, Mode::Samples)]
            .map(|(from, mode)| Frame::End(Box::new(report(from, mode)))),
    );
    frames.push(Frame::Reading(Box::new(report(LatencyFrom::Queued, Mode::Samples))));
    let run = RunBefore { report: report(LatencyFrom::Wakeup, Mode::Samples), last_seqs: [(0, 300), (1, 7)].into() };
    frames.push(Frame::Start(Box::new(run)));
    frames.push(Frame::Wait(Cow::Owned(wait(Class::New))));
    frames.push(Frame::Group { number: 300, key: RecordedKey::Values(values) });
    frames.push(Frame::Group { number: 1, key: RecordedKey::Others(Class::New) });
    frames.push(Frame::Histograms(IntervalHistograms::new(two_histograms())));
    let names = || vec!["do_sys_poll".to_owned(), "main".to_owned()];
    for (process, functions) in [
        (None, StackFrames::Named(names())),
        (Some(299), StackFrames::Unsymbolized(names(), NoSymbols::ProcessExited)),
        (Some(299), StackFrames::Unsymbolized(names(), NoSymbols::Restricted)),
        (None, StackFrames::Missing(StackId::MapFull)),
    ] {
        frames.push(Frame::Stack { process, id: 300, functions: Cow::Owned(functions) });
    }
    let counts = StackCounts { attempts: 300, over_budget: 1, no_room: 2, no_kernel: 3, no_user: 4, given_up: 5 };
    frames.push(Frame::StackCounts(counts));
    frames
}

/// A group with a single wait, and one with three, whose longest wait has a known task.
fn two_histograms() -> Vec<GroupHistogram> {
    vec![
        GroupHistogram { group: 1, buckets: vec![(40, 1)], sum_ns: 40, min_ns: 40, max_ns: 40, longest: None },
        GroupHistogram {
            group: 300,
            buckets: vec![(5, 2), (160, 1)],
            sum_ns: 523,
            min_ns: 5,
            max_ns: 512,
            longest: Some(Longest { at_ns: 1_000, tid: 300, cpu: 3 }),
        },
    ]
}

/// The name of a frame in the snapshot. A new kind needs a name here and an example in [`every_frame`].
fn kind(frame: &Frame<'_>) -> &'static str {
    match frame {
        Frame::Header(_) => "header",
        Frame::Cgroup { .. } => "cgroup",
        Frame::Task { .. } => "task",
        Frame::Namespace { .. } => "namespace",
        Frame::Function { .. } => "function",
        Frame::UnixOffset(_) => "unix offset",
        Frame::WarmedUp => "warmed up",
        Frame::Event(event) => match event.kind {
            EventKind::Switch(_) => "switch",
            EventKind::Interrupt(_) => "interrupt",
            EventKind::Migration(_) => "migration",
            EventKind::Wakeup(_) => "wakeup",
            EventKind::WorkItem(_) => "work item",
            EventKind::ForkExec(_) => "fork/exec",
            EventKind::Stack(_) => "stack",
        },
        Frame::End(_) => "end",
        Frame::Start(_) => "start",
        Frame::Reading(_) => "reading",
        Frame::Wait(_) => "wait",
        Frame::Group { .. } => "group",
        Frame::Histograms(_) => "histograms",
        Frame::Stack { .. } => "functions of a stack",
        Frame::StackCounts(_) => "counts of stacks",
    }
}

/// The bytes of a frame that begins a block.
fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.frame(frame).unwrap();
    encoder.frames
}

/// A change of this snapshot requires a new [`super::FORMAT`]: otherwise older files would be misread.
#[test]
fn frames_keep_their_layout_as_long_as_the_format_keeps_its_number() {
    let mut shown = format!("format {}\n", super::FORMAT);
    for frame in every_frame() {
        write!(shown, "{}:", kind(&frame)).unwrap();
        for (at, byte) in encoded(&frame).iter().enumerate() {
            let space = if at % 32 == 0 {
                "\n  "
            } else if at % 4 == 0 {
                " "
            } else {
                ""
            };
            write!(shown, "{space}{byte:02x}").unwrap();
        }
        shown.push('\n');
    }
    insta::assert_snapshot!(shown);
}
