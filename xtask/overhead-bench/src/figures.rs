//! Turns observations into figures: ratios within each round, then their median and spread over the rounds.
//! Pure.

use serde::Serialize;

use super::losses::Losses;
use super::observation::Observation;
use super::programs::{EventRuns, RunsByEvent, TracepointKind};
use super::spread::Spread;

/// The cost of an instrument's programs: ns, net of empty programs that run as often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramCost {
    /// Per wakeup, including the first one of a new task: all programs that run for it.
    pub wakeup_ns: f64,
    /// Per switch.
    pub switch_ns: f64,
    /// All other programs, per wakeup.
    pub other_ns: f64,
}

impl ProgramCost {
    /// The cost of a wakeup, the switch that ends its wait, and what happens in between.
    pub fn pair_ns(self) -> f64 {
        self.wakeup_ns + self.switch_ns + self.other_ns
    }
}

/// The cost of programs that ran as in `runs`, if empty ones ran as in `floor`; `None` if one of them ran
/// too rarely.
pub fn cost(runs: &RunsByEvent, floor: &RunsByEvent) -> Option<ProgramCost> {
    let floor_all = floor.values().fold(EventRuns::default(), |sum, runs| EventRuns {
        count: sum.count + runs.count,
        time_ns: sum.time_ns + runs.time_ns,
    });
    // An event without enough runs takes the average of all: under most workloads, hardly any task is new.
    let empty_ns =
        |event: &TracepointKind| floor.get(event).and_then(|runs| runs.ns_each()).or_else(|| floor_all.ns_each());
    let net_ns = |events: &[TracepointKind]| -> Option<f64> {
        let mut sum = 0.0;
        for (event, runs) in runs.iter().filter(|(event, _)| events.contains(event)) {
            sum += runs.time_ns as f64 - empty_ns(event)? * runs.count as f64;
        }
        Some(sum)
    };
    let count = |events: &[TracepointKind]| {
        let count = events.iter().filter_map(|event| runs.get(event)).map(|runs| runs.count).sum();
        (EventRuns { count, time_ns: 0 }).ns_each().map(|_| count as f64)
    };
    let ends = [TracepointKind::Wakeup, TracepointKind::New];
    let switches = count(&[TracepointKind::Switch])?;
    // A tool may need no program on wakeups: then a wakeup costs nothing, and each switch counts as a pair.
    let wakeups = if ends.iter().any(|event| runs.contains_key(event)) { count(&ends)? } else { switches };
    Some(ProgramCost {
        wakeup_ns: net_ns(&[TracepointKind::Waking, TracepointKind::Wakeup, TracepointKind::New])? / wakeups,
        switch_ns: net_ns(&[TracepointKind::Switch])? / switches,
        other_ns: net_ns(&[TracepointKind::Other])? / wakeups,
    })
}

/// One instrument under one workload, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Elapsed time of the workload, as a multiple of that without any instrument.
    pub elapsed: Option<Spread>,
    /// The workload's own CPU time, as a multiple of that without any instrument.
    pub cpu: Option<Spread>,
    /// Elapsed time of the workload while the kernel accounts BPF run times, as a multiple of that under
    /// the same instrument while it does not.
    pub accounting: Option<Spread>,
    /// Duration of a program's run at a switch as the kernel accounts it, with nothing subtracted: ns.
    pub switch_gross_ns: Option<Spread>,
    /// [`ProgramCost::wakeup_ns`]
    pub wakeup_ns: Option<Spread>,
    /// [`ProgramCost::switch_ns`]
    pub switch_ns: Option<Spread>,
    /// [`ProgramCost::pair_ns`]
    pub pair_ns: Option<Spread>,
    /// [`ProgramCost::pair_ns`] as a multiple of the reference's in the same round.
    pub pair_to_reference: Option<Spread>,
    /// CPU time of the tool per second of the workload.
    pub tool_cpu: Option<Spread>,
    /// Resident memory of the tool: bytes.
    pub resident_bytes: Option<Spread>,
    /// Kernel memory of the tool's maps: bytes.
    pub map_bytes: Option<Spread>,
    /// Time from the tool's start to the first event that it measured: seconds.
    pub start_s: Option<Spread>,
    /// Losses of all rounds together, if the tool reports them.
    pub losses: Option<Losses>,
}

