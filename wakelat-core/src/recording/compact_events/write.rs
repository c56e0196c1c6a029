//! Writes events.

use wakelat_common::{
    pending_wait::PrevState,
    timeline::{IDLE_STATE_UNKNOWN, flag, prev_state_from_u8},
};

use super::super::byte_cursor::EventBytes;
use super::{
    DELIVERED, EventContext, INTERRUPT, NEXT_IS_NEW, NEXT_SEQ, NEXT_WANTED, PREV_IS_CURRENT, PREV_IS_NEW, PREV_WANTED,
    SAME_CPU, STATES, SWITCH, WAITED, WAKER_IS_PREV, WITH_RARE, course, rare, usual_waker_cpu,
};
use crate::{
    timeline::{
        decode::{KnownSwitch, wait_course},
        event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, SwitchEvent, TaskInfo, Unseen},
        wait_course::WaitCourse,
    },
    wait::{Comm, Wait},
};

/// A switch without the descriptions of its tasks.
struct SwitchParts {
    cpu: u32,
    seq: u32,
    at_ns: u64,
    prev_tid: u32,
    prev_wanted: bool,
    next_wanted: bool,
    unseen: Option<Unseen>,
    prev_state: PrevState,
    idle_state: Option<u8>,
    rt_throttled: bool,
    course: Option<WaitCourse>,
}

/// A task's place in the table of tasks, and the task if it was not there before.
#[derive(Clone, Copy)]
struct PlacedTask<'a> {
    place: u8,
    new: Option<&'a TaskInfo>,
}

impl EventContext {
    /// Puts `event` into `out`. Returns false, and nothing is in there, if it is to be in postcard's encoding.
    pub fn encode(&mut self, event: &Event, out: &mut EventBytes) -> bool {
        out.clear();
        match &event.kind {
            EventKind::Switch(switch)
                if switch.ended_wait.as_ref().is_none_or(|waited| is_of(waited, switch, event.cpu)) =>
            {
                self.append_switch(event, switch, out);
                true
            }
            EventKind::Interrupt(interrupt) => {
                self.append_interrupt(event, interrupt, out);
                true
            }
            _ => {
                self.pass(event.cpu, event.seq);
                false
            }
        }
    }

    /// Puts a switch into `out`: the same bytes as [`Self::encode`] makes of its event. Returns false, and changes nothing,
    /// unless both tasks are in the table, `prev` as the one that the CPU last switched to.
    pub fn encode_known(&mut self, known: &KnownSwitch<'_>, out: &mut EventBytes) -> bool {
        let KnownSwitch { record, seq, prev, next } = *known;
        let (cpu, last) = (record.cpu, *self.known(record.cpu));
        let Some(prev_place) = last.current.filter(|_| last.cpu == cpu) else { return false };
        let next_place = place_of(next.tid, cpu);
        let (Ok(course), Some(prev_state)) = (wait_course(record), prev_state_from_u8(record.prev_state)) else {
            return false;
        };
        let is_usual = course.is_none_or(|course| course.throttled_ns != Some(u64::MAX));
        if !is_usual || !self.has(prev_place, prev) || !self.has(next_place, next) {
            return false;
        }
        let is = |flag| record.flags & flag != 0;
        let idle_state = (record.idle_state != IDLE_STATE_UNKNOWN).then_some(record.idle_state);
        let switch = SwitchParts {
            cpu,
            seq,
            at_ns: record.at_ns,
            prev_tid: record.prev_pid,
            prev_wanted: is(flag::PREV_WANTED),
            next_wanted: is(flag::NEXT_WANTED),
            unseen: None,
            prev_state,
            idle_state,
            rt_throttled: is(flag::RT_THROTTLED),
            course,
        };
        out.clear();
        self.append_parts(&switch, None, PlacedTask { place: next_place, new: None }, out);
        true
    }

    /// The flags of the CPU and number of an event.
    #[inline(always)]
    fn number_flags(&mut self, cpu: u32, seq: u32) -> u8 {
        let (known, is_same_cpu) = (*self.known(cpu), cpu == self.last_cpu);
        let is_next = known.cpu == cpu && seq == known.seq.wrapping_add(1);
        flags([(is_same_cpu, SAME_CPU), (is_next, NEXT_SEQ)])
    }

    #[inline(always)]
    fn append_numbers(&mut self, cpu: u32, seq: u32, flags: u8, at_ns: u64, out: &mut EventBytes) {
        if flags & SAME_CPU == 0 {
            out.number(cpu.into());
        }
        if flags & NEXT_SEQ == 0 {
            out.number(seq.into());
        }
        out.difference(at_ns, self.last_at_ns);
        (self.last_cpu, self.last_at_ns) = (cpu, at_ns);
        self.pass(cpu, seq);
    }

