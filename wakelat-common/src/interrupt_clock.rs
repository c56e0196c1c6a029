//! A clock of each CPU that runs while an interrupt or a softirq does: for the causes of waits, on kernels that do not
//! count that time themselves (`CONFIG_IRQ_TIME_ACCOUNTING`).

use crate::timeline::source::SOFTIRQ;

/// The interrupts of a CPU. The program of an interrupt may run between any two of these calls by the program of a softirq,
/// which makes them in this order in memory, too: the other one leaves the active sources as it found them, and changes the
/// rest only while nothing is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct InterruptClock {
    /// A bit for each [`source`](crate::timeline::source) that is active. There is one of each at most: see
    /// [`CpuState::from_ns`](crate::cpu_state::CpuState::from_ns).
    active: u64,
    /// When the first of them began: ns of CLOCK_MONOTONIC.
    since_ns: u64,
    /// Time in those that have ended: ns.
    sum_ns: u64,
    /// The longest of them since the last switch: ns; 0 if there was none.
    longest_ns: u64,
    /// When that one began: ns of CLOCK_MONOTONIC.
    longest_since_ns: u64,
    /// 1 while the CPU's `ksoftirqd` runs. Its softirqs are its own work, as for the kernel's clock (`irqtime_account_irq()`,
    /// kernel/sched/cputime.c).
    in_ksoftirqd: u64,
}

/// The interrupts and softirqs until a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedInterrupts {
    /// The time in all of them: ns.
    pub sum_ns: u64,
    /// The longest one since the switch before: ns; 0 if there was none.
    pub longest_ns: u64,
    /// When that one began: ns of CLOCK_MONOTONIC.
    pub longest_since_ns: u64,
}

impl InterruptClock {
    /// No interrupt so far.
    pub const ZERO: Self =
        Self { active: 0, since_ns: 0, sum_ns: 0, longest_ns: 0, longest_since_ns: 0, in_ksoftirqd: 0 };

    /// An interrupt or softirq of `source` begins, maybe during one of another source. Returns whether the clock starts:
    /// then [`Self::start`] is called.
    #[inline(always)]
    pub const fn enter(&mut self, source: u8) -> bool {
        if source == SOFTIRQ && self.in_ksoftirqd != 0 {
            return false;
        }
        let bit = 1 << source;
        // If it is active already, its end was not seen, nor what became of the others.
        let others = if self.active & bit != 0 { 0 } else { self.active };
        self.active = others | bit;
        others == 0
    }

