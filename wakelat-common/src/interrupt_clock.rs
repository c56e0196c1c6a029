//! A clock of each CPU that runs while an interrupt or a softirq does: for the causes of waits, on kernels that do not
//! count that time themselves (`CONFIG_IRQ_TIME_ACCOUNTING`).

use core::ptr;

/// The interrupts of a CPU. The program of an interrupt may run between any two accesses of a softirq's program, so that each
/// access is one of memory and in the order of the code. It leaves `active` as it found it, and changes the other words only
/// while nothing is active.
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
    pub const ZERO: Self = Self { active: 0, since_ns: 0, sum_ns: 0, longest_ns: 0, longest_since_ns: 0 };

    /// An interrupt or softirq of `source` begins, maybe during one of another source. Returns whether the clock starts:
    /// then [`Self::start`] is called.
    #[inline(always)]
    pub fn enter(&mut self, source: u8) -> bool {
        let (bit, active) = (1 << source, read(&self.active));
        // If it is active already, its end was not seen, nor what became of the others.
        let others = if active & bit != 0 { 0 } else { active };
        write(&mut self.active, others | bit);
        others == 0
    }

    /// The clock starts.
    #[inline(always)]
    pub fn start(&mut self, now_ns: u64) {
        write(&mut self.since_ns, now_ns);
    }

    /// Whether an interrupt or softirq of `source` ends the active time. One whose beginning was not seen does not.
    #[inline(always)]
    pub fn is_last(&self, source: u8) -> bool {
        read(&self.active) == 1 << source
    }

    /// An interrupt or softirq of `source` ends. `now_ns`: the time, if it [is the last](Self::is_last).
    #[inline(always)]
    pub fn exit(&mut self, source: u8, now_ns: Option<u64>) {
        if let Some(now_ns) = now_ns {
            let since_ns = read(&self.since_ns);
            let active_ns = now_ns.saturating_sub(since_ns);
            let sum_ns = read(&self.sum_ns).wrapping_add(active_ns);
            write(&mut self.sum_ns, sum_ns);
            if active_ns > read(&self.longest_ns) {
                write(&mut self.longest_ns, active_ns);
                write(&mut self.longest_since_ns, since_ns);
            }
        }
        let active = read(&self.active) & !(1 << source);
        write(&mut self.active, active);
    }

    /// The interrupts and softirqs until a switch. A softirq that is active then is run by a task that loses its CPU, as
    /// PREEMPT_RT does: it counts for that task.
    #[inline(always)]
    pub fn at_switch(&mut self) -> CountedInterrupts {
        write(&mut self.active, 0);
        let longest_ns = read(&self.longest_ns);
        if longest_ns != 0 {
            write(&mut self.longest_ns, 0);
        }
        CountedInterrupts { sum_ns: read(&self.sum_ns), longest_ns, longest_since_ns: read(&self.longest_since_ns) }
    }
}

#[inline(always)]
fn read(word: &u64) -> u64 {
    // SAFETY: a reference is valid for reads.
    unsafe { ptr::read_volatile(word) }
}

#[inline(always)]
fn write(word: &mut u64, value: u64) {
    // SAFETY: a reference is valid for writes.
    unsafe { ptr::write_volatile(word, value) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::source::{IRQ, SOFTIRQ, VECTOR};

    /// Replays the beginnings (true) and ends of sources at these times. Returns the sum at the next switch.
    fn replay(events: &[(u64, u8, bool)]) -> u64 {
        let mut clock = InterruptClock::ZERO;
        for &(now_ns, source, begins) in events {
            if begins {
                if clock.enter(source) {
                    clock.start(now_ns);
                }
            } else {
                let is_last = clock.is_last(source);
                clock.exit(source, is_last.then_some(now_ns));
            }
        }
        clock.at_switch().sum_ns
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
        assert_eq!(clock.at_switch().sum_ns, 0);
        assert!(!clock.is_last(SOFTIRQ));
        clock.exit(SOFTIRQ, None);
        assert!(clock.enter(IRQ));
        clock.start(500);
        clock.exit(IRQ, Some(520));
        let counted = clock.at_switch();
        assert_eq!(counted, CountedInterrupts { sum_ns: 20, longest_ns: 20, longest_since_ns: 500 });
        // The next slice has none.
        assert_eq!(clock.at_switch(), CountedInterrupts { longest_ns: 0, ..counted });
    }
}
