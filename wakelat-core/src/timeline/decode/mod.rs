//! Decodes the records of the BPF programs into events, in which the kernel's words become the user's. Never panics,
//! whatever the bytes.

mod stolen_time;

use wakelat_common::{
    Class,
    sample::DELIVERY_UNKNOWN,
    stack::{StackRecord, is_map_full, role},
    timeline::{
        ForkExecRecord, IDLE_STATE_UNKNOWN, InterruptRecord, MigrationRecord, NO_WAIT, SwitchRecord, SwitchRecordFull,
        UNSEEN_UNKNOWN, WakeupRecord, WorkItemRecord, flag, kind, prev_state_from_u8, source,
    },
};

use self::stolen_time::StolenTime;
use super::{
    event::{
        DetailedWait, Event, EventKind, ForkExecEvent, InterruptEvent, InterruptSource, MigrationEvent, SwitchEvent,
        TaskInfo, Unseen, WakeupEvent, WorkItemEvent,
    },
    stack_event::{Role, StackEvent, StackId},
    wait_course::WaitCourse,
};
use crate::{
    decode::{DecodeError, known_cgroup, known_cpu, read},
    hash::HashMap,
    wait::Comm,
};

/// Decodes records, with state for each CPU: the number of its records so far, because a record carries only the number
/// lost before it; and its current task, because a switch record describes the outgoing task only if something about it
/// is new.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    cpus: Cpus,
    /// The memory of an earlier switch.
    spare: Option<Box<SwitchEvent>>,
}

/// The state of each CPU. Records of a running kernel have numbers of CPUs below [`MANY_CPUS`]; any bytes may have others.
#[derive(Clone, Debug, Default)]
struct Cpus {
    /// By number: no hash for each record.
    first: Vec<Cpu>,
    others: HashMap<u32, Cpu>,
}

/// The most CPUs that a kernel for x86 supports (`NR_CPUS`, arch/x86/Kconfig).
const MANY_CPUS: usize = 8_192;

impl Cpus {
    #[inline]
    fn get(&mut self, cpu: u32) -> &mut Cpu {
        let at = cpu as usize;
        if at >= MANY_CPUS {
            return self.others.entry(cpu).or_default();
        }
        if at >= self.first.len() {
            self.first.resize_with(at + 1, Cpu::default);
        }
        &mut self.first[at]
    }
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    decoded: u32,
    /// Records lost so far: the highest count that a record carried.
    lost: u32,
    current: Option<TaskInfo>,
    /// Used only if the records have the CPU's total.
    stolen: StolenTime,
}

/// A switch between two tasks that earlier records describe, before it is decoded.
#[derive(Clone, Copy, Debug)]
pub struct KnownSwitch<'a> {
    /// The record.
    pub record: &'a SwitchRecord,
    /// Its number in the sequence of its CPU's events: [`Event::seq`].
    pub seq: u32,
    /// The outgoing task, as an earlier record describes it.
    pub prev: &'a TaskInfo,
    /// The incoming task.
    pub next: &'a TaskInfo,
}

impl Decoder {
    /// Decodes one record, in the machine's byte order.
    ///
    /// # Errors
    /// If the record is too short or too long; if its kind, class, source, role or `prev_state` is unknown; or if it
    /// is a switch from a task that no earlier record described.
    pub fn decode(&mut self, record: &[u8]) -> Result<Event, DecodeError> {
        let kind = match record {
            [kind, ..] => *kind,
            [] => return Err(DecodeError::Length { found: 0, expected: size_of::<SwitchRecord>() }),
        };
        let (cpu, lost, kind) = match kind {
            kind::SWITCH => self.switch(&read(record)?, None)?,
            kind::SWITCH_FULL => {
                let full: SwitchRecordFull = read(record)?;
                self.switch(&full.switch, Some(&full))?
            }
            kind::INTERRUPT => interrupt(&read(record)?)?,
            kind::MIGRATION => migration(&read(record)?),
            kind::WAKEUP => wakeup(&read(record)?)?,
            kind::WORK_ITEM => work_item(&read(record)?),
            kind::FORK_EXEC => fork_exec(&read(record)?),
            kind::STACK => stack(&read(record)?)?,
            other => return Err(DecodeError::Kind(other)),
        };
        let known = self.cpus.get(cpu);
        known.decoded = known.decoded.wrapping_add(1);
        // An interrupt may lose a record of its own while another record is being sent. The latter may then count more
        // losses than records behind it (wakelat-ebpf/src/cpu_state.rs).
        if (lost.wrapping_sub(known.lost) as i32) > 0 {
            known.lost = lost;
        }
        Ok(Event { cpu, seq: known.decoded.wrapping_add(known.lost), kind })
    }

