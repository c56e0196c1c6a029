//! The state of one task between being woken and running, and the rules by which it changes.
//!
//! The rules are here and not in the programs so that they can be tried on any course of events: see
//! `tests/timelines.rs`.

use crate::{
    Class,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
};

/// The wait of one task, kept in its [`crate::course::TrackedTask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PendingWait {
    /// When the wait began: ns of CLOCK_MONOTONIC; 0 while the task does not wait.
    pub at_ns: u64,
    /// The waiting thread, for the account of tasks still waiting at the end.
    pub pid: u32,
    /// Who fired `sched_waking`.
    pub waker_pid: u32,
    /// When `sched_waking` fired for this wakeup: ns, or 0 where it was not seen. Not beside the other time: that both are
    /// cleared where a wait ends would be a call of `memset`, byte by byte.
    pub waking_at_ns: u64,
    /// Where the task ran before.
    pub prev_cpu: u32,
    /// Why it waits: a [`crate::Class`], as its number.
    pub class: u8,
    /// 1 where this wait is one the user asked for; 0 where it is remembered only so that a wakeup of a task that waits
    /// already is not taken for a new wait.
    pub wanted: u8,
    /// 1 where the task lost its CPU although its state said that it sleeps: [`PrevState::PreemptedSleeping`].
    pub preempted_sleeping: u8,
    /// The level in force when the wait began ([`crate::share`]).
    pub sampling_shift: u8,
}

const _: () = assert!(size_of::<PendingWait>() == 32);

/// What a wakeup meant for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeupOutcome {
    /// It waits from now.
    Started,
    /// It waited already: the earlier start stays, or, by the rules of a hist trigger, the later one replaced it.
    AlreadyQueued,
}

/// What becomes of a task that loses its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(serde::Serialize, serde::Deserialize))]
pub enum PrevState {
    /// It could go on, and waits for a CPU again.
    Runnable,
    /// The same, but its state says that it sleeps: only such a task can be woken while it waits.
    PreemptedSleeping,
    /// It sleeps until it is woken.
    Sleeping,
    /// It never comes back.
    Dead,
}

impl PrevState {
    /// From the arguments of `sched_switch` and the state of the task that leaves. `TASK_DEAD` (include/linux/sched.h)
    /// is the state of a task's last switch; the same from 5.10 to 7.2.
    #[inline(always)]
    pub const fn of(preempt: bool, state: u64) -> Self {
        const TASK_DEAD: u64 = 0x80;
        if state == 0 {
            Self::Runnable
        } else if preempt {
            // It had announced that it would sleep, but lost its CPU before it could: it stays on the run queue.
            Self::PreemptedSleeping
        } else if state & TASK_DEAD != 0 {
            Self::Dead
        } else {
            Self::Sleeping
        }
    }

    /// Whether it waits from now, where it is remembered: always where preemptions are `wanted`, and otherwise where a
    /// wakeup could be taken for the beginning of its wait. So no figure depends on which classes were asked for.
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

    /// Whether it is a wait, and one that was asked for.
    #[inline(always)]
    pub const fn is_wanted(&self) -> bool {
        self.at_ns != 0 && self.wanted != 0
    }

    /// `sched_waking` by `waker_pid`, of a task that ran on `prev_cpu`. A task that waits already keeps what is known of
    /// its wait.
    #[inline(always)]
    pub fn waking(&mut self, now_ns: u64, waker_pid: u32, prev_cpu: u32) {
        if self.at_ns == 0 {
            self.waking_at_ns = now_ns;
            self.waker_pid = waker_pid;
            self.prev_cpu = prev_cpu;
        }
    }

    /// `sched_wakeup` or `sched_wakeup_new` of a task that no CPU runs. The earliest start wins, unless `latest_wins` as
    /// it does in a hist trigger.
    #[inline(always)]
    pub fn wakeup(&mut self, now_ns: u64, pid: u32, class: Class, latest_wins: bool) -> WakeupOutcome {
        let woken = if self.at_ns != 0 { WakeupOutcome::AlreadyQueued } else { WakeupOutcome::Started };
        if woken != WakeupOutcome::AlreadyQueued || latest_wins {
            self.at_ns = now_ns;
            self.pid = pid;
            self.class = class as u8;
            self.wanted = 1;
            self.preempted_sleeping = 0;
        }
        woken
    }

