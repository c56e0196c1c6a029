use std::fmt::Write as _;

use wakelat_common::{Class, pending_wait::PrevState, sample::KernelCounts};

use super::*;
use crate::{
    aggregate::key::Names as _,
    recording::{RecordedNames, TextKind},
    report::Report,
    timeline::{
        Timeline,
        event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, SwitchEvent},
    },
};

/// Text of real kernels, by name.
const FIXTURES: [(&str, TextKind, &str); 2] = [
    ("perf-script", TextKind::PerfScript, include_str!("fixtures/perf-script.txt")),
    ("ftrace-overwritten", TextKind::Ftrace, include_str!("fixtures/ftrace-overwritten.txt")),
];

/// The events and reports of a text.
#[derive(Default)]
pub(super) struct Translated {
    pub header: Header,
    names: RecordedNames,
    pub events: Vec<Event>,
    /// The readings and the report of the end.
    reports: Vec<Report>,
}

impl Translated {
    pub fn of(text: &str) -> Self {
        let mut trace = TraceText::open(text.as_bytes()).unwrap();
        let mut all = Self { header: trace.header().clone(), ..Self::default() };
        while let Some(frame) = trace.frame().unwrap() {
            all.names.learn(&frame);
            match frame {
                Frame::Event(event) => all.events.push(event.into_owned()),
                Frame::Reading(report) | Frame::End(report) => all.reports.push(*report),
                _ => {}
            }
        }
        for report in &all.reports {
            let coverage = &report.coverage;
            let unaccounted = [Some(coverage.wakeups), coverage.preemptions].map(|terms| terms.unwrap().unaccounted());
            assert_eq!(unaccounted, [0, 0], "{report:?}");
        }
        all
    }

    pub fn switches(&self) -> impl Iterator<Item = &SwitchEvent> {
        self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Switch(switch) => Some(&**switch),
            _ => None,
        })
    }

    fn waits(&self) -> Vec<DetailedWait> {
        self.switches().filter_map(|switch| switch.ended_wait).collect()
    }

    /// TID, class and latency (µs) of each wait.
    fn latencies(&self) -> Vec<(u32, Class, u64)> {
        let of = |waited: &DetailedWait| (waited.wait.tid, waited.wait.class, waited.wait.latency_ns / 1_000);
        self.waits().iter().map(of).collect()
    }

    /// Whether the task waited, for each migration.
    pub fn migrations(&self) -> Vec<bool> {
        let of = |event: &Event| match event.kind {
            EventKind::Migration(migration) => Some(migration.waiting),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    fn end(&self) -> &Report {
        self.reports.last().unwrap()
    }

    fn text(&self) -> &TextCoverage {
        self.end().coverage.text.as_ref().unwrap()
    }
}

/// A trace of these events: µs, CPU, thread on it, event.
pub(super) fn trace(events: &[(u64, u32, u32, String)]) -> String {
    let mut text = String::new();
    for (us, cpu, tid, event) in events {
        let (comm, seconds, us) = (format!("t{tid}"), us / 1_000_000, us % 1_000_000);
        writeln!(text, "{comm:>16}-{tid:<7} [{cpu:03}] d..2. {seconds:5}.{us:06}: {event}").unwrap();
    }
    text
}

pub(super) fn woken(event: &str, tid: u32, cpu: u32) -> String {
    format!("{event}: comm=t{tid} pid={tid} prio=120 target_cpu={cpu:03}")
}

pub(super) fn switch(prev: u32, state: &str, next: u32) -> String {
    format!(
        "sched_switch: prev_comm=t{prev} prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=t{next} \
         next_pid={next} next_prio=120"
    )
}

#[test]
fn a_wait_lasts_from_its_wakeup_to_the_switch_in() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_waking", 7, 1)),
        (15, 1, 0, woken("sched_wakeup", 7, 1)),
        (30, 1, 0, switch(0, "R", 7)),
    ]));
    assert_eq!((all.header.from, all.end().from), (LatencyFrom::Waking, LatencyFrom::Waking));
    let [waited] = all.waits()[..] else { panic!() };
    let wait = waited.wait;
    assert_eq!((wait.class, wait.latency_ns, wait.delivery_ns), (Class::Wakeup, 20_000, Some(5_000)));
    assert_eq!((wait.waker_tid, wait.cpu, wait.prev_cpu, wait.prev_tid), (Some(9), 1, Some(1), 0));
    assert_eq!((waited.cpu, waited.waker_cpu, waited.remote), (Some(1), Some(0), true));
    assert_eq!((waited.throttled_ns, wait.cgroup_id, wait.policy), (None, None, u32::MAX));
    // No switch has shown the waker.
    assert_eq!(all.names.comm(9).map(|comm| comm.to_string()).as_deref(), Some("t9"));
}

