//! Translates the lines of a trace to the frames of a recording.

use std::{borrow::Cow, collections::VecDeque};

use wakelat_common::Class;

use super::{
    event::{SwitchedTask, TracedEvent, WokenTask},
    line::UNKNOWN_TID,
    waits::Waits,
};
use crate::{
    hash::HashMap,
    recording::Frame,
    report::{Coverage, LatencyFrom, Report, TextCoverage},
    timeline::event::{
        Event, EventKind, InterruptEvent, InterruptSource, MigrationEvent, SwitchEvent, Unseen, WakeupEvent,
    },
    trace_line::LineHead,
};

/// The interval of the readings, as in a recording: ns.
const READING_INTERVAL_NS: u64 = 1_000_000_000;

/// Maximum number of interrupts and softirqs that interrupt each other on a CPU.
const MAX_NESTED: usize = 16;

/// Translates the events of a trace.
#[derive(Debug)]
pub(super) struct Translator {
    frames: VecDeque<Frame<'static>>,
    waits: Waits,
    cpus: HashMap<u32, Cpu>,
    is_waking_only: bool,
    /// The reports without their lengths and counters.
    report: Report,
    first_ns: Option<u64>,
    last_ns: u64,
    lost: u64,
}

/// What is known of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// The number of the last event.
    seq: u32,
    /// The thread on it, by the last line of this CPU.
    current: Option<u32>,
    /// The thread that the last switch seen switched in; `None` before it and after a loss.
    switched_in: Option<u32>,
    idle_state: Option<u8>,
    /// The interrupts and softirqs that have begun, the innermost last: when, and which.
    interrupts: Vec<(u64, InterruptSource)>,
    /// The thread of the `sched_waking` on the line before, if it was one.
    just_waking: Option<u32>,
}

impl Translator {
    /// Translates a trace. `kernel` is the release of its kernel. With `is_waking_only`, the trace has no `sched_wakeup`.
    pub fn new(from: LatencyFrom, is_waking_only: bool, kernel: &str) -> Self {
        let report = Report { kernel: kernel.to_owned(), from, ..Report::default() };
        Self {
            frames: VecDeque::new(),
            waits: Waits::new(from == LatencyFrom::Waking, is_waking_only),
            cpus: HashMap::default(),
            is_waking_only,
            report,
            first_ns: None,
            last_ns: 0,
            lost: 0,
        }
    }

