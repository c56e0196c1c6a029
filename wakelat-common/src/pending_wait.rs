//! The pending wait of one task, from its wakeup or preemption to its switch-in, and the rules by which
//! events change it.
//!
//! The rules are here and not in the programs so that tests can try them on any sequence of events: see
//! `tests/timelines.rs`.

use crate::{
    Class,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
};

/// The pending wait of one task, kept in its [`TrackedTask`](crate::task_table::TrackedTask).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PendingWait {
    /// When the wait began: ns of CLOCK_MONOTONIC; 0 while the task does not wait.
    pub at_ns: u64,
    /// The TID of the waiting task, for the list of tasks still waiting at the end.
    pub pid: u32,
    /// The thread that was current when `sched_waking` fired.
    pub waker_pid: u32,
    /// When `sched_waking` fired for this wakeup: ns of CLOCK_MONOTONIC; 0 if it was not seen. Not next
    /// to `at_ns`: clearing two adjacent words when a wait ends would compile to a call of `memset`,
    /// byte by byte.
    pub waking_at_ns: u64,
    /// The CPU on which the task ran before.
    pub prev_cpu: u32,
    /// Why the task waits: a [`crate::Class`] as a number.
    pub class: u8,
    /// 1 if the user requested this wait; 0 if it is tracked only so that a wakeup of a task that
    /// already waits is not taken for a new wait.
    pub wanted: u8,
    /// 1 if the task lost its CPU in a sleeping state: [`PrevState::PreemptedSleeping`].
    pub preempted_sleeping: u8,
    /// The sampling shift in use when the wait began ([`crate::task_sampling`]).
    pub sampling_shift: u8,
}

const _: () = assert!(size_of::<PendingWait>() == 32);

/// What a wakeup means for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeupOutcome {
    /// The task waits from now.
    Started,
    /// The task already waited. The earlier start is kept or, by the rules of a hist trigger, replaced
    /// by the later one.
    AlreadyQueued,
}

/// What becomes of a task at its switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum PrevState {
    /// Still runnable: it waits for a CPU again.
    Runnable = 2,
    /// Still runnable, but its state is a sleeping one. Only such a task can be woken while it waits.
    PreemptedSleeping = 4,
    /// It sleeps until it is woken.
    Sleeping = 0,
    /// It never runs again.
    Dead = 5,
}

impl PrevState {
    /// Derives it from `preempt`, an argument of `sched_switch`, and the state of the task that is
    /// switched out. `TASK_DEAD` (include/linux/sched.h) is the state at a task's last switch; the same
    /// from 5.10 to 7.2.
    #[inline(always)]
    pub const fn of(preempt: bool, state: u64) -> Self {
        const TASK_DEAD: u64 = 0x80;
        if state == 0 {
            Self::Runnable
        } else if preempt {
            // The task had set a sleeping state but was preempted before it could switch out: it stays
            // on the run queue.
            Self::PreemptedSleeping
        } else if state & TASK_DEAD != 0 {
            Self::Dead
        } else {
            Self::Sleeping
        }
    }

    /// Whether a wait to keep track of begins. If preemptions are `wanted`, that is each of them;
    /// otherwise only those in which a wakeup could be taken for the beginning of the wait. So no figure
    /// depends on which classes were requested.
    #[inline(always)]
    pub const fn starts_wait(self, wanted: bool) -> bool {
        match self {
            Self::Runnable => wanted,
            Self::PreemptedSleeping => true,
            Self::Sleeping | Self::Dead => false,
        }
    }
}

impl PendingWait {
    /// The entry of a task that does not wait.
    pub const IDLE: Self = Self {
        at_ns: 0,
        waking_at_ns: 0,
        pid: 0,
        waker_pid: 0,
        prev_cpu: CPU_UNKNOWN,
        class: 0,
        wanted: 0,
        preempted_sleeping: 0,
        sampling_shift: 0,
    };

    /// Whether the task waits, and the user requested this wait.
    #[inline(always)]
    pub const fn is_wanted(&self) -> bool {
        self.at_ns != 0 && self.wanted != 0
    }

    /// Whether a `sched_waking` now can belong to a wait that begins later. A preempted task already waits, and its
    /// waker has nothing to do with that wait. A task that was woken is not woken again before it has run
    /// (`try_to_wake_up()` sets its state to running, kernel/sched/core.c): the end of its pending wait was missed.
    #[inline(always)]
    pub const fn awaits_wakeup(&self) -> bool {
        self.at_ns == 0 || self.class != Class::Preempted as u8
    }

    /// `sched_waking` by `waker_pid`, of a task that last ran on `prev_cpu`. Changes no pending wait: it may run in
    /// parallel with a switch of the task.
    #[inline(always)]
    pub fn waking(&mut self, now_ns: u64, waker_pid: u32, prev_cpu: u32) {
        if self.awaits_wakeup() {
            self.waking_at_ns = now_ns;
            self.waker_pid = waker_pid;
            self.prev_cpu = prev_cpu;
        }
    }

    /// A wakeup of `class` of a task that is not on a CPU: if it shows that the end of the pending wait was missed, drops
    /// that wait and returns its class, if it was requested. Not by the rules of a hist trigger, to which each wakeup is
    /// a new start.
    #[inline(always)]
    pub fn drop_missed(&mut self, class: Class) -> Option<Class> {
        if matches!(class, Class::New) || self.awaits_wakeup() { self.switch_out() } else { None }
    }