    /// Calls `take` if `record` is a switch between tasks that earlier records describe. Returns what `take` returns: true if
    /// it has taken the switch, which must not be decoded then.
    #[inline]
    pub fn offer_switch(&mut self, record: &[u8], take: impl FnOnce(&KnownSwitch<'_>) -> bool) -> bool {
        let [kind::SWITCH, ..] = record else { return false };
        let Ok(switch) = read::<SwitchRecord>(record) else { return false };
        let known = self.cpus.get(switch.cpu);
        let Some(prev) = known.current.as_ref().filter(|task| task.tid == switch.prev_pid) else { return false };
        // How much of a CPU's total of stolen time belongs to a wait depends on earlier switches.
        if switch.lost != known.lost || switch.flags & flag::STOLEN_TOTAL != 0 {
            return false;
        }
        let (decoded, next) = (known.decoded.wrapping_add(1), next_task(&switch));
        let is_taken = take(&KnownSwitch { record: &switch, seq: decoded.wrapping_add(known.lost), prev, next: &next });
        if is_taken {
            (known.decoded, known.current) = (decoded, Some(next));
        }
        is_taken
    }

    /// Takes an event that is not needed any more: a later one uses its memory.
    #[inline]
    pub fn reuse(&mut self, event: Event) {
        if let EventKind::Switch(switch) = event.kind {
            self.spare = Some(switch);
        }
    }

    /// Decodes a switch; `full` is the record that it is part of, if it describes the outgoing task.
    fn switch(&mut self, switch: &SwitchRecord, full: Option<&SwitchRecordFull>) -> Result<Decoded, DecodeError> {
        let is = |flag| switch.flags & flag != 0;
        let Cpu { current: known, stolen, .. } = self.cpus.get(switch.cpu);
        let (prev, unseen) = if let Some(full) = full {
            prev_task(full)
        } else {
            let tid = switch.prev_pid;
            let prev = known.filter(|task| task.tid == tid).ok_or(DecodeError::UnknownPrev(tid))?;
            (prev, None)
        };
        let prev = TaskInfo { wanted: is(flag::PREV_WANTED), ..prev };
        let next = next_task(switch);
        *known = Some(next);
        let course = wait_course(switch)?;
        let mut ended_wait = course.map(|course| course.of_tasks(switch.at_ns, switch.cpu, &prev, &next));
        if is(flag::STOLEN_TOTAL) {
            stolen.switch(switch.at_ns, switch.stolen_ns);
            if let Some(DetailedWait { wait, migrations, stolen_ns, .. }) = &mut ended_wait {
                // When a wait that migrated began on this CPU is not known.
                let since_ns = wait.at_ns.saturating_sub(wait.latency_ns);
                *stolen_ns = if *migrations == 0 { stolen.since(since_ns) } else { 0 };
            }
        }
        let event = SwitchEvent {
            at_ns: switch.at_ns,
            prev,
            unseen,
            prev_state: prev_state_from_u8(switch.prev_state).ok_or(DecodeError::PrevState(switch.prev_state))?,
            next,
            ended_wait,
            idle_state: (switch.idle_state != IDLE_STATE_UNKNOWN).then_some(switch.idle_state),
            rt_throttled: is(flag::RT_THROTTLED),
        };
        let event = match self.spare.take() {
            Some(mut spare) => {
                *spare = event;
                spare
            }
            None => Box::new(event),
        };
        Ok((switch.cpu, switch.lost, EventKind::Switch(event)))
    }
}

/// A decoded record: its CPU, that CPU's records lost so far, and the event.
type Decoded = (u32, u32, EventKind);

/// The incoming task.
#[inline]
fn next_task(switch: &SwitchRecord) -> TaskInfo {
    TaskInfo {
        tid: switch.pid,
        pid: switch.tgid,
        comm: Comm::new(&switch.comm),
        prio: switch.prio,
        policy: switch.policy,
        cgroup_id: known_cgroup(switch.cgroup_id),
        wanted: switch.flags & flag::NEXT_WANTED != 0,
    }
}

/// The outgoing task, and the unseen switches before.
fn prev_task(full: &SwitchRecordFull) -> (TaskInfo, Option<Unseen>) {
    let known = Unseen {
        switches: (full.unseen != UNSEEN_UNKNOWN).then_some(full.unseen),
        switched_in_ns: (full.switched_in_ns != 0).then_some(full.switched_in_ns),
    };
    let prev = TaskInfo {
        tid: full.switch.prev_pid,
        pid: full.prev_tgid,
        comm: Comm::new(&full.prev_comm),
        prio: full.prev_prio,
        policy: full.prev_policy,
        cgroup_id: known_cgroup(full.prev_cgroup_id),
        wanted: false,
    };
    (prev, (full.unseen != 0).then_some(known))
}

/// The course of the wait that ends with a switch, if one does.
///
/// # Errors
/// If its class is unknown.
#[inline]
pub(crate) fn wait_course(switch: &SwitchRecord) -> Result<Option<WaitCourse>, DecodeError> {
    if switch.class == NO_WAIT {
        return Ok(None);
    }
    let class = Class::from_u8(switch.class).ok_or(DecodeError::Class(switch.class))?;
    let delivered = class == Class::Wakeup && switch.delivery_ns != DELIVERY_UNKNOWN;
    let is = |flag| switch.flags & flag != 0;
    Ok(Some(WaitCourse {
        class,
        latency_ns: switch.latency_ns,
        delivery_ns: delivered.then_some(switch.delivery_ns),
        waker_tid: delivered.then_some(switch.waker_pid),
        prev_cpu: known_cpu(switch.prev_cpu),
        preempted_sleeping: switch.preempted_sleeping != 0,
        sampling_shift: switch.sampling_shift,
        cpu: known_cpu(switch.wait_cpu),
        waker_cpu: if class == Class::Wakeup { known_cpu(switch.waker_cpu) } else { None },
        remote: is(flag::REMOTE),
        migrations: switch.migrations,
        throttled_ns: (!is(flag::THROTTLING_UNKNOWN)).then_some(switch.throttled_ns),
        throttled_at_start: is(flag::THROTTLED_AT_START),
        stolen_ns: switch.stolen_ns,
    }))
}

fn interrupt(record: &InterruptRecord) -> Result<Decoded, DecodeError> {
    let InterruptRecord { cpu, lost, number, from_ns, to_ns, .. } = *record;
    let source = match record.source {
        source::IRQ => InterruptSource::Irq { number, name: Comm::new(&record.name) },
        source::VECTOR => InterruptSource::Vector(number),
        source::SOFTIRQ => InterruptSource::Softirq(number),
        other => return Err(DecodeError::Source(other)),
    };
    Ok((cpu, lost, EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns })))
}

