//! What measuring takes, from parts of the run to the whole of it: pure.
//!
//! Switches are those of the kernel's while the programs were attached: see [`AttachedTime`].

/// Programs' time, extrapolated from slices in which the kernel accounted it: in each slice a switch, with the wakeups
/// that belong to it, took so much on average, and all switches since the slice before are taken to have cost the same. The
/// number of switches is the kernel's and exact; load that comes and goes between slices does not tip the scales. Switches that
/// were told before the slice that shows their price have that of the slice before.
#[derive(Clone, Copy, Debug)]
pub struct ProgramTimeEstimate {
    /// Up to this number of the kernel's switches, all are paid for.
    priced_switches: u64,
    ns: f64,
    accounted_ns: u64,
    per_switch_ns: Option<f64>,
}

/// What a slice has shown.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredSlice {
    /// Time of all programs in it: ns.
    pub programs_ns: u64,
    /// Switches that the program on `sched_switch` saw in it.
    pub switches: u64,
    /// How long it was: ns.
    pub length_ns: u64,
}

/// What it came to at one instant, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadCost {
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
    /// The kernel's number of switches while the programs were attached.
    pub switches: u64,
    /// How long they were not: ns.
    pub paused_ns: u64,
    /// Time of the programs: ns; none where no slice has shown anything yet.
    pub programs_ns: Option<u64>,
    /// How long the account was on: ns.
    pub accounted_ns: u64,
}

impl ProgramTimeEstimate {
    /// Begins where the kernel has counted `switches`.
    pub fn new(switches: u64) -> Self {
        Self { priced_switches: switches, ns: 0.0, accounted_ns: 0, per_switch_ns: None }
    }

    /// A slice has ended where the kernel has counted `switches`.
    pub fn add(&mut self, slice: &MeasuredSlice, switches: u64) {
        self.accounted_ns += slice.length_ns;
        if slice.switches == 0 {
            return;
        }
        let per_switch_ns = slice.programs_ns as f64 / slice.switches as f64;
        self.charge(per_switch_ns, switches);
        self.per_switch_ns = Some(per_switch_ns);
    }

    /// What it comes to where the kernel has counted `switches`. What was told once stays: a later slice prices the switches
    /// from here on, so that what comes between two readings is never less than nothing.
    pub fn cost(&mut self, switches: u64, rested_ns: u64, tool_ns: u64) -> OverheadCost {
        let programs_ns = self.per_switch_ns.map(|per_switch_ns| {
            self.charge(per_switch_ns, switches);
            self.ns as u64
        });
        OverheadCost { tool_ns, switches, paused_ns: rested_ns, programs_ns, accounted_ns: self.accounted_ns }
    }

    fn charge(&mut self, per_switch_ns: f64, switches: u64) {
        self.ns += per_switch_ns * switches.saturating_sub(self.priced_switches) as f64;
        self.priced_switches = self.priced_switches.max(switches);
    }
}

/// How often the kernel has switched while the programs were attached, and how long they were not.
#[derive(Clone, Copy, Debug)]
pub struct AttachedTime {
    /// The kernel's count when they were attached the last time, or where they are not, when they were detached.
    since: u64,
    /// Switches before that.
    before: u64,
    detached_ns: u64,
    /// When they were detached: ns; none where they are attached.
    detached_at_ns: Option<u64>,
}

impl AttachedTime {
    /// They are attached where the kernel has counted `switches`.
    pub fn new(switches: u64) -> Self {
        Self { since: switches, before: 0, detached_ns: 0, detached_at_ns: None }
    }

    /// Whether they are attached.
    pub fn is_attached(&self) -> bool {
        self.detached_at_ns.is_none()
    }

    /// Switches while they were attached, where the kernel has counted `switches`.
    pub fn switches(&self, switches: u64) -> u64 {
        self.before + if self.is_attached() { switches.saturating_sub(self.since) } else { 0 }
    }

    /// How long they were not attached: ns.
    pub fn detached_ns(&self, now_ns: u64) -> u64 {
        self.detached_ns + self.detached_at_ns.map_or(0, |left_at_ns| now_ns.saturating_sub(left_at_ns))
    }

    /// They are detached.
    pub fn detach(&mut self, switches: u64, now_ns: u64) {
        self.before = self.switches(switches);
        self.detached_at_ns = Some(now_ns);
    }

    /// They are attached again. Returns how long the rest was: ns.
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
    fn switches_outside_of_slices_cost_as_much_as_those_inside() {
        let mut meter = ProgramTimeEstimate::new(1_000);
        meter.add(&slice(5_000, 100), 1_200);
        // 50 ns a switch for the 200 until then, and for the 800 after it.
        assert_eq!(
            meter.cost(2_000, 0, 7),
            OverheadCost { tool_ns: 7, switches: 2_000, paused_ns: 0, programs_ns: Some(50_000), accounted_ns: 20 }
        );
    }

    #[test]
    fn each_stretch_of_the_run_has_the_price_of_its_own_slice() {
        let mut meter = ProgramTimeEstimate::new(0);
        meter.add(&slice(5_000, 100), 1_000);
        meter.add(&slice(10_000, 100), 3_000);
        assert_eq!(meter.cost(3_000, 0, 0).programs_ns, Some(1_000 * 50 + 2_000 * 100));
    }

    #[test]
    fn what_was_told_stays_however_cheap_a_switch_becomes() {
        let mut meter = ProgramTimeEstimate::new(0);
        meter.add(&slice(150_000, 100), 100);
        let told: Vec<u64> = [1_000, 2_000].map(|switches| meter.cost(switches, 0, 0).programs_ns.unwrap()).into();
        meter.add(&slice(90_000, 100), 2_100);
        let later = meter.cost(3_000, 0, 0).programs_ns.unwrap();
        assert_eq!((told, later), (vec![1_000 * 1_500, 2_000 * 1_500], 2_000 * 1_500 + 1_000 * 900));
    }

    #[test]
    fn what_no_slice_has_shown_is_unknown_and_not_nothing() {
        let mut meter = ProgramTimeEstimate::new(0);
        assert_eq!(meter.cost(10, 0, 0).programs_ns, None);
        meter.add(&slice(0, 0), 10);
        assert_eq!(meter.cost(10, 0, 0).programs_ns, None);
    }

    #[test]
    fn switches_in_a_rest_are_nobodys() {
        let mut presence = AttachedTime::new(1_000);
        assert_eq!((presence.switches(1_300), presence.detached_ns(5)), (300, 0));
        presence.detach(1_500, 10);
        assert_eq!((presence.switches(9_000), presence.detached_ns(25)), (500, 15));
        assert_eq!(presence.attach(10_000, 30), 20);
        assert_eq!((presence.switches(10_100), presence.detached_ns(99)), (600, 20));
        presence.detach(10_200, 100);
        assert_eq!(presence.attach(10_300, 101), 1);
        assert_eq!((presence.switches(10_300), presence.detached_ns(200)), (700, 21));
    }
}
