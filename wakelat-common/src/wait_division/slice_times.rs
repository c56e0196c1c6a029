//! What the time of a slice consists of, and that of its last part.

use super::{QueueInstant, min};
use crate::branch_free::{is_less, smaller};

/// The longest interrupt or softirq of a slice; all 0 if there was none, or if it is not known when they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LongestInterrupt {
    /// How long it took: ns.
    pub ns: u64,
    /// How long before the end of the slice it began: ns.
    pub began_before_end_ns: u64,
}

/// How long a slice took, and what of that was stolen and in interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct SliceTimes {
    /// By the run queue's clock: ns.
    pub clock_ns: u64,
    /// Part of `clock_ns`: ns.
    pub stolen_ns: u64,
    /// Part of `clock_ns`, besides `stolen_ns`: ns.
    pub irq_ns: u64,
}

impl SliceTimes {
    /// The times of a slice from `began` to `end`.
    #[inline(always)]
    pub(super) const fn between(began: QueueInstant, end: QueueInstant) -> Self {
        let clock_ns = end.clock_ns.saturating_sub(began.clock_ns);
        let stolen_ns = min(end.stolen_ns.saturating_sub(began.stolen_ns), clock_ns);
        let irq_ns = min(end.irq_ns.saturating_sub(began.irq_ns), clock_ns - stolen_ns);
        Self { clock_ns, stolen_ns, irq_ns }
    }

    /// How long the task had the CPU: ns.
    #[inline(always)]
    pub(super) const fn ran_ns(&self) -> u64 {
        self.clock_ns - self.stolen_ns - self.irq_ns
    }

    /// What the last `rest_ns` of the slice took: all of it if it is shorter. The `longest` interrupt is where it was; stolen
    /// time and other interrupts are spread evenly. `zero`: see [`branch_free`](crate::branch_free).
    #[inline(always)]
    pub(super) const fn last(&self, rest_ns: u64, longest: LongestInterrupt, zero: u64) -> Self {
        /// Precision of the proportion. A slice of more than 78 hours (2^48 ns) overflows.
        const BITS: u32 = 16;
        let clock_ns = smaller(self.clock_ns, rest_ns, zero);
        // Most slices have neither, and a division takes longer than all else.
        if self.stolen_ns | self.irq_ns == 0 || self.clock_ns == 0 {
            return Self { clock_ns, stolen_ns: zero, irq_ns: zero };
        }
        let proportion = (clock_ns << BITS) / self.clock_ns;
        let stolen_ns = smaller(self.stolen_ns.wrapping_mul(proportion) >> BITS, clock_ns, zero);
        // An interrupt is timed by another clock than the slice.
        let ns = smaller(longest.ns, self.irq_ns, zero);
        let began_before_end_ns = smaller(longest.began_before_end_ns, self.clock_ns, zero);
        // How much of it is after the beginning of the last part, which may be during it.
        let end_ns = clock_ns.wrapping_add(ns);
        let after_ns = end_ns.wrapping_sub(began_before_end_ns) & is_less(began_before_end_ns, end_ns, zero);
        let others_ns = self.irq_ns.wrapping_sub(ns).wrapping_mul(proportion) >> BITS;
        let irq_ns = smaller(smaller(ns, after_ns, zero).wrapping_add(others_ns), clock_ns - stolen_ns, zero);
        Self { clock_ns, stolen_ns, irq_ns }
    }
}