fn migration(record: &MigrationRecord) -> Decoded {
    let MigrationRecord { cpu, lost, pid: tid, at_ns, from_cpu, to_cpu, .. } = *record;
    let (waiting, comm) = (record.waiting != 0, Comm::new(&record.comm));
    (cpu, lost, EventKind::Migration(MigrationEvent { at_ns, tid, comm, waiting, from_cpu, to_cpu }))
}

fn work_item(record: &WorkItemRecord) -> Decoded {
    let WorkItemRecord { cpu, lost, pid: tid, at_ns, function, .. } = *record;
    let function = (function != 0).then_some(function);
    (cpu, lost, EventKind::WorkItem(WorkItemEvent { at_ns, tid, function }))
}

fn fork_exec(record: &ForkExecRecord) -> Decoded {
    let ForkExecRecord { cpu, lost, pid: tid, at_ns, exec, child, .. } = *record;
    let comm = Comm::new(&record.comm);
    (cpu, lost, EventKind::ForkExec(ForkExecEvent { at_ns, tid, comm, child: (exec == 0).then_some(child) }))
}

fn stack(record: &StackRecord) -> Result<Decoded, DecodeError> {
    let StackRecord { cpu, lost, pid: tid, at_ns, by_pid: by_tid, by_tgid: by_pid, .. } = *record;
    let role = match record.role {
        role::WAKER => Role::Waker,
        role::WAKEE => Role::Wakee,
        other => return Err(DecodeError::Role(other)),
    };
    let [kernel, user] = [record.kernel, record.user].map(stack_id);
    Ok((cpu, lost, EventKind::Stack(StackEvent { at_ns, role, tid, by_tid, by_pid, kernel, user })))
}

/// The ID of a stack, or why there is none, from the return value of `bpf_get_stackid()`.
fn stack_id(number: i32) -> StackId {
    u32::try_from(number).map_or(if is_map_full(number) { StackId::MapFull } else { StackId::Missing }, StackId::Id)
}

fn wakeup(record: &WakeupRecord) -> Result<Decoded, DecodeError> {
    let WakeupRecord { class, cpu, lost, pid: tid, at_ns, target_cpu, waker_pid: waker_tid, .. } = *record;
    let new = match Class::from_u8(class) {
        Some(Class::Wakeup) => false,
        Some(Class::New) => true,
        Some(Class::Preempted) | None => return Err(DecodeError::Class(class)),
    };
    let (running, comm) = (record.running != 0, Comm::new(&record.comm));
    Ok((cpu, lost, EventKind::Wakeup(WakeupEvent { at_ns, tid, comm, new, running, target_cpu, waker_tid })))
}

#[cfg(test)]
mod tests;