    /// The clock starts.
    #[inline(always)]
    pub const fn start(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Whether an interrupt or softirq of `source` ends the active time: then [`Self::stop`] is called. One whose beginning was
    /// not seen does not.
    #[inline(always)]
    pub const fn is_last(&self, source: u8) -> bool {
        self.active == 1 << source
    }

    /// The clock stops.
    #[inline(always)]
    pub const fn stop(&mut self, now_ns: u64) {
        let active_ns = now_ns.saturating_sub(self.since_ns);
        self.sum_ns = self.sum_ns.wrapping_add(active_ns);
        if active_ns > self.longest_ns {
            (self.longest_ns, self.longest_since_ns) = (active_ns, self.since_ns);
        }
    }

    /// An interrupt or softirq of `source` has ended.
    #[inline(always)]
    pub const fn leave(&mut self, source: u8) {
        self.active &= !(1 << source);
    }

    /// Forgets what is active: ends may not be seen from now on.
    #[inline(always)]
    pub const fn forget_active(&mut self) {
        self.active = 0;
    }

    /// The interrupts and softirqs until a switch. A softirq that is active then is run by a task that loses its CPU, as
    /// PREEMPT_RT does: it counts for that task. `to_ksoftirqd`: the next task is the CPU's `ksoftirqd`.
    #[inline(always)]
    pub const fn at_switch(&mut self, to_ksoftirqd: bool) -> CountedInterrupts {
        self.active = 0;
        self.in_ksoftirqd = to_ksoftirqd as u64;
        let longest_ns = core::mem::replace(&mut self.longest_ns, 0);
        CountedInterrupts { sum_ns: self.sum_ns, longest_ns, longest_since_ns: self.longest_since_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::source::{IRQ, VECTOR};

    /// Replays the beginnings (true) and ends of sources at these times. Returns the sum at the next switch.
    fn replay(events: &[(u64, u8, bool)]) -> u64 {
        let mut clock = InterruptClock::ZERO;
        for &(now_ns, source, begins) in events {
            if begins {
                if clock.enter(source) {
                    clock.start(now_ns);
                }
            } else {
                if clock.is_last(source) {
                    clock.stop(now_ns);
                }
                clock.leave(source);
            }
        }
        clock.at_switch(false).sum_ns
    }

    #[test]
    fn an_interrupt_during_a_softirq_counts_once() {
        assert_eq!(replay(&[(100, IRQ, true), (150, IRQ, false)]), 50);
        let nested = [(100, SOFTIRQ, true), (120, VECTOR, true), (130, VECTOR, false), (200, SOFTIRQ, false)];
        assert_eq!(replay(&nested), 100);
        // The softirqs that an interrupt raised run after it.
        let after = [(100, VECTOR, true), (130, VECTOR, false), (140, SOFTIRQ, true), (200, SOFTIRQ, false)];
        assert_eq!(replay(&after), 90);
    }

    #[test]
    fn an_end_without_a_beginning_counts_nothing() {
        assert_eq!(replay(&[(100, SOFTIRQ, false), (200, IRQ, true), (230, IRQ, false)]), 30);
        assert_eq!(replay(&[(100, IRQ, true), (110, SOFTIRQ, false), (130, IRQ, false)]), 30);
    }

    #[test]
    fn a_beginning_without_an_end_counts_nothing() {
        assert_eq!(replay(&[(100, IRQ, true), (900, IRQ, true), (910, IRQ, false)]), 10);
        assert_eq!(replay(&[(100, SOFTIRQ, true)]), 0);
    }

    #[test]
    fn a_softirq_that_is_switched_out_counts_for_its_task() {
        let mut clock = InterruptClock::ZERO;
        assert!(clock.enter(SOFTIRQ));
        clock.start(100);
        assert_eq!(clock.at_switch(false).sum_ns, 0);
        assert!(!clock.is_last(SOFTIRQ));
        clock.leave(SOFTIRQ);
        assert!(clock.enter(IRQ));
        clock.start(500);
        clock.stop(520);
        clock.leave(IRQ);
        let counted = clock.at_switch(false);
        assert_eq!(counted, CountedInterrupts { sum_ns: 20, longest_ns: 20, longest_since_ns: 500 });
        // The next slice has none.
        assert_eq!(clock.at_switch(false), CountedInterrupts { longest_ns: 0, ..counted });
    }

    #[test]
    fn softirqs_of_ksoftirqd_are_its_own_work() {
        let mut clock = InterruptClock::ZERO;
        clock.at_switch(true);
        assert!(!clock.enter(SOFTIRQ));
        assert!(clock.enter(IRQ), "an interrupt during them is none");
        clock.start(120);
        clock.stop(150);
        clock.leave(IRQ);
        assert!(!clock.is_last(SOFTIRQ));
        clock.leave(SOFTIRQ);
        assert_eq!(clock.at_switch(false).sum_ns, 30);
        assert!(clock.enter(SOFTIRQ));
    }

    #[test]
    fn an_interrupt_whose_end_no_program_sees_counts_nothing() {
        let mut clock = InterruptClock::ZERO;
        assert!(clock.enter(SOFTIRQ));
        clock.start(100);
        clock.forget_active();
        assert!(!clock.is_last(SOFTIRQ));
        assert_eq!(clock.at_switch(false).sum_ns, 0);
    }
}