    /// The next frame, if there is one.
    pub fn frame(&mut self) -> Option<Frame<'static>> {
        self.frames.pop_front()
    }

    /// Events of a CPU were lost. Their number may be unknown; then it counts as 1.
    pub fn lose(&mut self, cpu: u32, events: Option<u64>) {
        const MAX_STEP: u64 = 1 << 30;
        let events = events.unwrap_or(1).max(1);
        self.lost = self.lost.saturating_add(events);
        self.begin_unseen(cpu);
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.seq = cpu.seq.wrapping_add(events.min(MAX_STEP) as u32);
    }

    /// What happened on a CPU until now is unknown: what was pending may have ended.
    pub fn begin_unseen(&mut self, cpu: u32) {
        self.waits.lose();
        let cpu = self.cpus.entry(cpu).or_default();
        *cpu = Cpu { seq: cpu.seq, ..Cpu::default() };
    }

    /// Takes an event; `text` is what the trace lacks so far.
    pub fn event(&mut self, mut head: LineHead, event: &TracedEvent, text: &TextCoverage) {
        // 0 is the time of a wait that is not pending.
        head.at_ns = head.at_ns.max(1);
        self.pass(head.at_ns, text);
        if let TracedEvent::Lost(events) = event {
            return self.lose(head.cpu, Some(*events));
        }
        let just_waking = self.follow(&head);
        match *event {
            TracedEvent::Waking(woken) => {
                let is_running = self.is_running(woken.tid);
                self.waits.waking(&head, woken, is_running);
                if self.is_waking_only {
                    self.push_wakeup(&head, woken, false, is_running);
                }
                self.cpus.entry(head.cpu).or_default().just_waking = Some(woken.tid);
            }
            TracedEvent::Wakeup(woken) => self.wakeup(&head, woken, Class::Wakeup),
            TracedEvent::New(woken) => self.wakeup(&head, woken, Class::New),
            TracedEvent::Switch { prev, prev_state, next } => {
                let prev_info = self.waits.switch_out(&head, &prev, prev_state);
                let (next_info, ended_wait) = self.waits.switch_in(&head, &prev, &next);
                let (unseen, idle_state) = self.switch(&head, &prev, &next);
                let switch = SwitchEvent {
                    at_ns: head.at_ns,
                    prev: prev_info,
                    unseen,
                    prev_state,
                    next: next_info,
                    ended_wait,
                    idle_state,
                    rt_throttled: false,
                };
                self.push(head.cpu, EventKind::Switch(Box::new(switch)));
            }
            TracedEvent::Migration { tid, comm, from_cpu, to_cpu } => {
                // The kernel selects a CPU after `sched_waking`.
                let is_placement = self.is_waking_only && just_waking == Some(tid);
                let waiting = self.waits.migrate(tid, to_cpu, is_placement);
                let at_ns = head.at_ns;
                let migration = MigrationEvent { at_ns, tid, comm, waiting, from_cpu, to_cpu };
                self.push(head.cpu, EventKind::Migration(migration));
            }
            TracedEvent::IrqEntry { number, name } => self.enter(&head, InterruptSource::Irq { number, name }),
            TracedEvent::SoftirqEntry(vector) => self.enter(&head, InterruptSource::Softirq(vector)),
            TracedEvent::IrqExit(number) => {
                self.leave(
                    &head,
                    |source| matches!(source, InterruptSource::Irq { number: open, .. } if *open == number),
                );
            }
            TracedEvent::SoftirqExit(vector) => self.leave(&head, |source| *source == InterruptSource::Softirq(vector)),
            TracedEvent::Idle { cpu, state } => self.cpus.entry(cpu).or_default().idle_state = Some(state),
            TracedEvent::Lost(_) | TracedEvent::Other => {}
        }
    }

    /// The trace ends; `text` is what it lacks.
    pub fn end(&mut self, text: &TextCoverage) {
        let duration_ns = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0));
        let mut report = self.report_after(duration_ns, text);
        report.coverage.oldest_waiting = self.waits.oldest_waiting(self.last_ns);
        self.frames.push_back(Frame::End(Box::new(report)));
    }

    /// Time passes until `now_ns`: at each whole second there is a reading.
    fn pass(&mut self, now_ns: u64, text: &TextCoverage) {
        let first_ns = *self.first_ns.get_or_insert_with(|| {
            self.last_ns = now_ns;
            self.report.start_unix_ns = now_ns;
            self.frames.push_back(Frame::UnixOffset(0));
            now_ns
        });
        let readings = |until_ns: u64| until_ns.saturating_sub(first_ns) / READING_INTERVAL_NS;
        if readings(now_ns) > readings(self.last_ns) {
            let reading = self.report_after(readings(now_ns) * READING_INTERVAL_NS, text);
            self.frames.push_back(Frame::Reading(Box::new(reading)));
        }
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn report_after(&self, duration_ns: u64, text: &TextCoverage) -> Report {
        let mut coverage = Coverage {
            events_lost: Some(self.lost),
            text: Some(TextCoverage { unknown_start: self.waits.unknown_start(), ..text.clone() }),
            ..Coverage::default()
        };
        self.waits.coverage(&mut coverage);
        Report { duration_ns, coverage, ..self.report.clone() }
    }

    /// Notes which task the head of a line shows on its CPU, and its name if no switch has shown it. Returns the thread of
    /// the `sched_waking` before.
    fn follow(&mut self, head: &LineHead) -> Option<u32> {
        let cpu = self.cpus.entry(head.cpu).or_default();
        let just_waking = cpu.just_waking.take();
        if head.tid == UNKNOWN_TID {
            return just_waking;
        }
        if cpu.current != Some(head.tid) || head.pid.is_some() {
            if cpu.current.replace(head.tid) != Some(head.tid) && head.comm.as_bytes() != b"<...>" {
                self.frames.push_back(Frame::Task { tid: head.tid, comm: head.comm });
            }
            self.waits.seen_on_cpu(head);
        }
        just_waking
    }

    fn is_running(&self, tid: u32) -> bool {
        let on_cpu = self.waits.on_cpu(tid).and_then(|cpu| self.cpus.get(&cpu));
        on_cpu.is_some_and(|cpu| cpu.current == Some(tid))
    }

    fn wakeup(&mut self, head: &LineHead, woken: WokenTask, class: Class) {
        let is_running = self.is_running(woken.tid);
        self.waits.wakeup(head, woken, class, is_running);
        self.push_wakeup(head, woken, class == Class::New, is_running && class != Class::New);
    }

    /// The wakeup as an event of its own, unless the text does not say who woke the task.
    fn push_wakeup(&mut self, head: &LineHead, woken: WokenTask, new: bool, running: bool) {
        if head.tid == UNKNOWN_TID {
            return;
        }
        let WokenTask { tid, comm, target_cpu } = woken;
        let wakeup = WakeupEvent { at_ns: head.at_ns, tid, comm, new, running, target_cpu, waker_tid: head.tid };
        self.push(head.cpu, EventKind::Wakeup(wakeup));
    }

    /// The CPU switches. Returns the switches before that are not in the trace, and the C-state that the CPU leaves.
    fn switch(&mut self, head: &LineHead, prev: &SwitchedTask, next: &SwitchedTask) -> (Option<Unseen>, Option<u8>) {
        let cpu = self.cpus.entry(head.cpu).or_default();
        let is_broken = cpu.switched_in.replace(next.tid).is_some_and(|tid| tid != prev.tid);
        cpu.current = Some(next.tid);
        cpu.interrupts.clear();
        let unseen = is_broken.then_some(Unseen { switches: None, switched_in_ns: None });
        (unseen, cpu.idle_state.take().filter(|_| prev.tid == 0))
    }

    fn enter(&mut self, head: &LineHead, source: InterruptSource) {
        let open = &mut self.cpus.entry(head.cpu).or_default().interrupts;
        if open.len() < MAX_NESTED {
            open.push((head.at_ns, source));
        }
    }

    fn leave(&mut self, head: &LineHead, is_it: impl Fn(&InterruptSource) -> bool) {
        let open = &mut self.cpus.entry(head.cpu).or_default().interrupts;
        let Some(at) = open.iter().rposition(|(_, source)| is_it(source)) else { return };
        let (from_ns, source) = open[at];
        open.truncate(at);
        self.push(head.cpu, EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns: head.at_ns }));
    }

    fn push(&mut self, cpu: u32, kind: EventKind) {
        let seq = &mut self.cpus.entry(cpu).or_default().seq;
        *seq = seq.wrapping_add(1);
        self.frames.push_back(Frame::Event(Cow::Owned(Event { cpu, seq: *seq, kind })));
    }
}