    fn append_interrupt(&mut self, event: &Event, interrupt: &InterruptEvent, out: &mut EventBytes) {
        let InterruptEvent { source, from_ns, to_ns } = *interrupt;
        let (kind, number, name) = match source {
            InterruptSource::Irq { number, name } => (0, number, Some(name)),
            InterruptSource::Vector(number) => (1, number, None),
            InterruptSource::Softirq(number) => (2, number, None),
        };
        let flags = self.number_flags(event.cpu, event.seq);
        out.byte(INTERRUPT | flags | kind);
        self.append_numbers(event.cpu, event.seq, flags, to_ns, out);
        out.number(to_ns.wrapping_sub(from_ns));
        out.number(number.into());
        name.into_iter().for_each(|name| append_name(name, 0, out));
    }

    fn append_switch(&mut self, event: &Event, switch: &SwitchEvent, out: &mut EventBytes) {
        let SwitchEvent { at_ns, prev, unseen, prev_state, next, ended_wait, idle_state, rt_throttled } = switch;
        let known = *self.known(event.cpu);
        let current = known.current.filter(|_| known.cpu == event.cpu);
        let prev_is_current = current.is_some_and(|place| self.has(place, prev));
        let placed_prev = (!prev_is_current).then(|| self.place(prev, event.cpu));
        let placed_next = self.place(next, event.cpu);
        let parts = SwitchParts {
            cpu: event.cpu,
            seq: event.seq,
            at_ns: *at_ns,
            prev_tid: prev.tid,
            prev_wanted: prev.wanted,
            next_wanted: next.wanted,
            unseen: *unseen,
            prev_state: *prev_state,
            idle_state: *idle_state,
            rt_throttled: *rt_throttled,
            course: ended_wait.as_ref().map(WaitCourse::of),
        };
        self.append_parts(&parts, placed_prev, placed_next, out);
    }

    /// Puts `task` into its place.
    fn place<'a>(&mut self, task: &'a TaskInfo, cpu: u32) -> PlacedTask<'a> {
        let place = place_of(task.tid, cpu);
        PlacedTask { place, new: self.put(place, task).then_some(task) }
    }

    /// `prev` is `None` if the CPU last switched to that task.
    #[inline(always)]
    fn append_parts(
        &mut self,
        switch: &SwitchParts,
        prev: Option<PlacedTask<'_>>,
        next: PlacedTask<'_>,
        out: &mut EventBytes,
    ) {
        let SwitchParts { cpu, seq, at_ns, unseen, idle_state, course, .. } = *switch;
        let rare = flags([
            (unseen.is_some(), rare::UNSEEN),
            (unseen.is_some_and(|unseen| unseen.switches.is_some()), rare::UNSEEN_SWITCHES),
            (unseen.is_some_and(|unseen| unseen.switched_in_ns.is_some()), rare::UNSEEN_SINCE),
            (idle_state.is_some(), rare::IDLE_STATE),
            (switch.rt_throttled, rare::RT_THROTTLED),
        ]);
        let state = STATES.iter().position(|state| *state == switch.prev_state).unwrap_or_default() as u8;
        let waker_tid = course.and_then(|course| course.waker_tid);
        let first = flags([
            (course.is_some(), WAITED),
            (prev.is_none(), PREV_IS_CURRENT),
            (next.new.is_some(), NEXT_IS_NEW),
            (switch.prev_wanted, PREV_WANTED),
            (switch.next_wanted, NEXT_WANTED),
        ]);
        let second = self.number_flags(cpu, seq)
            | course.map_or(0, |course| course.class as u8)
            | flags([
                (waker_tid.is_some(), DELIVERED),
                (waker_tid == Some(switch.prev_tid), WAKER_IS_PREV),
                (prev.is_some_and(|prev| prev.new.is_some()), PREV_IS_NEW),
                (rare != 0, WITH_RARE),
            ]);
        out.byte(SWITCH | first | state);
        out.byte(second);
        self.append_numbers(cpu, seq, second, at_ns, out);
        prev.into_iter().for_each(|prev| append_task(prev, out));
        append_task(next, out);
        self.known(cpu).current = Some(next.place);
        if rare != 0 {
            out.byte(rare);
            let Unseen { switches, switched_in_ns } = unseen.unwrap_or(Unseen { switches: None, switched_in_ns: None });
            switches.into_iter().for_each(|count| out.number(count.into()));
            switched_in_ns.into_iter().for_each(|since_ns| out.difference(at_ns, since_ns));
            out.extend(idle_state);
        }
        if let Some(course) = course {
            self.append_wait(&course, cpu, waker_tid.filter(|tid| *tid != switch.prev_tid), out);
        }
    }

    /// `waker_tid`: if it is not that of the outgoing task.
    #[inline(always)]
    fn append_wait(&mut self, wait: &WaitCourse, on_cpu: u32, waker_tid: Option<u32>, out: &mut EventBytes) {
        let WaitCourse { migrations, throttled_ns, stolen_ns, sampling_shift, .. } = *wait;
        let cpus = [
            (wait.prev_cpu, wait.prev_cpu != Some(on_cpu)),
            (wait.cpu, wait.cpu != Some(on_cpu)),
            (wait.waker_cpu, wait.waker_cpu != usual_waker_cpu(wait.class, on_cpu)),
        ];
        let course = flags([
            (cpus[0].1, course::OTHER_PREV_CPU),
            (cpus[1].1, course::OTHER_CPU),
            (cpus[2].1, course::OTHER_WAKER_CPU),
            (wait.remote, course::REMOTE),
            (wait.throttled_at_start, course::THROTTLED_AT_START),
            (wait.preempted_sleeping, course::PREEMPTED_SLEEPING),
            (throttled_ns != self.throttled_ns, course::OTHER_THROTTLED),
            (migrations > 0 || stolen_ns > 0 || sampling_shift > 0, course::MORE),
        ]);
        self.throttled_ns = throttled_ns;
        out.byte(course);
        for (cpu, is_unusual) in cpus {
            if is_unusual {
                out.number(cpu.map_or(0, |cpu| u64::from(cpu) + 1));
            }
        }
        if course & course::OTHER_THROTTLED != 0 {
            out.number(throttled_ns.map_or(0, |ns| ns + 1));
        }
        if course & course::MORE != 0 {
            out.extend([migrations, sampling_shift]);
            out.number(stolen_ns);
        }
        out.number(wait.latency_ns);
        wait.delivery_ns.into_iter().for_each(|ns| out.number(ns));
        waker_tid.into_iter().for_each(|tid| out.number(tid.into()));
    }
}

