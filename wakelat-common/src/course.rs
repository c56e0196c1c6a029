//! What is known of the course of a wait beside its beginning and its end, and the clocks from which it comes.

use crate::{sample::CPU_UNKNOWN, start::PendingWait, timeline::flag};

/// What is kept of a task: the value in the map of starts. An entry stays while its task lives and is written in place:
/// that costs half of an insert and a delete per wakeup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TrackedTask {
    /// Its wait.
    pub pending: PendingWait,
    /// The wait's course, where that is told; otherwise never touched.
    pub context: WaitContext,
}

impl TrackedTask {
    /// The entry of a task that does not wait.
    pub const IDLE: Self = Self { pending: PendingWait::IDLE, context: WaitContext::NONE };
}

/// A place in the table of starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// The identity of the task whose it is; 0 while it is nobody's.
    pub owner: u64,
    /// How many tasks have it, or have just reached for it.
    pub refcount: u64,
    /// What is kept of that task.
    pub task: TrackedTask,
}

/// The course of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WaitContext {
    /// On whose run queue the wait began.
    pub cpu: u32,
    /// Where `sched_waking` fired.
    pub waker_cpu: u32,
    /// The clock of throttling when the wait began, or what came of it before the task was moved: ns.
    throttled_ns: u64,
    /// The same of stolen time.
    stolen_ns: u64,
    /// Bits of [`flag`].
    flags: u8,
    /// How often the task was moved while it waited; 255 is that or more.
    pub migrations: u8,
    /// Of [`count`].
    throttling: u8,
    /// 1 where the task was moved, and its clocks are settled.
    clocks_final: u8,
    /// Zero.
    reserved: u32,
}

const _: () = assert!(size_of::<TrackedTask>() == 64);

/// What the throttling of a task's group means for its wait.
mod count {
    /// The task cannot be throttled in this wait.
    pub const NOTHING: u8 = 0;
    /// All that the clock says from the wait's beginning.
    pub const ALL: u8 = 1;
    /// Nobody can tell.
    pub const UNKNOWN: u8 = 2;
}

/// The clocks of a task's run queue at one instant; while a wait is under way, that of throttling is 0 unless the wait
/// [follows](WaitContext::follows_throttling) it. They go on from any value, and only while what they measure lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// How long the task's group was out of quota on this CPU: ns.
    pub throttled_ns: u64,
    /// How long the hypervisor had the CPU: ns.
    pub stolen_ns: u64,
    /// What throttling means for the task, as a wait begins.
    pub throttling: Throttling,
}

/// What throttling means for a task at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// Quotas do not concern it: its class has none, or the kernel throttles each task when it is about to go back to user
    /// space, and this one it has not.
    Exempt,
    /// Its group has quota left, or none is set; that may change while it waits.
    Possible,
    /// It has to wait for quota.
    Throttled,
    /// Nobody can tell.
    Unknown,
}

impl Clocks {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { throttled_ns: 0, stolen_ns: 0, throttling: Throttling::Unknown };
}

/// What the clocks say of a wait that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDeltas {
    /// How much of it the task's group was out of quota: ns.
    pub throttled_ns: u64,
    /// How much of it the hypervisor had the CPU: ns.
    pub stolen_ns: u64,
    /// Bits of [`flag`].
    pub flags: u8,
}

impl WaitContext {
    /// Of a wait that has not begun.
    pub const NONE: Self = Self {
        cpu: CPU_UNKNOWN,
        waker_cpu: CPU_UNKNOWN,
        throttled_ns: 0,
        stolen_ns: 0,
        flags: 0,
        migrations: 0,
        throttling: count::NOTHING,
        clocks_final: 0,
        reserved: 0,
    };

    /// A wait begins on the run queue of `cpu`; `remote`: a CPU carried the wakeup out that was not the waker's.
    #[inline(always)]
    pub fn begin(&mut self, cpu: u32, remote: bool, clocks: Clocks) {
        let (throttling, more) = match clocks.throttling {
            Throttling::Exempt => (count::NOTHING, 0),
            Throttling::Possible => (count::ALL, 0),
            Throttling::Throttled => (count::ALL, flag::THROTTLED_AT_START),
            Throttling::Unknown => (count::UNKNOWN, flag::THROTTLING_UNKNOWN),
        };
        self.cpu = cpu;
        self.throttled_ns = clocks.throttled_ns;
        self.stolen_ns = clocks.stolen_ns;
        self.flags = more | if remote { flag::REMOTE } else { 0 };
        self.migrations = 0;
        self.throttling = throttling;
        self.clocks_final = 0;
    }