#[test]
fn a_wakeup_of_a_preempted_task_keeps_the_start_and_one_of_a_running_task_starts_nothing() {
    let all = Translated::of(&trace(&[
        (10, 0, 7, switch(7, "R+", 9)),
        (20, 0, 9, woken("sched_wakeup", 7, 0)),
        (30, 0, 9, switch(9, "S", 7)),
        (40, 1, 8, woken("sched_wakeup", 7, 0)),
        (50, 0, 7, switch(7, "S", 0)),
    ]));
    assert_eq!(all.header.from, LatencyFrom::Wakeup);
    assert_eq!(all.latencies(), [(7, Class::Preempted, 20)]);
    let wakeups = all.end().coverage.wakeups;
    assert_eq!((wakeups.seen, wakeups.already_queued, wakeups.already_running), (2, 1, 1));
}

#[test]
fn a_second_wakeup_shows_that_the_end_of_the_first_wait_was_missed() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_wakeup", 7, 0)),
        (20, 0, 9, woken("sched_wakeup", 7, 0)),
        (25, 0, 9, switch(9, "S", 7)),
    ]));
    assert_eq!(all.latencies(), [(7, Class::Wakeup, 5)]);
    let wakeups = all.end().coverage.wakeups;
    assert_eq!((wakeups.seen, wakeups.measured, wakeups.missed_switch), (2, 1, 1));
}

#[test]
fn the_head_of_a_line_shows_the_running_task_before_the_first_switch() {
    let all = Translated::of(&trace(&[
        (10, 0, 7, woken("sched_wakeup", 5, 1)),
        (20, 1, 8, woken("sched_wakeup", 7, 0)),
        (30, 0, 7, switch(7, "S", 0)),
    ]));
    assert_eq!(all.end().coverage.wakeups.already_running, 1);
}

#[test]
fn a_preempted_task_waits_and_a_sleeping_one_does_not() {
    for (state, expected) in [("R", true), ("R+", true), ("S", false), ("D|W", false)] {
        let all = Translated::of(&trace(&[(10, 0, 7, switch(7, state, 9)), (25, 0, 9, switch(9, "S", 7))]));
        let waits = all.latencies();
        assert_eq!(waits, if expected { vec![(7, Class::Preempted, 15)] } else { vec![] }, "{state}");
        let sleeping = all.waits().iter().any(|waited| waited.wait.kernel_counts == KernelCounts::Unknown);
        assert_eq!(sleeping, state == "R+");
        // The wait of 9 began before the trace; without a wakeup, that of a sleeping task is not known either.
        assert_eq!(all.text().unknown_start, if expected { 1 } else { 2 }, "{state}");
    }
}

#[test]
fn a_new_task_waits_from_its_first_wakeup_even_if_its_number_was_in_use() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_wakeup", 7, 0)),
        (20, 0, 9, woken("sched_wakeup_new", 7, 0)),
        (50, 0, 9, switch(9, "S", 7)),
        (60, 0, 7, switch(7, "X", 0)),
        (70, 0, 0, woken("sched_wakeup_new", 7, 0)),
        (75, 0, 0, switch(0, "R", 7)),
    ]));
    assert_eq!(all.latencies(), [(7, Class::New, 30), (7, Class::New, 5)]);
    assert_eq!(all.end().coverage.wakeups.missed_switch, 1);
    assert_eq!(all.switches().nth(1).unwrap().prev_state, PrevState::Dead);
}

