//! The context of a wait: CPUs, migrations, and how long it was throttled or its CPU stolen, by the
//! kernel's clocks.

use crate::{sample::CPU_UNKNOWN, timeline::flag};

/// What is known about a wait beside its beginning and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WaitContext {
    /// The CPU on whose run queue the wait began.
    pub cpu: u32,
    /// The CPU on which `sched_waking` fired.
    pub waker_cpu: u32,
    /// The throttling clock when the wait began; after the first migration, the throttled time until
    /// then: ns.
    throttled_ns: u64,
    /// The stolen-time clock when the wait began; after the first migration, the stolen time until then:
    /// ns.
    stolen_ns: u64,
    /// Bits of [`flag`].
    flags: u8,
    /// Number of migrations during the wait; 255 means 255 or more.
    pub migrations: u8,
    /// One of [`count`].
    throttling: u8,
    /// 1 if the task has migrated, so that the throttled and stolen times are final.
    clocks_final: u8,
    /// Zero.
    reserved: u32,
}

/// How much of the throttling clock counts for a wait.
mod count {
    /// Nothing: the task cannot be throttled during this wait.
    pub const NOTHING: u8 = 0;
    /// All that the clock advances from the beginning of the wait.
    pub const ALL: u8 = 1;
    /// Unknown: the kernel does not report it.
    pub const UNKNOWN: u8 = 2;
}

/// The clocks of a task's run queue at one instant. They start at any value and advance only while what
/// they measure lasts. During a wait the throttling clock is 0 unless the wait
/// [follows](WaitContext::follows_throttling) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// How long the task's group was throttled on this CPU: ns.
    pub throttled_ns: u64,
    /// How long the hypervisor had the CPU: ns.
    pub stolen_ns: u64,
    /// What throttling means for the task at the beginning of a wait.
    pub throttling: Throttling,
}

/// What throttling means for a task at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// Quotas do not apply: the task's class has none, or the kernel throttles each task when it is
    /// about to return to user space and has not throttled this one.
    Exempt,
    /// Its group has quota left, or none is set; that may change while the task waits.
    Possible,
    /// The task has to wait for quota.
    Throttled,
    /// The kernel does not report it.
    Unknown,
}

impl Clocks {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { throttled_ns: 0, stolen_ns: 0, throttling: Throttling::Unknown };
}

/// How far the clocks advanced during a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDeltas {
    /// How long the task's group was throttled during the wait: ns.
    pub throttled_ns: u64,
    /// How long the hypervisor had the CPU during the wait: ns.
    pub stolen_ns: u64,
    /// Bits of [`flag`].
    pub flags: u8,
}

impl WaitContext {
    /// The context before a wait begins.
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

    /// A wait begins on the run queue of `cpu`. `remote`: the wakeup was carried out on a CPU other than
    /// the waker's.
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

    /// Whether the throttling clock matters to this wait from now on.
    #[inline(always)]
    pub const fn follows_throttling(&self) -> bool {
        self.throttling == count::ALL && self.clocks_final == 0
    }

    /// The waiting task is about to migrate to a CPU with clocks of its own; `clocks` are those that it
    /// leaves. What happens after that is not counted: the kernel does not migrate tasks of a throttled
    /// group to balance the load (`throttled_lb_pair()`, kernel/sched/fair.c).
    #[inline(always)]
    pub fn migrate(&mut self, clocks: Clocks) {
        self.migrations = self.migrations.saturating_add(1);
        if self.clocks_final == 0 {
            self.throttled_ns = clocks.throttled_ns.saturating_sub(self.throttled_ns);
            self.stolen_ns = clocks.stolen_ns.saturating_sub(self.stolen_ns);
            self.clocks_final = 1;
        }
    }

    /// What the clocks say about a wait that has ended, which took at most `longest_ns`: 0 for a clock
    /// that went backwards.
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

    fn begin(at: Clocks) -> WaitContext {
        let mut context = WaitContext::NONE;
        context.begin(1, false, at);
        context
    }

    #[test]
    fn throttled_time_is_the_advance_of_the_throttling_clock() {
        let throttled = begin(clocks(100, 7, Throttling::Throttled));
        let deltas = throttled.end(clocks(190, 9, Throttling::Possible), 120);
        assert_eq!(deltas, ClockDeltas { throttled_ns: 90, stolen_ns: 2, flags: flag::THROTTLED_AT_START });
        let later = begin(clocks(100, 0, Throttling::Possible));
        assert_eq!(later.end(clocks(130, 0, Throttling::Possible), 120).throttled_ns, 30);
    }

    #[test]
    fn a_task_exempt_from_quotas_is_not_throttled_with_its_group() {
        let exempt = begin(clocks(100, 0, Throttling::Exempt));
        assert_eq!(exempt.end(clocks(190, 0, Throttling::Exempt), 120).throttled_ns, 0);
    }

    #[test]
    fn throttled_and_stolen_time_never_exceed_the_wait() {
        let throttled = begin(clocks(100, 5, Throttling::Throttled));
        let deltas = throttled.end(clocks(400, 405, Throttling::Possible), 120);
        assert_eq!((deltas.throttled_ns, deltas.stolen_ns), (120, 120));
    }

    #[test]
    fn a_clock_that_goes_backwards_counts_as_zero() {
        let throttled = begin(clocks(100, 100, Throttling::Throttled));
        let deltas = throttled.end(clocks(99, 99, Throttling::Possible), 120);
        assert_eq!((deltas.throttled_ns, deltas.stolen_ns), (0, 0));
    }

    #[test]
    fn a_migrated_wait_keeps_the_times_of_its_first_cpu() {
        let mut context = begin(clocks(100, 10, Throttling::Throttled));
        context.migrate(clocks(150, 11, Throttling::Throttled));
        context.migrate(clocks(9_000, 9_000, Throttling::Possible));
        let deltas = context.end(clocks(1, 1, Throttling::Possible), 1_000);
        assert_eq!((deltas.throttled_ns, deltas.stolen_ns, context.migrations), (50, 1, 2));
    }

    #[test]
    fn throttling_is_unknown_if_the_kernel_does_not_report_it() {
        let deltas = begin(Clocks::UNKNOWN).end(Clocks::UNKNOWN, 10);
        assert_eq!((deltas.throttled_ns, deltas.flags), (0, flag::THROTTLING_UNKNOWN));
    }
}