/// Appends a place, and all of the task if it is new there.
#[inline]
fn append_task(task: PlacedTask<'_>, out: &mut EventBytes) {
    out.byte(task.place);
    if let Some(new) = task.new {
        append_new_task(new, out);
    }
}

fn append_new_task(task: &TaskInfo, out: &mut EventBytes) {
    let TaskInfo { tid, pid, comm, prio, policy, cgroup_id, wanted: _ } = *task;
    [tid, pid].into_iter().for_each(|id| out.number(id.into()));
    append_name(comm, u8::from(cgroup_id.is_some()), out);
    out.difference(i64::from(prio) as u64, 0);
    out.number(policy.into());
    cgroup_id.into_iter().for_each(|id| out.number(id));
}

/// Appends the length of a name, with a flag above it, and the name.
fn append_name(name: Comm, flag: u8, out: &mut EventBytes) {
    let name = name.as_bytes();
    out.byte(name.len() as u8 | flag << 4);
    out.extend(name.iter().copied());
}

/// Where a task is in the table.
fn place_of(tid: u32, cpu: u32) -> u8 {
    (if tid == 0 { cpu } else { tid }) as u8
}

/// Whether `waited` has the tasks and the time of `switch`.
fn is_of(waited: &DetailedWait, switch: &SwitchEvent, cpu: u32) -> bool {
    let Wait { at_ns, tid, pid, comm, cgroup_id, prio, policy, prev_tid, prev_comm, prev_prio, .. } = waited.wait;
    let (next, prev) = (&switch.next, &switch.prev);
    (at_ns, waited.wait.cpu, tid, pid, prio, policy, cgroup_id)
        == (switch.at_ns, cpu, next.tid, next.pid, next.prio, next.policy, next.cgroup_id)
        && comm == next.comm
        && (prev_tid, prev_prio, prev_comm) == (prev.tid, prev.prio, prev.comm)
        && waited.wait.delivery_ns.is_some() == waited.wait.waker_tid.is_some()
        && waited.throttled_ns != Some(u64::MAX)
}

#[inline(always)]
fn flags<const N: usize>(all: [(bool, u8); N]) -> u8 {
    let mut flags = 0;
    for (is_set, flag) in all {
        flags |= if is_set { flag } else { 0 };
    }
    flags
}
