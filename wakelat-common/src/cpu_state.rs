//! The state of a CPU between two of its timeline records.

use crate::timeline::UNSEEN_UNKNOWN;

/// State of a CPU between two of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CpuState {
    /// When the active interrupt of each [`source`](crate::timeline::source) began: ns of CLOCK_MONOTONIC; 0 if there
    /// is none. There is one at most: handlers and the CPU's own interrupts run with interrupts off, softirqs one after
    /// the other.
    pub from_ns: [u64; 3],
    /// Records lost so far because a ring buffer or the ring of slots was full. Incremented by one instruction, as an
    /// interrupt may come between any two and lose a record of its own.
    pub lost: u64,
    /// Switches so far. Wraps around.
    pub switches_seen: u32,
    /// One more than the last C-state that the CPU entered; 0 if it entered none since the last switch.
    pub idle_state: u32,
    /// The kernel's count of this CPU's switches at the last one seen (`rq.nr_switches`, which `__schedule()`,
    /// kernel/sched/core.c, increments before the tracepoint); 0 before the first, or if it cannot be read.
    pub nr_switches: u64,
    /// When idle was found running although the last switch was to another task: ns of CLOCK_MONOTONIC, or 0.
    pub idle_since_ns: u64,
    /// The task that the last switch was to.
    pub current: CurrentTask,
    /// What the last switch read first.
    pub first_read: FirstRead,
}

/// What a switch reads before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FirstRead {
    /// The kernel's count of this CPU's switches, this one included; 0 if it cannot be read.
    pub nr_switches: u64,
    /// The cgroup of the task that is switched out; 0 if not requested.
    pub prev_cgroup_id: u64,
    /// The cgroup of the task that is switched in; 0 if not requested.
    pub next_cgroup_id: u64,
    /// Not 0 if real-time tasks have used up their time on this CPU. Always 0 if not requested.
    pub rt_throttled: u64,
}

/// A task that was switched in, as described by a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CurrentTask {
    /// The thread.
    pub pid: u32,
    /// Its priority.
    pub prio: i32,
    /// Its policy.
    pub policy: u32,
    /// 1 if a record described it.
    pub is_recorded: u32,
    /// Its cgroup; 0 if not requested.
    pub cgroup_id: u64,
    /// Its name, as two words in the machine's byte order.
    pub comm: [u64; 2],
}

impl CpuState {
    /// Counts a switch that is number `switches` by the kernel's count. Returns how many switches before
    /// it were not seen, or [`UNSEEN_UNKNOWN`].
    #[inline(always)]
    pub fn count_unseen(&mut self, switches: u64) -> u32 {
        let before = core::mem::replace(&mut self.nr_switches, switches);
        if before == 0 || switches == 0 {
            return UNSEEN_UNKNOWN;
        }
        let unseen = switches.wrapping_sub(before).wrapping_sub(1);
        if unseen < UNSEEN_UNKNOWN as u64 { unseen as u32 } else { UNSEEN_UNKNOWN }
    }
}

// A contract with objects built elsewhere: no padding, nothing moves by accident.
const _: () = assert!(size_of::<CpuState>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_switches_are_counted_from_the_kernels_switch_count() {
        let mut here = CpuState::default();
        let unseen = [7, 8, 10, 11, 0, 12, 5].map(|switches| here.count_unseen(switches));
        assert_eq!(unseen, [UNSEEN_UNKNOWN, 0, 1, 0, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN]);
    }
}
