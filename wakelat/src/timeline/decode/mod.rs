//! Records of what happens on each CPU to events: where the kernel's words become the user's. Never panics, whatever the
//! bytes.

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
    stack::{Role, StackEvent, StackId},
};
use crate::{
    decode::{DecodeError, expect_length, known_cgroup, known_cpu, name},
    hash::HashMap,
    wait::{Comm, Wait},
};

/// Decodes records, and remembers of each CPU how many came, as a record carries only how many were lost before it, and who
/// has it, as a switch tells of the task that leaves only where something about it is new.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    cpus: HashMap<u32, Cpu>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    decoded: u32,
    /// Records lost so far, by the record that counts most.
    lost: u32,
    current: Option<TaskInfo>,
}

impl Decoder {
    /// Decodes one record, in the machine's byte order.
    ///
    /// # Errors
    /// Where it is not one: too short, too long, of a kind, class, source or end that is not known, or a switch from a task
    /// of which no record told.
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
        let (cpu, lost, what) = match kind {
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
        // A record that an interrupt came into may count losses that records behind it do not (wakelat-ebpf, timeline.rs).
        if (lost.wrapping_sub(known.lost) as i32) > 0 {
            known.lost = lost;
        }
        Ok(Event { cpu, seq: known.decoded.wrapping_add(known.lost), kind: what })
    }

    fn switch(&mut self, record: &mut &[u8], is_full: bool) -> Result<Decoded, DecodeError> {
        let turn = fields(record);
        let is = |flag| turn.flags & flag != 0;
        let known = &mut self.cpus.entry(turn.cpu).or_default().current;
        let (prev, unseen) = if is_full {
            prev_task(record, &turn)
        } else {
            let prev = known.filter(|came| came.tid == turn.prev_pid).ok_or(DecodeError::UnknownPrev(turn.prev_pid))?;
            (prev, None)
        };
        let prev = TaskInfo { wanted: is(flag::PREV_WANTED), ..prev };
        let next = TaskInfo {
            tid: turn.pid,
            pid: turn.tgid,
            comm: Comm::new(&turn.comm),
            prio: turn.prio,
            policy: turn.policy,
            cgroup_id: known_cgroup(turn.cgroup_id),
            wanted: is(flag::NEXT_WANTED),
        };
        *known = Some(next);
        let what = SwitchEvent {
            at_ns: turn.at_ns,
            prev,
            unseen,
            prev_state: prev_state_from_u8(turn.prev_state).ok_or(DecodeError::PrevState(turn.prev_state))?,
            next,
            ended_wait: ended_wait(&turn, &prev, &next)?,
            idle_state: (turn.idle_state != IDLE_STATE_UNKNOWN).then_some(turn.idle_state),
            rt_throttled: is(flag::RT_THROTTLED),
        };
        Ok((turn.cpu, turn.lost, EventKind::Switch(Box::new(what))))
    }
}

/// What each kind takes: the CPU, its records lost so far, and what happened.
type Decoded = (u32, u32, EventKind);

/// The fields of a switch, in their order.
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

/// The fields behind those: the task that leaves, and what was not seen before.
fn prev_task(record: &mut &[u8], turn: &timeline::SwitchRecord) -> (TaskInfo, Option<Unseen>) {
    let pid = record.get_u32_ne();
    let prio = record.get_i32_ne();
    let policy = record.get_u32_ne();
    let hidden = record.get_u32_ne();
    let came_ns = record.get_u64_ne();
    let cgroup_id = known_cgroup(record.get_u64_ne());
    let comm = Comm::new(&name(record));
    let unseen = Unseen {
        switches: (hidden != UNSEEN_UNKNOWN).then_some(hidden),
        switched_in_ns: (came_ns != 0).then_some(came_ns),
    };
    let prev = TaskInfo { tid: turn.prev_pid, pid, comm, prio, policy, cgroup_id, wanted: false };
    (prev, (hidden != 0).then_some(unseen))
}

/// The wait that ends with a switch, if one does.
fn ended_wait(
    turn: &timeline::SwitchRecord,
    prev: &TaskInfo,
    next: &TaskInfo,
) -> Result<Option<DetailedWait>, DecodeError> {
    if turn.class == NO_WAIT {
        return Ok(None);
    }
    let class = Class::from_u8(turn.class).ok_or(DecodeError::Class(turn.class))?;
    let delivered = class == Class::Wakeup && turn.delivery_ns != DELIVERY_UNKNOWN;
    let wait = Wait {
        class,
        at_ns: turn.at_ns,
        latency_ns: turn.latency_ns,
        delivery_ns: delivered.then_some(turn.delivery_ns),
        tid: next.tid,
        pid: next.pid,
        comm: next.comm,
        cgroup_id: next.cgroup_id,
        prio: next.prio,
        policy: next.policy,
        cpu: turn.cpu,
        prev_cpu: known_cpu(turn.prev_cpu),
        waker_tid: delivered.then_some(turn.waker_pid),
        prev_tid: prev.tid,
        prev_comm: prev.comm,
        prev_prio: prev.prio,
        preempted_sleeping: turn.preempted_sleeping != 0,
        sampling_shift: turn.sampling_shift,
    };
    let is = |flag| turn.flags & flag != 0;
    Ok(Some(DetailedWait {
        wait,
        cpu: known_cpu(turn.wait_cpu),
        waker_cpu: if class == Class::Wakeup { known_cpu(turn.waker_cpu) } else { None },
        remote: is(flag::REMOTE),
        migrations: turn.migrations,
        throttled_ns: (!is(flag::THROTTLING_UNKNOWN)).then_some(turn.throttled_ns),
        throttled_at_start: is(flag::THROTTLED_AT_START),
        stolen_ns: turn.stolen_ns,
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
    let waits = record.get_u8() != 0;
    let _reserved = record.get_u16_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let from_cpu = record.get_u32_ne();
    let to_cpu = record.get_u32_ne();
    let comm = Comm::new(&name(record));
    (cpu, lost, EventKind::Migration(MigrationEvent { at_ns, tid, comm, waiting: waits, from_cpu, to_cpu }))
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

/// A stack's number, or what there was instead.
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
