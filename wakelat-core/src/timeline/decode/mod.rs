//! Decodes the records of the BPF programs into events, in which the kernel's words become the user's. Never panics,
//! whatever the bytes.

use bytes::Buf;
use wakelat_common::{
    Class,
    sample::DELIVERY_UNKNOWN,
    stack::{self, is_map_full, role},
    timeline::{self, IDLE_STATE_UNKNOWN, NO_WAIT, UNSEEN_UNKNOWN, flag, kind, prev_state_from_u8, source},
};

use super::{
    event::{
        DetailedWait, Event, EventKind, ForkExecEvent, InterruptEvent, InterruptSource, MigrationEvent, SwitchEvent,
        TaskInfo, Unseen, WakeupEvent, WorkItemEvent,
    },
    stack_event::{Role, StackEvent, StackId},
};
use crate::{
    decode::{DecodeError, expect_length, known_cgroup, known_cpu, name},
    hash::HashMap,
    wait::{Comm, Wait},
};

/// Decodes records, with state for each CPU: the number of its records so far, because a record carries only the number
/// lost before it; and its current task, because a switch record describes the outgoing task only if something about it
/// is new.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    cpus: HashMap<u32, Cpu>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    decoded: u32,
    /// Records lost so far: the highest count that a record carried.
    lost: u32,
    current: Option<TaskInfo>,
}

impl Decoder {
    /// Decodes one record, in the machine's byte order.
    ///
    /// # Errors
    /// If the record is too short or too long; if its kind, class, source, role or `prev_state` is unknown; or if it
    /// is a switch from a task that no earlier record described.
    pub fn decode(&mut self, mut record: &[u8]) -> Result<Event, DecodeError> {
        let kind = match record {
            [kind, ..] => *kind,
            [] => return Err(DecodeError::Length { found: 0, expected: size_of::<timeline::SwitchRecord>() }),
        };
        let expected = match kind {
            kind::SWITCH => size_of::<timeline::SwitchRecord>(),
            kind::SWITCH_FULL => size_of::<timeline::SwitchRecordFull>(),
            kind::INTERRUPT => size_of::<timeline::InterruptRecord>(),
            kind::MIGRATION => size_of::<timeline::MigrationRecord>(),
            kind::WAKEUP => size_of::<timeline::WakeupRecord>(),
            kind::WORK_ITEM => size_of::<timeline::WorkItemRecord>(),
            kind::FORK_EXEC => size_of::<timeline::ForkExecRecord>(),
            kind::STACK => size_of::<stack::StackRecord>(),
            other => return Err(DecodeError::Kind(other)),
        };
        expect_length(record, expected)?;
        let (cpu, lost, kind) = match kind {
            kind::SWITCH | kind::SWITCH_FULL => self.switch(&mut record, kind == kind::SWITCH_FULL)?,
            kind::INTERRUPT => interrupt(&mut record)?,
            kind::MIGRATION => migration(&mut record),
            kind::WORK_ITEM => work_item(&mut record),
            kind::FORK_EXEC => fork_exec(&mut record),
            kind::STACK => stack(&mut record)?,
            _ => wakeup(&mut record)?,
        };
        let known = self.cpus.entry(cpu).or_default();
        known.decoded = known.decoded.wrapping_add(1);
        // An interrupt may lose a record of its own while another record is being sent. The latter may then count more
        // losses than records behind it (wakelat-ebpf, timeline.rs).
        if (lost.wrapping_sub(known.lost) as i32) > 0 {
            known.lost = lost;
        }
        Ok(Event { cpu, seq: known.decoded.wrapping_add(known.lost), kind })
    }

