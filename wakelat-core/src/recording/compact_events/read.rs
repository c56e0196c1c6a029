//! Reads events.

use wakelat_common::Class;

use super::super::byte_cursor::ByteCursor;
use super::{
    DELIVERED, EventContext, INTERRUPT, NEXT_IS_NEW, NEXT_SEQ, NEXT_WANTED, PREV_IS_CURRENT, PREV_IS_NEW, PREV_WANTED,
    SAME_CPU, STATES, SWITCH, WAITED, WAKER_IS_PREV, WITH_RARE, course, rare, usual_waker_cpu,
};
use crate::{
    timeline::{
        event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, SwitchEvent, TaskInfo, Unseen},
        wait_course::WaitCourse,
    },
    wait::Comm,
};

impl EventContext {
    /// The event that `bytes` begin with, which is one of [`Self::encode`]. `None` if they are damaged.
    pub fn event(&mut self, bytes: &mut ByteCursor<'_>) -> Option<Event> {
        let first = bytes.byte()?;
        if first & SWITCH == 0 {
            return self.interrupt(first, bytes);
        }
        let second = bytes.byte()?;
        let (cpu, seq, at_ns) = self.numbers(second, bytes)?;
        let prev = if first & PREV_IS_CURRENT != 0 {
            let place = self.known(cpu).current?;
            self.tasks[usize::from(place)]?
        } else {
            self.task(second & PREV_IS_NEW != 0, bytes)?.1
        };
        let (place, next) = self.task(first & NEXT_IS_NEW != 0, bytes)?;
        self.known(cpu).current = Some(place);
        let rare = if second & WITH_RARE != 0 { bytes.byte()? } else { 0 };
        let has = |flag| rare & flag != 0;
        let switches = if has(rare::UNSEEN_SWITCHES) { Some(bytes.short_number()?) } else { None };
        let since_ns = if has(rare::UNSEEN_SINCE) { Some(bytes.difference_to(0)?) } else { None };
        let switched_in_ns = since_ns.map(|since_ns| at_ns.wrapping_sub(since_ns));
        let mut switch = SwitchEvent {
            at_ns,
            prev: TaskInfo { wanted: first & PREV_WANTED != 0, ..prev },
            unseen: has(rare::UNSEEN).then_some(Unseen { switches, switched_in_ns }),
            prev_state: STATES[usize::from(first & 3)],
            next: TaskInfo { wanted: first & NEXT_WANTED != 0, ..next },
            ended_wait: None,
            idle_state: if has(rare::IDLE_STATE) { Some(bytes.byte()?) } else { None },
            rt_throttled: has(rare::RT_THROTTLED),
        };
        if first & WAITED != 0 {
            switch.ended_wait = Some(self.wait(second, cpu, &switch, bytes)?);
        }
        Some(Event { cpu, seq, kind: EventKind::Switch(Box::new(switch)) })
    }

    /// The CPU, number and time of an event with these `flags`.
    fn numbers(&mut self, flags: u8, bytes: &mut ByteCursor<'_>) -> Option<(u32, u32, u64)> {
        let cpu = if flags & SAME_CPU == 0 { bytes.short_number()? } else { self.last_cpu };
        let seq = if flags & NEXT_SEQ == 0 {
            bytes.short_number()?
        } else {
            Some(*self.known(cpu)).filter(|known| known.cpu == cpu)?.seq.wrapping_add(1)
        };
        let at_ns = bytes.difference_to(self.last_at_ns)?;
        (self.last_cpu, self.last_at_ns) = (cpu, at_ns);
        self.pass(cpu, seq);
        Some((cpu, seq, at_ns))
    }