    /// `sched_wakeup` or `sched_wakeup_new` of a task that is not on a CPU. The earliest start wins,
    /// unless `latest_wins`, as in a hist trigger.
    #[inline(always)]
    pub fn wakeup(&mut self, now_ns: u64, pid: u32, class: Class, latest_wins: bool) -> WakeupOutcome {
        let outcome = if self.at_ns != 0 { WakeupOutcome::AlreadyQueued } else { WakeupOutcome::Started };
        if outcome != WakeupOutcome::AlreadyQueued || latest_wins {
            self.at_ns = now_ns;
            self.pid = pid;
            self.class = class as u8;
            self.wanted = 1;
            self.preempted_sleeping = 0;
        }
        outcome
    }

    /// A wakeup found the task running: the `sched_waking` before it belongs to no wait.
    #[inline(always)]
    pub fn already_running(&mut self) {
        if self.at_ns == 0 {
            self.waking_at_ns = 0;
        }
    }

    /// The task is switched out, or is new: a wait that is still pending is left over from a missed
    /// switch-in. Drops it and returns its class, if it was requested. Keeps what `sched_waking` stored:
    /// a task on its way to sleep may already have had its `sched_waking`, and its `sched_wakeup`
    /// follows.
    #[inline(always)]
    pub fn switch_out(&mut self) -> Option<Class> {
        if self.at_ns == 0 {
            // Not written: see `remove` in wakelat-ebpf/src/task_table.rs.
            return None;
        }
        self.at_ns = 0;
        if self.wanted != 0 { Class::from_u8(self.class) } else { None }
    }

    /// The task lost `cpu` and waits from now; `prev_state` is its state at this switch-out.
    #[inline(always)]
    pub fn preempt(&mut self, now_ns: u64, pid: u32, cpu: u32, wanted: bool, prev_state: PrevState) {
        *self = Self {
            at_ns: now_ns,
            pid,
            prev_cpu: cpu,
            class: Class::Preempted as u8,
            wanted: wanted as u8,
            preempted_sleeping: matches!(prev_state, PrevState::PreemptedSleeping) as u8,
            ..Self::IDLE
        };
    }

    /// The task is switched in: its wait is consumed in any case. If the user requested it, `report`
    /// gets to see it first, and its result is returned. (`report` gets a reference: a copy would need
    /// more registers than there are.)
    #[inline(always)]
    pub fn switch_in<T>(&mut self, report: impl FnOnce(&Self) -> Option<T>) -> Option<T> {
        if self.at_ns == 0 {
            // Its `sched_wakeup` was not seen, or the task was not sampled.
            self.waking_at_ns = 0;
            return None;
        }
        let reported = if self.wanted == 0 { None } else { report(self) };
        self.at_ns = 0;
        // A wakeup whose `sched_waking` was not seen must not find the one before.
        self.waking_at_ns = 0;
        self.prev_cpu = CPU_UNKNOWN;
        reported
    }

    /// How long a task that is switched in has waited: ns. With `from_waking`, the latency of a wakeup
    /// starts at `sched_waking`. `None` if it is invalid: the end is before the start, or the event that
    /// starts the clock was not seen.
    #[inline(always)]
    pub const fn latency_ns(&self, now_ns: u64, from_waking: bool) -> Option<u64> {
        if now_ns < self.at_ns {
            return None;
        }
        let latency_ns = now_ns - self.at_ns;
        if from_waking && self.class == Class::Wakeup as u8 {
            // The two kinds of latency are never mixed: without its `sched_waking` this one is unknown.
            return match self.delivery_ns() {
                DELIVERY_UNKNOWN => None,
                delivery_ns => Some(latency_ns + delivery_ns),
            };
        }
        Some(latency_ns)
    }

    /// Wake delivery, from `sched_waking` to `sched_wakeup`: ns, or [`DELIVERY_UNKNOWN`].
    #[inline(always)]
    pub const fn delivery_ns(&self) -> u64 {
        if self.waking_at_ns != 0 && self.waking_at_ns <= self.at_ns {
            self.at_ns - self.waking_at_ns
        } else {
            DELIVERY_UNKNOWN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies `before` to a task after a `sched_waking`, wakes it without another one, and returns its
    /// delivery.
    fn next_delivery(before: impl FnOnce(&mut PendingWait)) -> u64 {
        let mut pending = PendingWait::IDLE;
        pending.waking(100, 7, 0);
        before(&mut pending);
        pending.wakeup(900, 1, Class::Wakeup, false);
        pending.delivery_ns()
    }

    #[test]
    fn a_sched_waking_of_a_running_task_is_not_used_for_the_next_wait() {
        assert_eq!(next_delivery(PendingWait::already_running), DELIVERY_UNKNOWN);
    }

    #[test]
    fn a_sched_waking_whose_wakeup_was_missed_is_dropped_at_the_switch_in() {
        assert_eq!(next_delivery(|pending| assert_eq!(pending.switch_in(|_| Some(())), None)), DELIVERY_UNKNOWN);
    }

    #[test]
    fn a_sched_waking_of_a_task_on_its_way_to_sleep_is_kept_for_its_wakeup() {
        assert_eq!(next_delivery(|pending| assert_eq!(pending.switch_out(), None)), 800);
    }

    #[test]
    fn a_wakeup_of_a_waiting_task_does_not_change_its_wait() {
        let mut pending = PendingWait::IDLE;
        pending.waking(100, 7, 0);
        pending.wakeup(110, 1, Class::Wakeup, false);
        pending.already_running();
        assert_eq!(pending.delivery_ns(), 10);
    }
}