    /// Whether the clock of throttling says something of this wait.
    #[inline(always)]
    pub const fn follows_throttling(&self) -> bool {
        self.throttling == count::ALL && self.clocks_final == 0
    }

    /// The waiting task is about to be moved to another CPU, with clocks of its own: `clocks` are those it leaves. What comes
    /// later is not told: the kernel moves no task of a throttled group to balance the load (`throttled_lb_pair()`,
    /// kernel/sched/fair.c).
    #[inline(always)]
    pub fn migrate(&mut self, clocks: Clocks) {
        self.migrations = self.migrations.saturating_add(1);
        if self.clocks_final == 0 {
            self.throttled_ns = clocks.throttled_ns.saturating_sub(self.throttled_ns);
            self.stolen_ns = clocks.stolen_ns.saturating_sub(self.stolen_ns);
            self.clocks_final = 1;
        }
    }

    /// What the clocks say of the wait, which took `longest_ns` at most, now that it is over: nothing where one went backwards.
    #[inline(always)]
    pub fn end(&self, clocks: Clocks, longest_ns: u64) -> ClockDeltas {
        let (throttled_ns, stolen_ns) = if self.clocks_final != 0 {
            (self.throttled_ns, self.stolen_ns)
        } else {
            (clocks.throttled_ns.saturating_sub(self.throttled_ns), clocks.stolen_ns.saturating_sub(self.stolen_ns))
        };
        let throttled_ns = if self.throttling == count::ALL { throttled_ns } else { 0 };
        // The kernel reads its clock some ns before the event.
        ClockDeltas {
            throttled_ns: throttled_ns.min(longest_ns),
            stolen_ns: stolen_ns.min(longest_ns),
            flags: self.flags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(throttled_ns: u64, stolen_ns: u64, throttling: Throttling) -> Clocks {
        Clocks { throttled_ns, stolen_ns, throttling }
    }

    fn begun(at: Clocks) -> WaitContext {
        let mut course = WaitContext::NONE;
        course.begin(1, false, at);
        course
    }

    #[test]
    fn a_wait_for_quota_takes_as_long_as_the_clock_went_on() {
        let under = begun(clocks(100, 7, Throttling::Throttled));
        let parts = under.end(clocks(190, 9, Throttling::Possible), 120);
        assert_eq!(parts, ClockDeltas { throttled_ns: 90, stolen_ns: 2, flags: flag::THROTTLED_AT_START });
        let later = begun(clocks(100, 0, Throttling::Possible));
        assert_eq!(later.end(clocks(130, 0, Throttling::Possible), 120).throttled_ns, 30);
    }

    #[test]
    fn a_task_that_quotas_do_not_concern_is_not_throttled_with_its_group() {
        let exempt = begun(clocks(100, 0, Throttling::Exempt));
        assert_eq!(exempt.end(clocks(190, 0, Throttling::Exempt), 120).throttled_ns, 0);
    }

    #[test]
    fn nobody_is_throttled_for_longer_than_the_wait() {
        let under = begun(clocks(100, 5, Throttling::Throttled));
        let parts = under.end(clocks(400, 405, Throttling::Possible), 120);
        assert_eq!((parts.throttled_ns, parts.stolen_ns), (120, 120));
    }

    #[test]
    fn a_clock_that_went_backwards_says_nothing() {
        let under = begun(clocks(100, 100, Throttling::Throttled));
        let parts = under.end(clocks(99, 99, Throttling::Possible), 120);
        assert_eq!((parts.throttled_ns, parts.stolen_ns), (0, 0));
    }

    #[test]
    fn a_moved_wait_keeps_what_it_had_before() {
        let mut course = begun(clocks(100, 10, Throttling::Throttled));
        course.migrate(clocks(150, 11, Throttling::Throttled));
        course.migrate(clocks(9_000, 9_000, Throttling::Possible));
        let parts = course.end(clocks(1, 1, Throttling::Possible), 1_000);
        assert_eq!((parts.throttled_ns, parts.stolen_ns, course.migrations), (50, 1, 2));
    }

    #[test]
    fn a_kernel_that_does_not_tell_leaves_it_unknown() {
        let parts = begun(Clocks::UNKNOWN).end(Clocks::UNKNOWN, 10);
        assert_eq!((parts.throttled_ns, parts.flags), (0, flag::THROTTLING_UNKNOWN));
    }
}
