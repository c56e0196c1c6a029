//! Parses the events of the scheduler, interrupts and C-states: the part of a line that follows its head.
//!
//! Each event has two forms: that of the kernel (`TP_printk`, include/trace/events/sched.h, Linux 4.x to 7.2), and that
//! of trace-cmd's plugins for the scheduler.

use wakelat_common::pending_wait::PrevState;

use crate::{trace_line::number, wait::Comm};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TracedEvent {
    /// `sched_waking`.
    Waking(WokenTask),
    /// `sched_wakeup`.
    Wakeup(WokenTask),
    /// `sched_wakeup_new`.
    New(WokenTask),
    /// `sched_switch`.
    Switch {
        /// The outgoing task.
        prev: SwitchedTask,
        /// What becomes of it.
        prev_state: PrevState,
        /// The incoming task.
        next: SwitchedTask,
    },
    /// `sched_migrate_task`.
    Migration {
        /// The thread.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// The CPU that it leaves.
        from_cpu: u32,
        /// The CPU that it goes to.
        to_cpu: u32,
    },
    /// `irq_handler_entry`.
    IrqEntry {
        /// The interrupt's number.
        number: u32,
        /// The name of the device.
        name: Comm,
    },
    /// `irq_handler_exit` of the interrupt with this number.
    IrqExit(u32),
    /// `softirq_entry` of this vector.
    SoftirqEntry(u32),
    /// `softirq_exit` of this vector.
    SoftirqExit(u32),
    /// `cpu_idle`: a CPU enters a C-state.
    Idle {
        /// The CPU.
        cpu: u32,
        /// The C-state.
        state: u8,
    },
    /// perf lost this many events of the CPU before the line.
    Lost(u64),
    /// An event that no view needs.
    Other,
}

/// The task of `sched_waking` and `sched_wakeup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WokenTask {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// At `sched_wakeup`, the CPU whose run queue it goes to; at `sched_waking`, the one on which it ran last.
    pub target_cpu: u32,
}

/// A task of `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwitchedTask {
    /// The thread; 0 is idle.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its kernel priority.
    pub prio: i32,
}

const SWITCH: &str =
    "prev_comm=NAME prev_pid=PID prev_prio=N prev_state=STATE ==> next_comm=NAME next_pid=PID next_prio=N";
const WOKEN: &str = "comm=NAME pid=PID prio=N target_cpu=CPU";
const MIGRATION: &str = "comm=NAME pid=PID prio=N orig_cpu=CPU dest_cpu=CPU";
const IRQ_ENTRY: &str = "irq=N name=NAME";
const IRQ_EXIT: &str = "irq=N ret=handled";
const SOFTIRQ: &str = "vec=N [action=NAME]";
const IDLE: &str = "state=N cpu_id=CPU";
const LOST: &str = "PERF_RECORD_LOST lost N";

/// Parses the event with this name and text.
///
/// # Errors
/// If the text is not that of such an event: the expected text.
pub(super) fn read(name: &[u8], text: &[u8]) -> Result<TracedEvent, &'static str> {
    let woken = || woken(text).ok_or(WOKEN);
    match name {
        b"sched_switch" => switch(text).ok_or(SWITCH),
        b"sched_waking" => woken().map(TracedEvent::Waking),
        b"sched_wakeup" => woken().map(TracedEvent::Wakeup),
        b"sched_wakeup_new" => woken().map(TracedEvent::New),
        b"sched_migrate_task" => migration(text).ok_or(MIGRATION),
        b"irq_handler_entry" => irq_entry(text).ok_or(IRQ_ENTRY),
        b"irq_handler_exit" => value(text, b"irq=").map(TracedEvent::IrqExit).ok_or(IRQ_EXIT),
        b"softirq_entry" => value(text, b"vec=").map(TracedEvent::SoftirqEntry).ok_or(SOFTIRQ),
        b"softirq_exit" => value(text, b"vec=").map(TracedEvent::SoftirqExit).ok_or(SOFTIRQ),
        b"cpu_idle" => idle(text).ok_or(IDLE),
        b"PERF_RECORD_LOST" | b"PERF_RECORD_LOST_SAMPLES" => lost(text).ok_or(LOST),
        _ => Ok(TracedEvent::Other),
    }
}

/// Parses digits that end with the text or before a space.
fn whole(text: &[u8]) -> Option<u32> {
    let (number, rest) = number(text)?;
    (rest.is_empty() || rest.starts_with(b" ")).then_some(u32::try_from(number).ok()?)
}

/// Parses the number after `key`, at its last place: a name before it may contain anything.
fn value(text: &[u8], key: &[u8]) -> Option<u32> {
    whole(split_last(text, key)?.1)
}

/// Parses a priority, which is negative for a deadline task.
fn prio(text: &[u8]) -> Option<i32> {
    let magnitude = |digits| whole(digits).and_then(|number| i32::try_from(number).ok());
    match text.strip_prefix(b"-") {
        Some(digits) => magnitude(digits).map(i32::wrapping_neg),
        None => magnitude(text),
    }
}