    fn interrupt(&mut self, first: u8, bytes: &mut ByteCursor<'_>) -> Option<Event> {
        let (cpu, seq, to_ns) = self.numbers(first, bytes)?;
        let (length_ns, number) = (bytes.number()?, bytes.short_number()?);
        let source = match first & !(INTERRUPT | SAME_CPU | NEXT_SEQ) {
            0 => InterruptSource::Irq { number, name: name(bytes)?.0 },
            1 => InterruptSource::Vector(number),
            2 => InterruptSource::Softirq(number),
            _ => return None,
        };
        let interrupt = InterruptEvent { source, from_ns: to_ns.wrapping_sub(length_ns), to_ns };
        Some(Event { cpu, seq, kind: EventKind::Interrupt(interrupt) })
    }

    /// A task and its place.
    fn task(&mut self, is_new: bool, bytes: &mut ByteCursor<'_>) -> Option<(u8, TaskInfo)> {
        let place = bytes.byte()?;
        let known = &mut self.tasks[usize::from(place)];
        if is_new {
            *known = Some(task(bytes)?);
        }
        Some((place, (*known)?))
    }

    fn wait(
        &mut self,
        second: u8,
        on_cpu: u32,
        switch: &SwitchEvent,
        bytes: &mut ByteCursor<'_>,
    ) -> Option<DetailedWait> {
        let class = Class::from_u8(second & 3)?;
        let course = bytes.byte()?;
        let has = |flag| course & flag != 0;
        let mut cpu = |flag, usual| {
            if !has(flag) {
                return Some(usual);
            }
            bytes.number()?.checked_sub(1).map_or(Some(None), |cpu| u32::try_from(cpu).ok().map(Some))
        };
        let prev_cpu = cpu(course::OTHER_PREV_CPU, Some(on_cpu))?;
        let wait_cpu = cpu(course::OTHER_CPU, Some(on_cpu))?;
        let waker_cpu = cpu(course::OTHER_WAKER_CPU, usual_waker_cpu(class, on_cpu))?;
        if has(course::OTHER_THROTTLED) {
            self.throttled_ns = bytes.number()?.checked_sub(1);
        }
        let (migrations, sampling_shift, stolen_ns) =
            if has(course::MORE) { (bytes.byte()?, bytes.byte()?, bytes.number()?) } else { (0, 0, 0) };
        let latency_ns = bytes.number()?;
        let (prev, next) = (&switch.prev, &switch.next);
        let (delivery_ns, waker_tid) = match (second & DELIVERED != 0, second & WAKER_IS_PREV != 0) {
            (true, true) => (Some(bytes.number()?), Some(prev.tid)),
            (true, false) => (Some(bytes.number()?), Some(bytes.short_number()?)),
            (false, _) => (None, None),
        };
        let course = WaitCourse {
            class,
            latency_ns,
            delivery_ns,
            waker_tid,
            prev_cpu,
            preempted_sleeping: has(course::PREEMPTED_SLEEPING),
            sampling_shift,
            cpu: wait_cpu,
            waker_cpu,
            remote: has(course::REMOTE),
            migrations,
            throttled_ns: self.throttled_ns,
            throttled_at_start: has(course::THROTTLED_AT_START),
            stolen_ns,
        };
        Some(course.of_tasks(switch.at_ns, on_cpu, prev, next))
    }
}

fn task(bytes: &mut ByteCursor<'_>) -> Option<TaskInfo> {
    let (tid, pid) = (bytes.short_number()?, bytes.short_number()?);
    let (comm, has_cgroup) = name(bytes)?;
    let prio = i32::try_from(bytes.difference_to(0)? as i64).ok()?;
    let policy = bytes.short_number()?;
    let cgroup_id = if has_cgroup { Some(bytes.number()?) } else { None };
    Some(TaskInfo { tid, pid, comm, prio, policy, cgroup_id, wanted: false })
}

/// A name and its flag.
fn name(bytes: &mut ByteCursor<'_>) -> Option<(Comm, bool)> {
    let head = bytes.byte()?;
    let name = bytes.bytes(usize::from(head & 0xf))?;
    let comm = Comm::new(name);
    (head < 0x20 && comm.as_bytes() == name).then_some((comm, head & 0x10 != 0))
}
