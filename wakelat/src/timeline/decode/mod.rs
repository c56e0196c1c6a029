//! Records of what happens on each CPU to events: where the kernel's words become the user's. Never panics, whatever the
//! bytes.

use bytes::Buf;
use wakelat_common::{
    Class,
    sample::DELIVERY_UNKNOWN,
    stack::{self, is_without_room, role},
    timeline::{self, HIDDEN_UNKNOWN, IDLE_STATE_UNKNOWN, NO_WAIT, flag, kind, leaving_of, source},
};

use super::{
    event::{Event, Moved, Noise, Occupant, Source, Spawn, Turn, Unseen, Waited, What, Woken, Work},
    stack::{Role, Stack, Trace},
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
    came: Option<Occupant>,
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
            [] => return Err(DecodeError::Length { found: 0, expected: size_of::<timeline::Turn>() }),
        };
        let expected = match kind {
            kind::TURN => size_of::<timeline::Turn>(),
            kind::FULL_TURN => size_of::<timeline::FullTurn>(),
            kind::NOISE => size_of::<timeline::Noise>(),
            kind::MOVED => size_of::<timeline::Moved>(),
            kind::WOKEN => size_of::<timeline::Woken>(),
            kind::WORK => size_of::<timeline::Work>(),
            kind::SPAWN => size_of::<timeline::Spawn>(),
            kind::STACK => size_of::<stack::Stack>(),
            other => return Err(DecodeError::Kind(other)),
        };
        expect_length(record, expected)?;
        let (cpu, lost, what) = match kind {
            kind::TURN | kind::FULL_TURN => self.turn(&mut record, kind == kind::FULL_TURN)?,
            kind::NOISE => noise(&mut record)?,
            kind::MOVED => moved(&mut record),
            kind::WORK => work(&mut record),
            kind::SPAWN => spawn(&mut record),
            kind::STACK => stack(&mut record)?,
            _ => woken(&mut record)?,
        };
        let known = self.cpus.entry(cpu).or_default();
        known.decoded = known.decoded.wrapping_add(1);
        // A record that an interrupt came into may count losses that records behind it do not (wakelat-ebpf, timeline.rs).
        if (lost.wrapping_sub(known.lost) as i32) > 0 {
            known.lost = lost;
        }
        Ok(Event { cpu, seq: known.decoded.wrapping_add(known.lost), what })
    }

    fn turn(&mut self, record: &mut &[u8], is_full: bool) -> Result<Told, DecodeError> {
        let turn = fields(record);
        let is = |flag| turn.flags & flag != 0;
        let known = &mut self.cpus.entry(turn.cpu).or_default().came;
        let (prev, unseen) = if is_full {
            leaver(record, &turn)
        } else {
            let prev = known.filter(|came| came.tid == turn.prev_pid).ok_or(DecodeError::Leaver(turn.prev_pid))?;
            (prev, None)
        };
        let prev = Occupant { wanted: is(flag::PREV_WANTED), ..prev };
        let next = Occupant {
            tid: turn.pid,
            pid: turn.tgid,
            comm: Comm::new(&turn.comm),
            prio: turn.prio,
            policy: turn.policy,
            cgroup_id: known_cgroup(turn.cgroup_id),
            wanted: is(flag::NEXT_WANTED),
        };
        *known = Some(next);
        let what = Turn {
            at_ns: turn.at_ns,
            prev,
            unseen,
            leaving: leaving_of(turn.leaving).ok_or(DecodeError::Leaving(turn.leaving))?,
            next,
            waited: waited(&turn, &prev, &next)?,
            idle_state: (turn.idle_state != IDLE_STATE_UNKNOWN).then_some(turn.idle_state),
            rt_throttled: is(flag::RT_THROTTLED),
        };
        Ok((turn.cpu, turn.lost, What::Turn(Box::new(what))))
    }
}

/// What each kind takes: the CPU, its records lost so far, and what happened.
type Told = (u32, u32, What);