    /// A wakeup found the task running: the `sched_waking` before it belongs to no wait.
    #[inline(always)]
    pub fn already_running(&mut self) {
        if self.at_ns == 0 {
            self.waking_at_ns = 0;
        }
    }

    /// The task loses a CPU, or is new: what it still owns of a wait is left over from a switch-in that was missed.
    /// Returns the class of such a wait, where it was asked for. What is known of a waker stays: a task on its way to sleep may
    /// have been through its `sched_waking` already, and its `sched_wakeup` follows.
    #[inline(always)]
    pub fn switch_out(&mut self) -> Option<Class> {
        if self.at_ns == 0 {
            // Not written: see `forget` in wakelat-ebpf/src/starts.rs.
            return None;
        }
        self.at_ns = 0;
        if self.wanted != 0 { Class::from_u8(self.class) } else { None }
    }

    /// The task lost its CPU `cpu` and waits from now; `leaving` says how it lost it.
    #[inline(always)]
    pub fn preempt(&mut self, now_ns: u64, pid: u32, cpu: u32, wanted: bool, leaving: PrevState) {
        *self = Self {
            at_ns: now_ns,
            pid,
            prev_cpu: cpu,
            class: Class::Preempted as u8,
            wanted: wanted as u8,
            preempted_sleeping: matches!(leaving, PrevState::PreemptedSleeping) as u8,
            ..Self::IDLE
        };
    }

    /// The task is given a CPU: its wait is consumed, whatever becomes of it. Before that, `tell` is shown it where somebody
    /// asked for it; returns what that makes of it. (In place: all of it in registers would be more than there are.)
    #[inline(always)]
    pub fn switch_in<Told>(&mut self, tell: impl FnOnce(&Self) -> Option<Told>) -> Option<Told> {
        if self.at_ns == 0 {
            // Its `sched_wakeup` was not seen, or not sampled.
            self.waking_at_ns = 0;
            return None;
        }
        let told = if self.wanted == 0 { None } else { tell(self) };
        self.at_ns = 0;
        // A wakeup whose `sched_waking` was not seen must not find the one before.
        self.waking_at_ns = 0;
        self.prev_cpu = CPU_UNKNOWN;
        told
    }

    /// How long the task has waited when it is given a CPU: ns. `from_waking`: the latency of a wakeup starts at
    /// `sched_waking`. `None` is impossible: the end is before the start, or nobody saw the event from which to count.
    #[inline(always)]
    pub const fn latency_ns(&self, now_ns: u64, from_waking: bool) -> Option<u64> {
        if now_ns < self.at_ns {
            return None;
        }
        let latency_ns = now_ns - self.at_ns;
        if from_waking && self.class == Class::Wakeup as u8 {
            // Two kinds of latency never share a column: without its `sched_waking` this one cannot be told.
            return match self.delivery_ns() {
                DELIVERY_UNKNOWN => None,
                delivery_ns => Some(latency_ns + delivery_ns),
            };
        }
        Some(latency_ns)
    }

    /// `sched_waking` to `sched_wakeup`: ns, or [`DELIVERY_UNKNOWN`].
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

    /// A task whose next wakeup has no `sched_waking`, after `before`: its delivery.
    fn delivery_of_the_next(before: impl FnOnce(&mut PendingWait)) -> u64 {
        let mut start = PendingWait::IDLE;
        start.waking(100, 7, 0);
        before(&mut start);
        start.wakeup(900, 1, Class::Wakeup, false);
        start.delivery_ns()
    }

    #[test]
    fn a_waking_of_a_running_task_is_not_the_next_waits() {
        assert_eq!(delivery_of_the_next(PendingWait::already_running), DELIVERY_UNKNOWN);
    }

    #[test]
    fn a_waking_whose_wakeup_was_not_seen_ends_where_the_task_runs() {
        assert_eq!(delivery_of_the_next(|start| assert_eq!(start.switch_in(|_| Some(())), None)), DELIVERY_UNKNOWN);
    }

    #[test]
    fn a_waking_on_the_way_to_sleep_belongs_to_the_wakeup_that_follows() {
        assert_eq!(delivery_of_the_next(|start| assert_eq!(start.switch_out(), None)), 800);
    }

    #[test]
    fn a_wakeup_of_a_waiting_task_leaves_its_wait_as_it_is() {
        let mut start = PendingWait::IDLE;
        start.waking(100, 7, 0);
        start.wakeup(110, 1, Class::Wakeup, false);
        start.already_running();
        assert_eq!(start.delivery_ns(), 10);
    }
}