    fn switch(&mut self, record: &mut &[u8], is_full: bool) -> Result<Decoded, DecodeError> {
        let switch = fields(record);
        let is = |flag| switch.flags & flag != 0;
        let known = &mut self.cpus.entry(switch.cpu).or_default().current;
        let (prev, unseen) = if is_full {
            prev_task(record, &switch)
        } else {
            let tid = switch.prev_pid;
            let prev = known.filter(|task| task.tid == tid).ok_or(DecodeError::UnknownPrev(tid))?;
            (prev, None)
        };
        let prev = TaskInfo { wanted: is(flag::PREV_WANTED), ..prev };
        let next = TaskInfo {
            tid: switch.pid,
            pid: switch.tgid,
            comm: Comm::new(&switch.comm),
            prio: switch.prio,
            policy: switch.policy,
            cgroup_id: known_cgroup(switch.cgroup_id),
            wanted: is(flag::NEXT_WANTED),
        };
        *known = Some(next);
        let event = SwitchEvent {
            at_ns: switch.at_ns,
            prev,
            unseen,
            prev_state: prev_state_from_u8(switch.prev_state).ok_or(DecodeError::PrevState(switch.prev_state))?,
            next,
            ended_wait: ended_wait(&switch, &prev, &next)?,
            idle_state: (switch.idle_state != IDLE_STATE_UNKNOWN).then_some(switch.idle_state),
            rt_throttled: is(flag::RT_THROTTLED),
        };
        Ok((switch.cpu, switch.lost, EventKind::Switch(Box::new(event))))
    }
}

/// A decoded record: its CPU, that CPU's records lost so far, and the event.
type Decoded = (u32, u32, EventKind);

/// Reads the fields of a switch record, in order.
fn fields(record: &mut &[u8]) -> timeline::SwitchRecord {
    timeline::SwitchRecord {
        kind: record.get_u8(),
        sampling_shift: record.get_u8(),
        class: record.get_u8(),
        preempted_sleeping: record.get_u8(),
        cpu: record.get_u32_ne(),
        at_ns: record.get_u64_ne(),
        lost: record.get_u32_ne(),
        prev_state: record.get_u8(),
        flags: record.get_u8(),
        idle_state: record.get_u8(),
        migrations: record.get_u8(),
        prev_pid: record.get_u32_ne(),
        pid: record.get_u32_ne(),
        tgid: record.get_u32_ne(),
        prio: record.get_i32_ne(),
        policy: record.get_u32_ne(),
        wait_cpu: record.get_u32_ne(),
        waker_cpu: record.get_u32_ne(),
        waker_pid: record.get_u32_ne(),
        prev_cpu: record.get_u32_ne(),
        reserved: record.get_u32_ne(),
        latency_ns: record.get_u64_ne(),
        delivery_ns: record.get_u64_ne(),
        throttled_ns: record.get_u64_ne(),
        stolen_ns: record.get_u64_ne(),
        cgroup_id: record.get_u64_ne(),
        comm: name(record),
    }
}

/// Reads the rest of a full switch record: the outgoing task, and the unseen switches before.
fn prev_task(record: &mut &[u8], switch: &timeline::SwitchRecord) -> (TaskInfo, Option<Unseen>) {
    let pid = record.get_u32_ne();
    let prio = record.get_i32_ne();
    let policy = record.get_u32_ne();
    let unseen = record.get_u32_ne();
    let switched_in_ns = record.get_u64_ne();
    let cgroup_id = known_cgroup(record.get_u64_ne());
    let comm = Comm::new(&name(record));
    let known = Unseen {
        switches: (unseen != UNSEEN_UNKNOWN).then_some(unseen),
        switched_in_ns: (switched_in_ns != 0).then_some(switched_in_ns),
    };
    let prev = TaskInfo { tid: switch.prev_pid, pid, comm, prio, policy, cgroup_id, wanted: false };
    (prev, (unseen != 0).then_some(known))
}