#[test]
fn without_sched_wakeup_a_wait_begins_at_sched_waking_on_the_selected_cpu() {
    let migrate = |from, to| format!("sched_migrate_task: comm=t7 pid=7 prio=120 orig_cpu={from} dest_cpu={to}");
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_waking", 7, 0)),
        (11, 0, 9, migrate(0, 1)),
        (20, 2, 0, migrate(1, 2)),
        (30, 2, 0, switch(0, "R", 7)),
    ]));
    let text = all.header.text.unwrap();
    assert_eq!((all.header.from, text.has_delivery), (LatencyFrom::Waking, false));
    let [waited] = all.waits()[..] else { panic!() };
    assert_eq!((waited.wait.latency_ns, waited.wait.delivery_ns, waited.wait.waker_tid), (20_000, None, Some(9)));
    assert_eq!((waited.cpu, waited.migrations), (Some(1), 1));
    assert_eq!(all.migrations(), [false, true], "the task does not wait before a CPU is selected for it");
}

#[test]
fn without_sched_wakeup_a_task_on_its_way_to_sleep_is_woken_and_a_running_one_is_not() {
    let begin = [(5, 0, 9, switch(9, "S", 7)), (10, 1, 8, woken("sched_waking", 7, 0))];
    let sleeps = [(12, 0, 7, switch(7, "S", 9)), (30, 0, 9, switch(9, "R", 7))];
    let all = Translated::of(&trace(&[&begin[..], &sleeps].concat()));
    assert_eq!(all.latencies(), [(7, Class::Wakeup, 20)]);
    // The other one, or one that is not in the trace, ended the sleep.
    let again = [sleeps[0].clone(), (20, 1, 8, woken("sched_waking", 7, 0)), sleeps[1].clone()];
    let runs_on = [(12, 0, 7, switch(7, "R", 9)), (30, 0, 9, switch(9, "R", 7))];
    for (events, expected) in [(&again[..], (7, Class::Wakeup, 10)), (&runs_on, (7, Class::Preempted, 18))] {
        let all = Translated::of(&trace(&[&begin[..], events].concat()));
        assert_eq!(all.latencies(), [expected]);
        assert_eq!(all.end().coverage.wakeups.already_running, 1);
    }
}

#[test]
fn a_wakeup_whose_sched_waking_is_missing_is_invalid() {
    let all = Translated::of(&trace(&[
        (5, 0, 9, woken("sched_wakeup", 7, 0)),
        (10, 0, 9, switch(9, "S", 7)),
        (20, 0, 7, woken("sched_waking", 8, 0)),
    ]));
    assert_eq!((all.latencies(), all.end().coverage.wakeups.invalid), (vec![], 1));
}

#[test]
fn what_was_pending_at_a_loss_is_not_measured() {
    let begin = trace(&[(10, 0, 9, woken("sched_wakeup", 7, 0)), (11, 0, 9, switch(9, "R", 6))]);
    // Before the second wakeup, the task has run and slept again.
    let end = trace(&[(50, 0, 9, woken("sched_wakeup", 7, 0)), (60, 0, 9, switch(9, "S", 7))]);
    for (lost, events) in [("CPU:0 [LOST 12 EVENTS]\n", 12), ("CPU:1 [LOST EVENTS]\n", 1)] {
        let all = Translated::of(&format!("{begin}{lost}{end}"));
        assert_eq!(all.latencies(), [(7, Class::Wakeup, 10)], "{lost}");
        let coverage = &all.end().coverage;
        assert_eq!(coverage.events_lost, Some(events));
        assert_eq!((coverage.wakeups.missed_switch, coverage.preemptions.unwrap().missed_switch), (1, 1));
    }
    let perf = |text: &str| text.replace("CPU:0 [LOST 12 EVENTS]", "x 9 [000] 0.000040: PERF_RECORD_LOST lost 12");
    let all = Translated::of(&perf(&format!("{begin}CPU:0 [LOST 12 EVENTS]\n{end}")));
    assert_eq!((all.latencies(), all.end().coverage.events_lost), (vec![(7, Class::Wakeup, 10)], Some(12)));
    let mut timeline = Timeline::default();
    all.events.iter().for_each(|event| _ = timeline.push(event));
    assert_eq!(timeline.event_counts().lost, 12);
}

#[test]
fn a_sched_waking_before_a_loss_is_not_that_of_a_wakeup_after_it() {
    let all = Translated::of(&format!(
        "{}CPU:0 [LOST 3 EVENTS]\n{}",
        trace(&[(10, 0, 9, woken("sched_waking", 7, 0))]),
        trace(&[(50, 0, 9, woken("sched_wakeup", 7, 0)), (60, 0, 9, switch(9, "S", 7))])
    ));
    assert_eq!((all.latencies(), all.end().coverage.wakeups.invalid), (vec![], 1));
}

