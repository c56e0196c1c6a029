//! The token bucket: how fast it fills, what it holds, and how long a round of it is.

use super::{
    CAPACITY_ROUNDS, DETACH_ABOVE, DETACHED_ROUND_NS, IN_WINDOW_NS, LONGEST_ROUND_NS, OF_PAUSE, OverheadLimit,
    ROUND_NS, WINDOW_NS,
};

impl OverheadLimit {
    /// CPU time that a pause takes, besides the calls of stopped programs: ns.
    pub(super) fn price_of_pause(&self) -> f64 {
        if self.detaches { self.price_of_detaching } else { self.price_of_stop }
    }

    /// Target length of a period and its pause together: ns.
    pub(super) fn round_ns(&self) -> f64 {
        if self.detaches { self.long_round_ns() } else { self.short_round_ns() }
    }

    /// The same if the programs stay attached.
    pub(super) fn short_round_ns(&self) -> f64 {
        (OF_PAUSE * self.price_of_detaching / self.limit).clamp(ROUND_NS, LONGEST_ROUND_NS)
    }

    /// The same if they are detached for the pause.
    pub(super) fn long_round_ns(&self) -> f64 {
        self.short_round_ns().max(DETACHED_ROUND_NS)
    }

    /// ns of CPU time that flow into the bucket per ns.
    pub(super) fn inflow(&self) -> f64 {
        let is_slow = self.detaches || self.last.at_ns < self.slow_until_ns;
        self.inflow_of(if is_slow { self.long_round_ns() } else { self.short_round_ns() })
    }

    pub(super) fn inflow_of(&self, round_ns: f64) -> f64 {
        self.limit * IN_WINDOW_NS / (WINDOW_NS + CAPACITY_ROUNDS * round_ns)
    }

    /// ns of CPU time per ns by which the bucket fills in a pause.
    pub(super) fn net_inflow(&self) -> f64 {
        self.inflow() - if self.detaches { 0.0 } else { self.stopped_share.value().min(DETACH_ABOVE * self.inflow()) }
    }

    pub(super) fn capacity(&self) -> f64 {
        CAPACITY_ROUNDS * self.round_ns() * self.inflow_of(self.round_ns())
    }

    /// CPU time that detaching takes: ns.
    pub(super) fn reserve(&self) -> f64 {
        self.price_of_detaching / 2.0
    }

    /// How long it takes until the bucket holds `needed`: ns.
    pub(super) fn missing_ns(&self) -> f64 {
        ((self.needed - self.tokens) / self.net_inflow()).max(0.0)
    }
}
