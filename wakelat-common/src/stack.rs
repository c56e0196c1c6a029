//! Where a task was in its code as it woke another, or left its CPU: records sent beside the timeline's, where stacks are
//! asked for, and the budget that bounds what taking them costs.
//!
//! A record holds the numbers of two stacks in maps of the kernel's, where equal stacks are kept once. User space joins it to a
//! wait by task and time.

/// Bits of the load-time integer that says whose stacks are taken; [`StackRecord::role`] is one of them.
pub mod role {
    /// Of whoever wakes or makes a task.
    pub const WAKER: u8 = 1;
    /// Of the task that waits: where it left its CPU.
    pub const WAKEE: u8 = 1 << 1;
}

/// Frames of a stack that are kept, from the innermost on.
pub const DEPTH: usize = 64;

/// Stacks that each of the two maps, for kernel and user, has room for, where any are taken. A power of two: the kernel makes it one.
pub const MAX_STACKS: u32 = 4096;

/// The stacks of the task on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StackRecord {
    /// [`crate::timeline::kind::STACK`].
    pub kind: u8,
    /// Of [`role`].
    pub role: u8,
    /// Zero.
    pub reserved: u16,
    /// Where.
    pub cpu: u32,
    /// As [`crate::timeline::SwitchRecord::lost`].
    pub lost: u32,
    /// The thread that waits, or is about to.
    pub pid: u32,
    /// When: ns of CLOCK_MONOTONIC. To the ns the time of the `sched_waking`, `sched_wakeup_new` or `sched_switch` in which it
    /// was taken, as other records and the wait have it.
    pub at_ns: u64,
    /// The thread on the CPU, whose stacks they are.
    pub by_pid: u32,
    /// Its process, whose code the user stack is in.
    pub by_tgid: u32,
    /// The number of its kernel stack in the map; below 0, the error that there was instead.
    pub kernel: i32,
    /// The same of its user stack.
    pub user: i32,
}

const _: () = assert!(size_of::<StackRecord>() == 40);

/// Errors of `bpf_get_stackid()` (kernel/bpf/stackmap.c).
pub mod error {
    /// There is no such stack, or not a frame of it can be read.
    pub const NO_STACK: i32 = -14;
    /// Another stack has its place in the map.
    pub const COLLISION: i32 = -17;
    /// The map is full.
    pub const MAP_FULL: i32 = -12;
}

/// Taking stacks may take one ns of this many: 5 % of a CPU.
const TIME_DIVISOR: u64 = 20;

/// What may be saved up: ns.
const MAX_SAVED_NS: u64 = 10_000_000;

/// What a CPU may still spend on stacks, and what became of those that were to be taken. Read by user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StackBudget {
    /// What may be spent now: ns. Below 0 after a stack that took longer than that.
    left_ns: i64,
    /// Up to when it has been given: ns of CLOCK_MONOTONIC.
    refilled_at_ns: u64,
    /// How often both stacks of a task were looked for.
    pub taken: u64,
    /// How often they were not, as that would have been over the budget.
    pub over_budget: u64,
    /// Stacks, kernel and user apart, for which their map had no room.
    pub map_full: u64,
    /// Kernel stacks that there were not, or of which nothing could be read.
    pub no_kernel: u64,
    /// User stacks that there were not, as of threads of the kernel, or of which nothing could be read.
    pub no_user: u64,
}

impl StackBudget {
    /// Whether a stack may be taken now; counts it where not.
    #[inline(always)]
    pub fn allows(&mut self, now_ns: u64) -> bool {
        let gained = now_ns.saturating_sub(self.refilled_at_ns) / TIME_DIVISOR;
        let gained = if gained < MAX_SAVED_NS { gained } else { MAX_SAVED_NS };
        let left_ns = self.left_ns + gained as i64;
        self.left_ns = if left_ns < MAX_SAVED_NS as i64 { left_ns } else { MAX_SAVED_NS as i64 };
        self.refilled_at_ns = now_ns;
        if self.left_ns <= 0 {
            self.over_budget += 1;
        }
        self.left_ns > 0
    }

    /// Stacks were looked for, which took `spent_ns` and gave `kernel` and `user`: numbers or errors.
    #[inline(always)]
    pub fn pay(&mut self, spent_ns: u64, kernel: i32, user: i32) {
        self.left_ns -= spent_ns as i64;
        self.taken += 1;
        if is_map_full(kernel) {
            self.map_full += 1;
        } else if kernel < 0 {
            self.no_kernel += 1;
        }
        if is_map_full(user) {
            self.map_full += 1;
        } else if user < 0 {
            self.no_user += 1;
        }
    }
}

/// Whether the map had no room, by what was there in place of a number.
#[inline(always)]
pub const fn is_map_full(number: i32) -> bool {
    number == error::COLLISION || number == error::MAP_FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Takes stacks of `each_ns` one after the other for `seconds`; returns how long that took on the CPU.
    fn spend(budget: &mut StackBudget, from_ns: u64, seconds: u64, each_ns: u64) -> u64 {
        let (mut now_ns, mut spent_ns) = (from_ns, 0);
        while now_ns < from_ns + seconds * SECOND_NS {
            if budget.allows(now_ns) {
                budget.pay(each_ns, 1, 2);
                spent_ns += each_ns;
                now_ns += each_ns;
            }
            now_ns += 1_000;
        }
        spent_ns
    }

    #[test]
    fn stacks_take_a_twentieth_of_the_time_and_what_was_saved() {
        for each_ns in [700, 5_000, 90_000] {
            let mut budget = StackBudget::default();
            let spent_ns = spend(&mut budget, 1_000 * SECOND_NS, 10, each_ns);
            let allowed_ns = 10 * SECOND_NS / TIME_DIVISOR + MAX_SAVED_NS;
            assert!(spent_ns <= allowed_ns + each_ns, "{spent_ns} of {allowed_ns} ns");
            assert!(spent_ns >= allowed_ns * 95 / 100, "{spent_ns} of {allowed_ns} ns");
            assert_eq!(budget.taken, spent_ns / each_ns);
            assert!(budget.over_budget > 0);
        }
    }

    #[test]
    fn nothing_is_refused_where_little_is_taken() {
        let mut budget = StackBudget::default();
        for second in 1..1_000 {
            assert!(budget.allows(second * SECOND_NS));
            budget.pay(10_000, 1, 2);
        }
        assert_eq!((budget.taken, budget.over_budget), (999, 0));
    }

    #[test]
    fn each_missing_stack_is_counted_by_its_reason() {
        let mut budget = StackBudget::default();
        budget.pay(1, 7, error::NO_STACK);
        budget.pay(1, error::NO_STACK, 7);
        budget.pay(1, error::COLLISION, error::MAP_FULL);
        assert_eq!((budget.taken, budget.map_full, budget.no_kernel, budget.no_user), (3, 2, 1, 1));
    }

    #[test]
    fn a_clock_that_goes_backwards_gives_nothing() {
        let mut budget = StackBudget::default();
        assert!(budget.allows(SECOND_NS));
        budget.pay(MAX_SAVED_NS, 1, 2);
        assert!(!budget.allows(5));
    }
}