#[test]
fn a_buffer_that_begins_late_has_no_earlier_waits() {
    let all = Translated::of(&format!(
        "{}##### CPU 1 buffer started ####\n{}",
        trace(&[(10, 0, 9, woken("sched_wakeup", 7, 1)), (12, 0, 9, switch(9, "S", 0))]),
        trace(&[(20, 1, 3, switch(3, "S", 7))])
    ));
    let coverage = &all.end().coverage;
    assert_eq!((all.latencies(), coverage.wakeups.missed_switch, coverage.events_lost), (vec![], 1, Some(0)));
    assert_eq!(all.text().unknown_start, 0, "the wait of thread 7 counts as missed");
}

#[test]
fn tasks_that_wait_at_the_end_are_counted() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_wakeup", 7, 0)),
        (15, 0, 9, woken("sched_wakeup", 6, 0)),
        (40, 0, 9, switch(9, "R", 6)),
        (50, 0, 6, woken("sched_wakeup", 5, 0)),
    ]));
    let coverage = &all.end().coverage;
    assert_eq!((coverage.wakeups.still_waiting, coverage.preemptions.unwrap().still_waiting), (2, 1));
    let oldest = coverage.oldest_waiting.unwrap();
    assert_eq!((oldest.tid, oldest.latency_ns, oldest.comm.to_string().as_str()), (7, 40_000, "t7"));
}

#[test]
fn a_switch_from_another_task_than_expected_is_unseen() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, switch(9, "S", 7)),
        (20, 0, 7, switch(7, "S", 0)),
        (30, 0, 6, switch(6, "S", 5)),
    ]));
    assert_eq!(all.switches().map(|switch| switch.unseen.is_some()).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn readings_come_each_second_and_add_up() {
    let wakes = (0..50).flat_map(|n| {
        let us = n * 100_000;
        [
            (us + 10, 0, 0, woken("sched_wakeup", 7, 0)),
            (us + 30, 0, 0, switch(0, "R", 7)),
            (us + 50, 0, 7, switch(7, "S", 0)),
        ]
    });
    let all = Translated::of(&trace(&wakes.collect::<Vec<_>>()));
    let lengths: Vec<u64> = all.reports.iter().map(|report| report.duration_ns / 1_000).collect();
    assert_eq!(lengths, [1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_900_040]);
    let measured: Vec<u64> = all.reports.iter().map(|report| report.coverage.wakeups.measured).collect();
    assert_eq!(measured, [10, 20, 30, 40, 50]);
}

#[test]
fn interrupts_are_events_when_they_end_but_not_across_a_switch() {
    let all = Translated::of(&trace(&[
        (10, 0, 9, "softirq_entry: vec=1 [action=TIMER]".to_owned()),
        (12, 0, 9, "irq_handler_entry: irq=36 name=disk".to_owned()),
        (15, 0, 9, "irq_handler_exit: irq=36 ret=handled".to_owned()),
        (18, 0, 9, "softirq_exit: vec=1 [action=TIMER]".to_owned()),
        (20, 0, 9, "softirq_entry: vec=2 [action=NET_TX]".to_owned()),
        (21, 0, 9, switch(9, "R", 0)),
        (22, 0, 0, "softirq_exit: vec=2 [action=NET_TX]".to_owned()),
        (23, 0, 0, "cpu_idle: state=2 cpu_id=0".to_owned()),
        (29, 0, 0, "cpu_idle: state=4294967295 cpu_id=0".to_owned()),
        (30, 0, 0, switch(0, "R", 9)),
    ]));
    let interrupts = all.events.iter().filter_map(|event| match event.kind {
        EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns }) => Some((source, from_ns, to_ns)),
        _ => None,
    });
    let irq = InterruptSource::Irq { number: 36, name: crate::wait::Comm::new(b"disk") };
    assert_eq!(interrupts.collect::<Vec<_>>(), [(irq, 12_000, 15_000), (InterruptSource::Softirq(1), 10_000, 18_000)]);
    assert_eq!(all.switches().map(|switch| switch.idle_state).collect::<Vec<_>>(), [None, Some(2)]);
    assert!(all.header.collected.irq && all.header.collected.idle && !all.header.collected.throttling);
}