/// The wait that ends with a switch, if one does.
fn ended_wait(
    switch: &timeline::SwitchRecord,
    prev: &TaskInfo,
    next: &TaskInfo,
) -> Result<Option<DetailedWait>, DecodeError> {
    if switch.class == NO_WAIT {
        return Ok(None);
    }
    let class = Class::from_u8(switch.class).ok_or(DecodeError::Class(switch.class))?;
    let delivered = class == Class::Wakeup && switch.delivery_ns != DELIVERY_UNKNOWN;
    let wait = Wait {
        class,
        at_ns: switch.at_ns,
        latency_ns: switch.latency_ns,
        delivery_ns: delivered.then_some(switch.delivery_ns),
        tid: next.tid,
        pid: next.pid,
        comm: next.comm,
        cgroup_id: next.cgroup_id,
        prio: next.prio,
        policy: next.policy,
        cpu: switch.cpu,
        prev_cpu: known_cpu(switch.prev_cpu),
        waker_tid: delivered.then_some(switch.waker_pid),
        prev_tid: prev.tid,
        prev_comm: prev.comm,
        prev_prio: prev.prio,
        preempted_sleeping: switch.preempted_sleeping != 0,
        sampling_shift: switch.sampling_shift,
    };
    let is = |flag| switch.flags & flag != 0;
    Ok(Some(DetailedWait {
        wait,
        cpu: known_cpu(switch.wait_cpu),
        waker_cpu: if class == Class::Wakeup { known_cpu(switch.waker_cpu) } else { None },
        remote: is(flag::REMOTE),
        migrations: switch.migrations,
        throttled_ns: (!is(flag::THROTTLING_UNKNOWN)).then_some(switch.throttled_ns),
        throttled_at_start: is(flag::THROTTLED_AT_START),
        stolen_ns: switch.stolen_ns,
    }))
}

fn interrupt(record: &mut &[u8]) -> Result<Decoded, DecodeError> {
    let _kind = record.get_u8();
    let source = record.get_u8();
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let number = record.get_u32_ne();
    let from_ns = record.get_u64_ne();
    let to_ns = record.get_u64_ne();
    let name = Comm::new(&name(record));
    let source = match source {
        source::IRQ => InterruptSource::Irq { number, name },
        source::VECTOR => InterruptSource::Vector(number),
        source::SOFTIRQ => InterruptSource::Softirq(number),
        other => return Err(DecodeError::Source(other)),
    };
    Ok((cpu, lost, EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns })))
}

fn migration(record: &mut &[u8]) -> Decoded {
    let _kind = record.get_u8();
    let waiting = record.get_u8() != 0;
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let from_cpu = record.get_u32_ne();
    let to_cpu = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    (cpu, lost, EventKind::Migration(MigrationEvent { at_ns, tid, comm, waiting, from_cpu, to_cpu }))
}

fn work_item(record: &mut &[u8]) -> Decoded {
    let _kind_and_reserved = record.get_u32_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let function = Some(record.get_u64_ne()).filter(|function| *function != 0);
    (cpu, lost, EventKind::WorkItem(WorkItemEvent { at_ns, tid, function }))
}

fn fork_exec(record: &mut &[u8]) -> Decoded {
    let _kind = record.get_u8();
    let exec = record.get_u8() != 0;
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let child = record.get_u32_ne();
    let _reserved = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    (cpu, lost, EventKind::ForkExec(ForkExecEvent { at_ns, tid, comm, child: (!exec).then_some(child) }))
}

fn stack(record: &mut &[u8]) -> Result<Decoded, DecodeError> {
    let _kind = record.get_u8();
    let role = match record.get_u8() {
        role::WAKER => Role::Waker,
        role::WAKEE => Role::Wakee,
        other => return Err(DecodeError::Role(other)),
    };
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let by_tid = record.get_u32_ne();
    let by_pid = record.get_u32_ne();
    let kernel = stack_id(record.get_i32_ne());
    let user = stack_id(record.get_i32_ne());
    Ok((cpu, lost, EventKind::Stack(StackEvent { at_ns, role, tid, by_tid, by_pid, kernel, user })))
}

/// The ID of a stack, or why there is none, from the return value of `bpf_get_stackid()`.
fn stack_id(number: i32) -> StackId {
    u32::try_from(number).map_or(if is_map_full(number) { StackId::MapFull } else { StackId::Missing }, StackId::Id)
}

fn wakeup(record: &mut &[u8]) -> Result<Decoded, DecodeError> {
    let _kind = record.get_u8();
    let class = record.get_u8();
    let new = match Class::from_u8(class) {
        Some(Class::Wakeup) => false,
        Some(Class::New) => true,
        Some(Class::Preempted) | None => return Err(DecodeError::Class(class)),
    };
    let running = record.get_u8() != 0;
    let _reserved = record.get_u8();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let target_cpu = record.get_u32_ne();
    let waker_tid = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    Ok((cpu, lost, EventKind::Wakeup(WakeupEvent { at_ns, tid, comm, new, running, target_cpu, waker_tid })))
}

#[cfg(test)]
mod tests;