/// Splits at the last place with `separator`.
fn split_last<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(separator.len()).rposition(|window| window == separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

fn switch(text: &[u8]) -> Option<TracedEvent> {
    let (prev, prev_state, next) = match split_last(text, b" ==> next_comm=") {
        Some((prev, next)) => {
            let (prev, state) = split_last(prev.strip_prefix(b"prev_comm=")?, b" prev_state=")?;
            let (next_comm, next) = split_last(next, b" next_pid=")?;
            let (prev_comm, prev) = split_last(prev, b" prev_pid=")?;
            (task(prev_comm, prev, b" prev_prio=")?, state, task(next_comm, next, b" next_prio=")?)
        }
        None => {
            let (prev, next) = split_last(text, b" ==> ")?;
            let (prev, state) = split_last(prev, b" ")?;
            (task_of_plugin(prev)?, state, task_of_plugin(next)?)
        }
    };
    Some(TracedEvent::Switch { prev, prev_state: state(prev_state)?, next })
}

/// Parses `PID prio=PRIO`, where `key` is the text before the priority.
fn task(comm: &[u8], text: &[u8], key: &[u8]) -> Option<SwitchedTask> {
    let (tid, last) = split_last(text, key)?;
    Some(SwitchedTask { tid: whole(tid)?, comm: Comm::new(comm), prio: prio(last)? })
}

/// Parses `NAME:PID [PRIO]`.
fn task_of_plugin(text: &[u8]) -> Option<SwitchedTask> {
    let (task, last) = split_last(text.trim_ascii(), b" [")?;
    let (comm, tid) = split_last(task, b":")?;
    let tid = number(tid).filter(|(_, rest)| rest.is_empty())?.0;
    Some(SwitchedTask { tid: u32::try_from(tid).ok()?, comm: Comm::new(comm), prio: prio(last.strip_suffix(b"]")?)? })
}

/// Parses the state of the outgoing task, such as `S`, `R+`, `D|W`. `+` is a preempted task, whose own state the kernel
/// does not print: it may be a sleeping one.
fn state(text: &[u8]) -> Option<PrevState> {
    let known = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'|';
    let (states, is_preempted) = text.strip_suffix(b"+").map_or((text, false), |states| (states, true));
    if states.is_empty() || !states.iter().all(known) {
        return None;
    }
    Some(if is_preempted {
        PrevState::PreemptedSleeping
    } else if states == b"R" {
        PrevState::Runnable
    } else if states.iter().any(|state| b"XxZ".contains(state)) {
        PrevState::Dead
    } else {
        PrevState::Sleeping
    })
}

fn woken(text: &[u8]) -> Option<WokenTask> {
    let (comm, tid, target_cpu) = match text.strip_prefix(b"comm=").and_then(|text| split_last(text, b" pid=")) {
        Some((comm, rest)) => (comm, whole(rest)?, value(rest, b" target_cpu=")?),
        None => {
            let (task, cpu) = split_last(text, b"CPU:")?;
            let (task, _) = split_last(task, b" [")?;
            let (comm, tid) = split_last(task, b":")?;
            (comm, whole(tid)?, whole(cpu)?)
        }
    };
    Some(WokenTask { tid, comm: Comm::new(comm), target_cpu })
}

fn migration(text: &[u8]) -> Option<TracedEvent> {
    let (comm, rest) = split_last(text.strip_prefix(b"comm=")?, b" pid=")?;
    let [from_cpu, to_cpu] = [value(rest, b" orig_cpu=")?, value(rest, b" dest_cpu=")?];
    Some(TracedEvent::Migration { tid: whole(rest)?, comm: Comm::new(comm), from_cpu, to_cpu })
}

fn irq_entry(text: &[u8]) -> Option<TracedEvent> {
    let text = text.strip_prefix(b"irq=")?;
    let (irq, name) = text.split_at(text.iter().position(|byte| *byte == b' ')?);
    Some(TracedEvent::IrqEntry { number: whole(irq)?, name: Comm::new(name.strip_prefix(b" name=")?) })
}

fn idle(text: &[u8]) -> Option<TracedEvent> {
    /// The state of a CPU that leaves idle (`PWR_EVENT_EXIT`).
    const EXIT: u32 = u32::MAX;
    let cpu = value(text, b" cpu_id=")?;
    Some(match whole(text.strip_prefix(b"state=")?)? {
        EXIT => TracedEvent::Other,
        state => TracedEvent::Idle { cpu, state: u8::try_from(state).ok()? },
    })
}

fn lost(text: &[u8]) -> Option<TracedEvent> {
    let last = text.split(|byte| *byte == b' ').next_back()?;
    number(last).filter(|(_, rest)| rest.is_empty()).map(|(events, _)| TracedEvent::Lost(events))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, comm: &str, prio: i32) -> SwitchedTask {
        SwitchedTask { tid, comm: Comm::new(comm.as_bytes()), prio }
    }

    #[test]
    fn both_forms_of_a_switch_are_read() {
        let (prev, next) = (task(14_569, "perf", 120), task(13, "migration/1", 0));
        let expected = TracedEvent::Switch { prev, prev_state: PrevState::Runnable, next };
        for text in [
            "prev_comm=perf prev_pid=14569 prev_prio=120 prev_state=R ==> next_comm=migration/1 next_pid=13 next_prio=0",
            "perf:14569 [120] R ==> migration/1:13 [0]",
        ] {
            assert_eq!(read(b"sched_switch", text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn both_forms_of_a_wakeup_are_read_with_and_without_success() {
        for text in [
            "comm=python pid=3621 prio=120 target_cpu=001",
            "comm=python pid=3621 prio=120 success=1 target_cpu=001",
            "python:3621 [120] success=1 CPU:001",
            "python:3621 [120] CPU:001",
            "python:3621 [120]<CANT FIND FIELD success>CPU:001",
        ] {
            let woken = WokenTask { tid: 3621, comm: Comm::new(b"python"), target_cpu: 1 };
            assert_eq!(read(b"sched_waking", text.as_bytes()), Ok(TracedEvent::Waking(woken)), "{text}");
            assert_eq!(read(b"sched_wakeup", text.as_bytes()), Ok(TracedEvent::Wakeup(woken)), "{text}");
            assert_eq!(read(b"sched_wakeup_new", text.as_bytes()), Ok(TracedEvent::New(woken)), "{text}");
        }
    }

    #[test]
    fn a_name_may_contain_anything() {
        for comm in ["a pid=1 prio=2", "x:1 [120]", "<...>-7", "prev_pid=3", "a ==> b", ""] {
            let line = format!(
                "prev_comm={comm} prev_pid=7 prev_prio=-1 prev_state=S ==> next_comm={comm} next_pid=8 next_prio=120"
            );
            let (prev, next) = (task(7, comm, -1), task(8, comm, 120));
            let expected = TracedEvent::Switch { prev, prev_state: PrevState::Sleeping, next };
            assert_eq!(read(b"sched_switch", line.as_bytes()), Ok(expected), "{comm}");
            let line = format!("comm={comm} pid=7 prio=120 target_cpu=003");
            let expected = TracedEvent::Wakeup(WokenTask { tid: 7, comm: Comm::new(comm.as_bytes()), target_cpu: 3 });
            assert_eq!(read(b"sched_wakeup", line.as_bytes()), Ok(expected), "{comm}");
        }
    }

    #[test]
    fn states_are_those_of_the_programs() {
        use PrevState::{Dead, PreemptedSleeping, Runnable, Sleeping};
        let states = ["R", "R+", "S+", "S", "D", "I", "P", "D|W", "X", "Z", "x"].map(|text| state(text.as_bytes()));
        let expected = [
            Runnable,
            PreemptedSleeping,
            PreemptedSleeping,
            Sleeping,
            Sleeping,
            Sleeping,
            Sleeping,
            Sleeping,
            Dead,
            Dead,
            Dead,
        ];
        assert_eq!(states, expected.map(Some));
        assert_eq!(["", "+", "0", "S ==>"].map(|text| state(text.as_bytes())), [None; 4]);
    }

    #[test]
    fn the_other_events_are_read() {
        let name = Comm::new(b"virtio1-req.0");
        let cases = [
            ("irq_handler_entry", "irq=36 name=virtio1-req.0", TracedEvent::IrqEntry { number: 36, name }),
            ("irq_handler_exit", "irq=36 ret=handled", TracedEvent::IrqExit(36)),
            ("softirq_entry", "vec=9 [action=RCU]", TracedEvent::SoftirqEntry(9)),
            ("softirq_exit", "vec=9 [action=RCU]", TracedEvent::SoftirqExit(9)),
            ("cpu_idle", "state=2 cpu_id=1", TracedEvent::Idle { cpu: 1, state: 2 }),
            ("cpu_idle", "state=4294967295 cpu_id=1", TracedEvent::Other),
            ("PERF_RECORD_LOST", "lost 142", TracedEvent::Lost(142)),
            ("sched_stat_runtime", "comm=perf pid=1 runtime=1 [ns]", TracedEvent::Other),
        ];
        for (name, text, expected) in cases {
            assert_eq!(read(name.as_bytes(), text.as_bytes()), Ok(expected), "{text}");
        }
        let moved = TracedEvent::Migration { tid: 9, comm: Comm::new(b"a b"), from_cpu: 1, to_cpu: 0 };
        assert_eq!(read(b"sched_migrate_task", b"comm=a b pid=9 prio=120 orig_cpu=1 dest_cpu=0"), Ok(moved));
    }

    #[test]
    fn a_truncated_event_is_broken() {
        let whole = b"prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120";
        for length in 0..whole.len() - 2 {
            assert!(read(b"sched_switch", &whole[..length]).is_err(), "{length}");
        }
        for (name, text) in
            [("irq_handler_entry", "irq= name=x"), ("irq_handler_entry", " name="), ("cpu_idle", "state=2")]
        {
            assert!(read(name.as_bytes(), text.as_bytes()).is_err(), "{text}");
        }
    }
}