/// The fields of a switch, in their order.
fn fields(record: &mut &[u8]) -> timeline::Turn {
    timeline::Turn {
        kind: record.get_u8(),
        level: record.get_u8(),
        class: record.get_u8(),
        wakeable: record.get_u8(),
        cpu: record.get_u32_ne(),
        at_ns: record.get_u64_ne(),
        lost: record.get_u32_ne(),
        leaving: record.get_u8(),
        flags: record.get_u8(),
        idle_state: record.get_u8(),
        moves: record.get_u8(),
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
fn leaver(record: &mut &[u8], turn: &timeline::Turn) -> (Occupant, Option<Unseen>) {
    let pid = record.get_u32_ne();
    let prio = record.get_i32_ne();
    let policy = record.get_u32_ne();
    let hidden = record.get_u32_ne();
    let came_ns = record.get_u64_ne();
    let cgroup_id = known_cgroup(record.get_u64_ne());
    let comm = Comm::new(&name(record));
    let unseen =
        Unseen { switches: (hidden != HIDDEN_UNKNOWN).then_some(hidden), came_ns: (came_ns != 0).then_some(came_ns) };
    let prev = Occupant { tid: turn.prev_pid, pid, comm, prio, policy, cgroup_id, wanted: false };
    (prev, (hidden != 0).then_some(unseen))
}

/// The wait that ends with a switch, if one does.
fn waited(turn: &timeline::Turn, prev: &Occupant, next: &Occupant) -> Result<Option<Waited>, DecodeError> {
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
        wakeable: turn.wakeable != 0,
        level: turn.level,
    };
    let is = |flag| turn.flags & flag != 0;
    Ok(Some(Waited {
        wait,
        cpu: known_cpu(turn.wait_cpu),
        waker_cpu: if class == Class::Wakeup { known_cpu(turn.waker_cpu) } else { None },
        remote: is(flag::REMOTE),
        moves: turn.moves,
        throttled_ns: (!is(flag::THROTTLING_UNKNOWN)).then_some(turn.throttled_ns),
        throttled_at_start: is(flag::THROTTLED_AT_START),
        stolen_ns: turn.stolen_ns,
    }))
}

fn noise(record: &mut &[u8]) -> Result<Told, DecodeError> {
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
        source::IRQ => Source::Irq { number, name },
        source::VECTOR => Source::Vector(number),
        source::SOFTIRQ => Source::Softirq(number),
        other => return Err(DecodeError::Source(other)),
    };
    Ok((cpu, lost, What::Noise(Noise { source, from_ns, to_ns })))
}

fn moved(record: &mut &[u8]) -> Told {
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
    (cpu, lost, What::Moved(Moved { at_ns, tid, comm, waits, from_cpu, to_cpu }))
}

fn work(record: &mut &[u8]) -> Told {
    let _kind_and_reserved = record.get_u32_ne();
    let cpu = record.get_u32_ne();
    let lost = record.get_u32_ne();
    let tid = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let function = Some(record.get_u64_ne()).filter(|function| *function != 0);
    (cpu, lost, What::Work(Work { at_ns, tid, function }))
}

fn spawn(record: &mut &[u8]) -> Told {
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
    (cpu, lost, What::Spawn(Spawn { at_ns, tid, comm, child: (!exec).then_some(child) }))
}

fn stack(record: &mut &[u8]) -> Result<Told, DecodeError> {
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
    let kernel = trace(record.get_i32_ne());
    let user = trace(record.get_i32_ne());
    Ok((cpu, lost, What::Stack(Stack { at_ns, role, tid, by_tid, by_pid, kernel, user })))
}

/// A stack's number, or what there was instead.
fn trace(number: i32) -> Trace {
    u32::try_from(number).map_or(if is_without_room(number) { Trace::NoRoom } else { Trace::Nothing }, Trace::Number)
}

fn woken(record: &mut &[u8]) -> Result<Told, DecodeError> {
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
    Ok((cpu, lost, What::Woken(Woken { at_ns, tid, comm, new, running, target_cpu, waker_tid })))
}

#[cfg(test)]
mod tests;