/// One instrument in one round, with what it is compared with in the same round.
#[derive(Clone, Copy)]
pub struct ComparedObservation<'a> {
    /// The instrument.
    pub own: &'a Observation,
    /// The empty programs.
    pub floor: Option<&'a Observation>,
    /// The reference.
    pub reference: Option<&'a Observation>,
}

impl ComparedObservation<'_> {
    fn cost(&self, observation: &Observation) -> Option<ProgramCost> {
        cost(&observation.runs, &self.floor?.runs)
    }
}

impl Figures {
    /// The figures over all rounds.
    pub fn of(rounds: &[ComparedObservation]) -> Self {
        let over = |figure: &dyn Fn(&ComparedObservation) -> Option<f64>| Spread::of(rounds.iter().filter_map(figure));
        Self {
            elapsed: over(&|round| {
                let own = round.own;
                Some(2.0 * own.under.elapsed_s / (own.before.elapsed_s + own.after.elapsed_s))
            }),
            cpu: over(&|round| Some(2.0 * round.own.under.cpu_s / (round.own.before.cpu_s + round.own.after.cpu_s))),
            accounting: over(&|round| Some(round.own.accounted.elapsed_s / round.own.under.elapsed_s)),
            switch_gross_ns: over(&|round| round.own.runs.get(&TracepointKind::Switch)?.ns_each()),
            wakeup_ns: over(&|round| Some(round.cost(round.own)?.wakeup_ns)),
            switch_ns: over(&|round| Some(round.cost(round.own)?.switch_ns)),
            pair_ns: over(&|round| Some(round.cost(round.own)?.pair_ns())),
            pair_to_reference: over(&|round| {
                Some(round.cost(round.own)?.pair_ns() / round.cost(round.reference?)?.pair_ns())
            }),
            tool_cpu: over(&|round| round.own.resident_bytes.map(|_| round.own.tool_cpu_s / round.own.tool_elapsed_s)),
            resident_bytes: over(&|round| round.own.resident_bytes.map(|bytes| bytes as f64)),
            map_bytes: over(&|round| (round.own.map_bytes > 0).then_some(round.own.map_bytes as f64)),
            start_s: over(&|round| round.own.start_s),
            losses: rounds.iter().filter_map(|round| round.own.losses).reduce(Losses::and),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::LoadTimes;
    use super::*;

    fn runs(event: TracepointKind, count: u64, ns_each: u64) -> (TracepointKind, EventRuns) {
        (event, EventRuns { count, time_ns: count * ns_each })
    }

    fn observation(elapsed: [f64; 4], runs: RunsByEvent) -> Observation {
        let [before, under, accounted, after] =
            elapsed.map(|elapsed_s| LoadTimes { elapsed_s, cpu_s: elapsed_s / 2.0 });
        Observation {
            start_s: Some(0.1),
            before,
            under,
            accounted,
            after,
            runs,
            tool_cpu_s: 0.02,
            tool_elapsed_s: 2.0,
            resident_bytes: Some(1 << 20),
            map_bytes: 4096,
            losses: Some(Losses::Events(1)),
        }
    }

    fn floor() -> RunsByEvent {
        RunsByEvent::from([
            runs(TracepointKind::Waking, 1000, 50),
            runs(TracepointKind::Wakeup, 1000, 60),
            runs(TracepointKind::Switch, 2000, 40),
        ])
    }

    #[test]
    fn a_wakeup_costs_all_programs_that_run_for_it() {
        let own = RunsByEvent::from([
            runs(TracepointKind::Waking, 1000, 80),
            runs(TracepointKind::Wakeup, 1000, 100),
            runs(TracepointKind::Switch, 2000, 90),
        ]);
        let cost = cost(&own, &floor()).unwrap();
        // 80 - 50 and 100 - 60.
        assert_eq!(cost, ProgramCost { wakeup_ns: 70.0, switch_ns: 50.0, other_ns: 0.0 });
        assert_eq!(cost.pair_ns(), 120.0);
    }

    #[test]
    fn a_tool_without_programs_on_wakeups_costs_only_its_switches() {
        let own = RunsByEvent::from([runs(TracepointKind::Switch, 2000, 60)]);
        let cost = cost(&own, &floor()).unwrap();
        assert_eq!(cost, ProgramCost { wakeup_ns: 0.0, switch_ns: 20.0, other_ns: 0.0 });
    }

    #[test]
    fn other_programs_are_part_of_the_pair() {
        let own = RunsByEvent::from([
            runs(TracepointKind::Wakeup, 1000, 60),
            runs(TracepointKind::Switch, 1000, 40),
            // The empty programs take 47.5 ns on average.
            runs(TracepointKind::Other, 200, 147),
        ]);
        let cost = cost(&own, &floor()).unwrap();
        assert!((cost.pair_ns() - 19.9).abs() < 1e-9 && cost.other_ns == cost.pair_ns(), "{cost:?}");
    }

    #[test]
    fn an_event_too_rare_for_its_own_floor_takes_the_average() {
        let own = RunsByEvent::from([
            runs(TracepointKind::Wakeup, 900, 60),
            runs(TracepointKind::New, 100, 147),
            runs(TracepointKind::Switch, 1000, 40),
        ]);
        // The empty programs take 47.5 ns on average.
        assert_eq!(cost(&own, &floor()).unwrap().wakeup_ns, (147.0 - 47.5) / 10.0);
    }

    #[test]
    fn the_net_cost_of_the_floor_is_zero() {
        assert_eq!(cost(&floor(), &floor()), Some(ProgramCost { wakeup_ns: 0.0, switch_ns: 0.0, other_ns: 0.0 }));
    }

    #[test]
    fn programs_that_did_not_run_have_no_cost() {
        assert_eq!(cost(&RunsByEvent::new(), &floor()), None);
        assert_eq!(cost(&floor(), &RunsByEvent::new()), None);
    }

    #[test]
    fn a_ratio_is_relative_to_the_runs_before_and_after() {
        let own = observation([1.0, 3.0, 4.5, 2.0], RunsByEvent::new());
        let figures = Figures::of(&[ComparedObservation { own: &own, floor: None, reference: None }]);
        assert_eq!(figures.elapsed.unwrap().median, 2.0);
        assert_eq!(figures.accounting.unwrap().median, 1.5);
        assert_eq!(figures.tool_cpu.unwrap().median, 0.01);
        assert_eq!(figures.pair_ns, None);
    }

    #[test]
    fn the_reference_is_from_the_same_round() {
        let with = |ns: u64| {
            observation(
                [1.0; 4],
                RunsByEvent::from([
                    runs(TracepointKind::Wakeup, 1000, 60 + ns),
                    runs(TracepointKind::Switch, 1000, 40),
                ]),
            )
        };
        let (floor, mine, slow, fast) = (with(0), with(30), with(300), with(60));
        let round = |reference| ComparedObservation { own: &mine, floor: Some(&floor), reference: Some(reference) };
        let ratio = Figures::of(&[round(&slow), round(&fast)]).pair_to_reference.unwrap();
        assert!((ratio.lower - 0.2).abs() < 1e-9 && (ratio.median - 0.3).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn losses_of_all_rounds_add_up() {
        let own = observation([1.0; 4], RunsByEvent::new());
        let round = ComparedObservation { own: &own, floor: None, reference: None };
        assert_eq!(Figures::of(&[round, round]).losses, Some(Losses::Events(2)));
    }
}
