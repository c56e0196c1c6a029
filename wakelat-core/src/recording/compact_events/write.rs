//! Writes events.

use super::super::byte_cursor::EventBytes;
use super::{
    DELIVERED, EventContext, INTERRUPT, NEXT_IS_NEW, NEXT_SEQ, NEXT_WANTED, PREV_IS_CURRENT, PREV_IS_NEW, PREV_WANTED,
    SAME_CPU, STATES, SWITCH, WAITED, WAKER_IS_PREV, WITH_RARE, course, rare, usual_waker_cpu,
};
use crate::{
    timeline::event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, SwitchEvent, TaskInfo, Unseen},
    wait::{Comm, Wait},
};

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
                self.pass(event);
                false
            }
        }
    }

    /// The flags of the CPU and number of an event.
    fn number_flags(&mut self, event: &Event) -> u8 {
        let (known, is_same_cpu) = (*self.known(event.cpu), event.cpu == self.last_cpu);
        let is_next = known.cpu == event.cpu && event.seq == known.seq.wrapping_add(1);
        flags([(is_same_cpu, SAME_CPU), (is_next, NEXT_SEQ)])
    }

    fn append_numbers(&mut self, event: &Event, flags: u8, at_ns: u64, out: &mut EventBytes) {
        if flags & SAME_CPU == 0 {
            out.number(event.cpu.into());
        }
        if flags & NEXT_SEQ == 0 {
            out.number(event.seq.into());
        }
        out.difference(at_ns, self.last_at_ns);
        (self.last_cpu, self.last_at_ns) = (event.cpu, at_ns);
        self.pass(event);
    }

    fn append_interrupt(&mut self, event: &Event, interrupt: &InterruptEvent, out: &mut EventBytes) {
        let InterruptEvent { source, from_ns, to_ns } = *interrupt;
        let (kind, number, name) = match source {
            InterruptSource::Irq { number, name } => (0, number, Some(name)),
            InterruptSource::Vector(number) => (1, number, None),
            InterruptSource::Softirq(number) => (2, number, None),
        };
        let flags = self.number_flags(event);
        out.byte(INTERRUPT | flags | kind);
        self.append_numbers(event, flags, to_ns, out);
        out.number(to_ns.wrapping_sub(from_ns));
        out.number(number.into());
        name.into_iter().for_each(|name| append_name(name, 0, out));
    }

    fn append_switch(&mut self, event: &Event, switch: &SwitchEvent, out: &mut EventBytes) {
        let SwitchEvent { at_ns, prev, unseen, prev_state, next, ended_wait, idle_state, rt_throttled } = switch;
        let known = *self.known(event.cpu);
        let current = known.current.filter(|_| known.cpu == event.cpu);
        let prev_is_current = current.is_some_and(|place| self.has(place, prev));
        let (prev_place, next_place) = (place_of(prev.tid, event.cpu), place_of(next.tid, event.cpu));
        let prev_is_new = !prev_is_current && self.put(prev_place, prev);
        let next_is_new = self.put(next_place, next);
        let rare = flags([
            (unseen.is_some(), rare::UNSEEN),
            (unseen.is_some_and(|unseen| unseen.switches.is_some()), rare::UNSEEN_SWITCHES),
            (unseen.is_some_and(|unseen| unseen.switched_in_ns.is_some()), rare::UNSEEN_SINCE),
            (idle_state.is_some(), rare::IDLE_STATE),
            (*rt_throttled, rare::RT_THROTTLED),
        ]);
        let state = STATES.iter().position(|state| state == prev_state).unwrap_or_default() as u8;
        let waker_tid = ended_wait.and_then(|waited| waited.wait.waker_tid);
        let first = flags([
            (ended_wait.is_some(), WAITED),
            (prev_is_current, PREV_IS_CURRENT),
            (next_is_new, NEXT_IS_NEW),
            (prev.wanted, PREV_WANTED),
            (next.wanted, NEXT_WANTED),
        ]);
        let second = self.number_flags(event)
            | ended_wait.as_ref().map_or(0, |waited| waited.wait.class as u8)
            | flags([
                (waker_tid.is_some(), DELIVERED),
                (waker_tid == Some(prev.tid), WAKER_IS_PREV),
                (prev_is_new, PREV_IS_NEW),
                (rare != 0, WITH_RARE),
            ]);
        out.extend([SWITCH | first | state, second]);
        self.append_numbers(event, second, *at_ns, out);
        if !prev_is_current {
            append_task(prev_place, prev, prev_is_new, out);
        }
        append_task(next_place, next, next_is_new, out);
        self.known(event.cpu).current = Some(next_place);
        if rare != 0 {
            out.byte(rare);
            let Unseen { switches, switched_in_ns } = unseen.unwrap_or(Unseen { switches: None, switched_in_ns: None });
            switches.into_iter().for_each(|count| out.number(count.into()));
            switched_in_ns.into_iter().for_each(|since_ns| out.difference(*at_ns, since_ns));
            out.extend(*idle_state);
        }
        if let Some(waited) = ended_wait {
            self.append_wait(waited, waker_tid.filter(|tid| *tid != prev.tid), out);
        }
    }

    /// `waker_tid`: if it is not that of the outgoing task.
    fn append_wait(&mut self, waited: &DetailedWait, waker_tid: Option<u32>, out: &mut EventBytes) {
        let DetailedWait { wait, cpu, waker_cpu, remote, migrations, throttled_ns, throttled_at_start, stolen_ns } =
            waited;
        let options = [
            (wait.prev_cpu, Some(wait.cpu), course::OTHER_PREV_CPU),
            (*cpu, Some(wait.cpu), course::OTHER_CPU),
            (*waker_cpu, usual_waker_cpu(wait.class, wait.cpu), course::OTHER_WAKER_CPU),
        ];
        let course = options.iter().filter(|(is, usual, _)| is != usual).fold(0, |all, (.., flag)| all | flag)
            | flags([
                (*remote, course::REMOTE),
                (*throttled_at_start, course::THROTTLED_AT_START),
                (wait.preempted_sleeping, course::PREEMPTED_SLEEPING),
                (*throttled_ns != self.throttled_ns, course::OTHER_THROTTLED),
                (*migrations > 0 || *stolen_ns > 0 || wait.sampling_shift > 0, course::MORE),
            ]);
        self.throttled_ns = *throttled_ns;
        out.byte(course);
        for (cpu, _, flag) in options {
            if course & flag != 0 {
                out.number(cpu.map_or(0, |cpu| u64::from(cpu) + 1));
            }
        }
        if course & course::OTHER_THROTTLED != 0 {
            out.number(throttled_ns.map_or(0, |ns| ns + 1));
        }
        if course & course::MORE != 0 {
            out.extend([*migrations, wait.sampling_shift]);
            out.number(*stolen_ns);
        }
        out.number(wait.latency_ns);
        wait.delivery_ns.into_iter().for_each(|ns| out.number(ns));
        waker_tid.into_iter().for_each(|tid| out.number(tid.into()));
    }
}

/// Appends a place, and all of the task if it `is_new` there.
fn append_task(place: u8, task: &TaskInfo, is_new: bool, out: &mut EventBytes) {
    out.byte(place);
    if !is_new {
        return;
    }
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

fn flags<const N: usize>(all: [(bool, u8); N]) -> u8 {
    all.into_iter().fold(0, |flags, (is_set, flag)| flags | if is_set { flag } else { 0 })
}
