//! Stack records: where a task was in its code when it woke another or left its CPU. Also the budget
//! that bounds the cost of taking stacks.
//!
//! Sent with the timeline records if stacks are requested. A record holds the IDs of two stacks in
//! kernel maps, which keep equal stacks once. User space joins it to a wait by task and time.

/// Bits of the load-time integer that says whose stacks are taken; [`StackRecord::role`] is one of them.
pub mod role {
    /// The task that wakes or creates another.
    pub const WAKER: u8 = 1;
    /// The task that waits, where it left its CPU.
    pub const WAKEE: u8 = 1 << 1;
}

/// Number of frames that are kept of a stack, from the innermost outwards.
pub const DEPTH: usize = 64;

/// Number of stacks for which each of the two maps, kernel and user, has room if any are taken. A power
/// of two: the kernel rounds up to one.
pub const MAX_STACKS: u32 = 4096;

/// The stacks of the task that is current when the record is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct StackRecord {
    /// [`crate::timeline::kind::STACK`].
    pub kind: u8,
    /// One of [`role`].
    pub role: u8,
    /// Zero.
    pub reserved: u16,
    /// The CPU on which the event fired.
    pub cpu: u32,
    /// Same as [`crate::timeline::SwitchRecord::lost`].
    pub lost: u32,
    /// The thread that waits, or is about to wait.
    pub pid: u32,
    /// ns of CLOCK_MONOTONIC: to the ns the time of the `sched_waking`, `sched_wakeup_new` or
    /// `sched_switch` in which the stacks were taken, as in the wait and in other records.
    pub at_ns: u64,
    /// The current thread, whose stacks they are.
    pub by_pid: u32,
    /// The process of that thread, whose code the user stack is in.
    pub by_tgid: u32,
    /// ID of its kernel stack in the map; if negative, the error instead.
    pub kernel: i32,
    /// ID of its user stack in the map; if negative, the error instead.
    pub user: i32,
}

const _: () = assert!(size_of::<StackRecord>() == 40);

/// Errors of `bpf_get_stackid()` (kernel/bpf/stackmap.c).
pub mod error {
    /// There is no such stack, or no frame of it can be read.
    pub const NO_STACK: i32 = -14;
    /// Another stack occupies its slot in the map.
    pub const COLLISION: i32 = -17;
    /// The map is full.
    pub const MAP_FULL: i32 = -12;
}

/// Taking stacks may use one ns in this many: 5 % of a CPU.
const TIME_DIVISOR: u64 = 20;

/// The most time that a CPU may save up for stacks: ns.
const MAX_SAVED_NS: u64 = 10_000_000;

/// The time that a CPU may still spend on stacks, and what became of the stacks to be taken. Read by
/// user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StackBudget {
    /// Time that may be spent now: ns. Negative after a stack that took longer than the time left.
    left_ns: i64,
    /// Until when the budget has been refilled: ns of CLOCK_MONOTONIC.
    refilled_at_ns: u64,
    /// Number of times that both stacks of a task were looked up, with or without success.
    pub attempts: u64,
    /// Number of times that they were not, because that would have exceeded the budget.
    pub over_budget: u64,
    /// Stacks for which their map had no room; kernel and user stacks count separately.
    pub map_full: u64,
    /// Kernel stacks that do not exist or could not be read.
    pub no_kernel: u64,
    /// User stacks that do not exist, as for kernel threads, or could not be read.
    pub no_user: u64,
}

impl StackBudget {
    /// Whether a stack may be taken now; counts it as over budget if not.
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

    /// Charges a lookup of both stacks, which took `spent_ns` and returned `kernel` and `user`: IDs or
    /// errors.
    #[inline(always)]
    pub fn pay(&mut self, spent_ns: u64, kernel: i32, user: i32) {
        self.left_ns -= spent_ns as i64;
        self.attempts += 1;
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

/// Whether the result of a lookup says that the map had no room.
#[inline(always)]
pub const fn is_map_full(id: i32) -> bool {
    id == error::COLLISION || id == error::MAP_FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Takes stacks of `each_ns` one after the other for `seconds`; returns how long that took on the
    /// CPU.
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
    fn stacks_take_a_twentieth_of_the_time_plus_what_was_saved() {
        for each_ns in [700, 5_000, 90_000] {
            let mut budget = StackBudget::default();
            let spent_ns = spend(&mut budget, 1_000 * SECOND_NS, 10, each_ns);
            let allowed_ns = 10 * SECOND_NS / TIME_DIVISOR + MAX_SAVED_NS;
            assert!(spent_ns <= allowed_ns + each_ns, "{spent_ns} of {allowed_ns} ns");
            assert!(spent_ns >= allowed_ns * 95 / 100, "{spent_ns} of {allowed_ns} ns");
            assert_eq!(budget.attempts, spent_ns / each_ns);
            assert!(budget.over_budget > 0);
        }
    }

    #[test]
    fn a_low_rate_of_stacks_stays_within_the_budget() {
        let mut budget = StackBudget::default();
        for second in 1..1_000 {
            assert!(budget.allows(second * SECOND_NS));
            budget.pay(10_000, 1, 2);
        }
        assert_eq!((budget.attempts, budget.over_budget), (999, 0));
    }

    #[test]
    fn each_missing_stack_is_counted_by_its_reason() {
        let mut budget = StackBudget::default();
        budget.pay(1, 7, error::NO_STACK);
        budget.pay(1, error::NO_STACK, 7);
        budget.pay(1, error::COLLISION, error::MAP_FULL);
        assert_eq!((budget.attempts, budget.map_full, budget.no_kernel, budget.no_user), (3, 2, 1, 1));
    }

    #[test]
    fn a_clock_that_goes_backwards_does_not_refill_the_budget() {
        let mut budget = StackBudget::default();
        assert!(budget.allows(SECOND_NS));
        budget.pay(MAX_SAVED_NS, 1, 2);
        assert!(!budget.allows(5));
    }
}
