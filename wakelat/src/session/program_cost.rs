//! Extrapolates the cost of measuring from slices of the run to the whole run: pure.
//!
//! Switches are those that the kernel counted while the programs were attached: see [`AttachedTime`].

/// Estimates the programs' time from slices in which the kernel accounted it. A slice gives the average cost
/// of a switch together with its wakeups, and every switch since the previous slice is assumed to have cost
/// the same. The kernel's number of switches is exact, so load that comes and goes between slices causes no
/// bias. Switches that were reported before the slice that prices them keep the price of the previous slice.
#[derive(Clone, Copy, Debug)]
pub struct ProgramTimeEstimate {
    /// The kernel's number of switches up to which all have a price.
    priced_switches: u64,
    ns: f64,
    accounted_ns: u64,
    per_switch_ns: Option<f64>,
}

/// The result of a slice.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredSlice {
    /// Time of all programs in the slice: ns.
    pub programs_ns: u64,
    /// Switches that the program on `sched_switch` saw in the slice.
    pub switches: u64,
    /// Length of the slice: ns.
    pub length_ns: u64,
}

/// The cost of measuring since the start, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadCost {
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
    /// The kernel's number of switches while the programs were attached.
    pub switches: u64,
    /// How long the programs were detached: ns.
    pub paused_ns: u64,
    /// Time of the programs: ns; `None` before the first slice with a switch.
    pub programs_ns: Option<u64>,
    /// Total length of the slices: ns.
    pub accounted_ns: u64,
}

impl ProgramTimeEstimate {
    /// Starts at the kernel's count of `switches`.
    pub fn new(switches: u64) -> Self {
        Self { priced_switches: switches, ns: 0.0, accounted_ns: 0, per_switch_ns: None }
    }

    /// Adds a slice that ended at the kernel's count of `switches`.
    pub fn add(&mut self, slice: &MeasuredSlice, switches: u64) {
        self.accounted_ns += slice.length_ns;
        if slice.switches == 0 {
            return;
        }
        let per_switch_ns = slice.programs_ns as f64 / slice.switches as f64;
        self.charge(per_switch_ns, switches);
        self.per_switch_ns = Some(per_switch_ns);
    }

    /// The cost at the kernel's count of `switches`. Values already reported never change: a later slice
    /// prices only the switches after them, so that the difference between two readings is never negative.
    pub fn cost(&mut self, switches: u64, paused_ns: u64, tool_ns: u64) -> OverheadCost {
        let programs_ns = self.per_switch_ns.map(|per_switch_ns| {
            self.charge(per_switch_ns, switches);
            self.ns as u64
        });
        OverheadCost { tool_ns, switches, paused_ns, programs_ns, accounted_ns: self.accounted_ns }
    }

    fn charge(&mut self, per_switch_ns: f64, switches: u64) {
        self.ns += per_switch_ns * switches.saturating_sub(self.priced_switches) as f64;
        self.priced_switches = self.priced_switches.max(switches);
    }
}

/// How often the kernel has switched while the programs were attached, and how long they were detached.
#[derive(Clone, Copy, Debug)]
pub struct AttachedTime {
    /// The kernel's count when the programs were last attached, or last detached if they are detached.
    since: u64,
    /// Switches in earlier attachments.
    before: u64,
    detached_ns: u64,
    /// When the programs were detached: ns; `None` if they are attached.
    detached_at_ns: Option<u64>,
}

impl AttachedTime {
    /// The programs are attached at the kernel's count of `switches`.
    pub fn new(switches: u64) -> Self {
        Self { since: switches, before: 0, detached_ns: 0, detached_at_ns: None }
    }

    /// Whether the programs are attached.
    pub fn is_attached(&self) -> bool {
        self.detached_at_ns.is_none()
    }

    /// Switches while the programs were attached, up to the kernel's count of `switches`.
    pub fn switches(&self, switches: u64) -> u64 {
        self.before + if self.is_attached() { switches.saturating_sub(self.since) } else { 0 }
    }

    /// How long the programs were detached: ns.
    pub fn detached_ns(&self, now_ns: u64) -> u64 {
        self.detached_ns + self.detached_at_ns.map_or(0, |detached_at_ns| now_ns.saturating_sub(detached_at_ns))
    }

    /// The programs are detached at the kernel's count of `switches`.
    pub fn detach(&mut self, switches: u64, now_ns: u64) {
        self.before = self.switches(switches);
        self.detached_at_ns = Some(now_ns);
    }

    /// The programs are attached again at the kernel's count of `switches`. Returns the length of the pause:
    /// ns.
    pub fn attach(&mut self, switches: u64, now_ns: u64) -> u64 {
        let before_ns = self.detached_ns;
        self.detached_ns = self.detached_ns(now_ns);
        (self.since, self.detached_at_ns) = (switches, None);
        self.detached_ns - before_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(programs_ns: u64, switches: u64) -> MeasuredSlice {
        MeasuredSlice { programs_ns, switches, length_ns: 20 }
    }

    #[test]
    fn switches_between_slices_cost_as_much_as_those_in_slices() {
        let mut estimate = ProgramTimeEstimate::new(1_000);
        estimate.add(&slice(5_000, 100), 1_200);
        // 50 ns per switch: for the 200 until then, and for the 800 after it.
        assert_eq!(
            estimate.cost(2_000, 0, 7),
            OverheadCost { tool_ns: 7, switches: 2_000, paused_ns: 0, programs_ns: Some(50_000), accounted_ns: 20 }
        );
    }

    #[test]
    fn switches_between_two_slices_have_the_price_of_the_later_slice() {
        let mut estimate = ProgramTimeEstimate::new(0);
        estimate.add(&slice(5_000, 100), 1_000);
        estimate.add(&slice(10_000, 100), 3_000);
        assert_eq!(estimate.cost(3_000, 0, 0).programs_ns, Some(1_000 * 50 + 2_000 * 100));
    }

    #[test]
    fn reported_costs_do_not_change_when_switches_become_cheaper() {
        let mut estimate = ProgramTimeEstimate::new(0);
        estimate.add(&slice(150_000, 100), 100);
        let early: Vec<u64> = [1_000, 2_000].map(|switches| estimate.cost(switches, 0, 0).programs_ns.unwrap()).into();
        estimate.add(&slice(90_000, 100), 2_100);
        let later = estimate.cost(3_000, 0, 0).programs_ns.unwrap();
        assert_eq!((early, later), (vec![1_000 * 1_500, 2_000 * 1_500], 2_000 * 1_500 + 1_000 * 900));
    }

    #[test]
    fn the_cost_is_unknown_before_the_first_slice_and_not_zero() {
        let mut estimate = ProgramTimeEstimate::new(0);
        assert_eq!(estimate.cost(10, 0, 0).programs_ns, None);
        estimate.add(&slice(0, 0), 10);
        assert_eq!(estimate.cost(10, 0, 0).programs_ns, None);
    }

    #[test]
    fn switches_in_a_pause_are_not_counted() {
        let mut attached = AttachedTime::new(1_000);
        assert_eq!((attached.switches(1_300), attached.detached_ns(5)), (300, 0));
        attached.detach(1_500, 10);
        assert_eq!((attached.switches(9_000), attached.detached_ns(25)), (500, 15));
        assert_eq!(attached.attach(10_000, 30), 20);
        assert_eq!((attached.switches(10_100), attached.detached_ns(99)), (600, 20));
        attached.detach(10_200, 100);
        assert_eq!(attached.attach(10_300, 101), 1);
        assert_eq!((attached.switches(10_300), attached.detached_ns(200)), (700, 21));
    }
}