#[test]
fn the_text_of_real_kernels_is_read_whole() {
    for (name, kind, text) in FIXTURES {
        let all = Translated::of(text);
        let source = all.header.text.unwrap();
        assert_eq!((source.kind, source.has_delivery), (kind, true), "{name}");
        assert_eq!(all.text().skipped_lines, 0, "{name}: {:?}", all.text());
        assert_eq!(all.switches().count(), text.matches("sched_switch: ").count(), "{name}");
        let wakeups = text.matches("sched_wakeup: ").count() + text.matches("sched_wakeup_new: ").count();
        assert_eq!(all.end().coverage.wakeups.seen, wakeups as u64, "{name}");
        assert!(all.waits().len() > 10, "{name}");
    }
}

#[test]
fn the_header_has_what_the_text_says_of_its_machine() {
    let [perf, ftrace] = FIXTURES.map(|(.., text)| Translated::of(text).header);
    let machine = &perf.machine;
    assert_eq!((&*machine.host, &*machine.kernel, &*machine.architecture), ("build-7", "6.18.0", "x86_64"));
    assert_eq!(perf.machine.to_string(), "build-7, Linux 6.18.0 x86_64, CPUs 0-1");
    assert!(perf.command_line[0].starts_with("/usr/bin/perf record -a"), "{:?}", perf.command_line);
    assert_eq!(ftrace.machine.to_string(), "CPUs 0-1");
    assert_eq!([perf, ftrace].map(|header| header.text.unwrap().resolution_ns), [1, 1_000]);
    assert_eq!(Translated::of(FIXTURES[0].2).end().kernel, "6.18.0");
}

#[test]
fn classes_are_those_whose_events_are_in_the_text() {
    let only_switches = Translated::of(&trace(&[(10, 0, 9, switch(9, "R", 7))]));
    assert_eq!(only_switches.header.classes, [Class::Preempted]);
    let wakeups = Translated::of(&trace(&[(9, 0, 9, woken("sched_wakeup", 7, 0)), (10, 0, 9, switch(9, "R", 7))]));
    assert_eq!(wakeups.header.classes, Class::ALL);
}

#[test]
fn lines_that_cannot_be_parsed_are_skipped_and_counted() {
    let good = trace(&[(10, 0, 9, switch(9, "R", 7)), (25, 0, 7, switch(7, "S", 9))]);
    let (first, second) = good.split_once('\n').unwrap();
    let all = Translated::of(&format!("{first}\nhello\x1b[2J there\n{second}{}", &first[..first.len() - 20]));
    assert_eq!((all.latencies().len(), all.text().skipped_lines), (1, 2));
    let why = all.text().first_skipped.as_deref().unwrap();
    assert_eq!(why, "line 2: `hello [2J there` is not an event of a trace");
}

#[test]
fn text_without_switches_is_refused_with_the_events_that_it_needs() {
    let refused = |text: &str| TraceText::open(text.as_bytes()).unwrap_err().to_string();
    let error = refused(&trace(&[(10, 0, 9, woken("sched_wakeup", 7, 0))]));
    for part in
        ["no `sched_switch` among the first 1 events", "perf record -a -e 'sched:sched_switch", "trace-cmd record -e"]
    {
        assert!(error.contains(part), "{error}");
    }
    for text in ["", "hello\n", "# tracer: nop\n#\n", "wakelat"] {
        assert!(refused(text).contains("neither a recording of `wakelat record` nor the text of a trace"), "{text}");
    }
}

#[test]
fn endless_input_without_a_trace_is_refused() {
    let endless = std::io::BufReader::new(std::io::repeat(0));
    assert!(matches!(TraceText::open(endless), Err(TraceTextError::NotATrace)));
}

#[test]
fn the_components_of_each_wait_add_up() {
    for (name, _, text) in FIXTURES {
        let all = Translated::of(text);
        let mut timeline = Timeline::new(LatencyFrom::Waking);
        let mut explained_ns = 0;
        for event in &all.events {
            let Some(breakdown) = timeline.push(event) else { continue };
            let sum: u64 = breakdown.shares.iter().map(|share| share.ns).sum();
            assert_eq!(sum, breakdown.latency_ns, "{name}");
            explained_ns += sum - breakdown.component_ns(crate::timeline::component::Component::Unexplained);
        }
        assert!(explained_ns > 0, "{name}");
    }
}
