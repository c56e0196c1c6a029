//! Tests the limit against a model of a machine: load in steps, a late reader, varying prices, and programs
//! that time one run in 64.

use proptest::{collection::vec, prelude::*};
use wakelat_common::{program_runs::RunTimeSums, task_sampling::fmix64};

use super::{sampled_tasks::MAX_SHIFT, *};

const SECOND_NS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// One phase of the machine's load.
#[derive(Clone, Copy, Debug)]
struct Load {
    lasts_ns: u64,
    /// Runs of programs in a second.
    runs: f64,
    /// Cost of a run after the programs have stopped; of one whose task is not sampled; and the extra cost if it
    /// is: ns.
    stopped_ns: f64,
    called_ns: f64,
    sampled_ns: f64,
    /// How late the reader is: ns.
    late_ns: u64,
}

/// The machine, and what measuring has cost on it.
struct Machine {
    loads: Vec<Load>,
    now_ns: u64,
    reading: LimitReading,
    taken_ns: f64,
    /// Instants, and the cost up to each: ns.
    taken: Vec<(u64, f64)>,
    /// Number of pauses for which the programs were detached, and the shortest of them: ns.
    detached: (u32, u64),
    random: u64,
    /// What a check in a pause costs: ns.
    check_costs_ns: f64,
}

/// Length of a step of the model.
const STEP_NS: u64 = MS / 2;

impl Machine {
    fn new(loads: Vec<Load>, random: u64) -> Self {
        let (reading, detached) = (LimitReading::default(), (0, u64::MAX));
        let taken = vec![(0, 0.0)];
        Self { loads, now_ns: 0, reading, taken_ns: 0.0, taken, detached, random, check_costs_ns: 0.0 }
    }

    fn load(&self) -> Load {
        let mut at_ns = self.now_ns;
        for load in &self.loads {
            match at_ns.checked_sub(load.lasts_ns) {
                Some(later_ns) => at_ns = later_ns,
                None => return *load,
            }
        }
        *self.loads.last().expect("at least one load")
    }

    fn random(&mut self) -> f64 {
        self.random = fmix64(self.random + 1);
        self.random as f64 / u64::MAX as f64
    }

    fn take(&mut self, tool_ns: f64) {
        self.reading.tool_ns += tool_ns as u64;
        self.taken_ns += tool_ns;
        self.taken.push((self.now_ns, self.taken_ns));
    }

    /// What `count` runs that take `ns` in total show of their times: one in 64 is timed, so the error of the sum
    /// of n timed runs has a standard deviation of `1 / sqrt(n)` if the runs differ by as much as their mean.
    fn timed(&mut self, times: RunTimeSums, count: u64, ns: f64) -> RunTimeSums {
        let error = (self.random() * 2.0 - 1.0) * 3f64.sqrt() / (count as f64 / 64.0).sqrt().max(1.0);
        let shown_ns = (ns * (1.0 + error).max(0.0)) as u64;
        RunTimeSums { timed: times.timed + count / 64, runs: times.runs + count, ns: times.ns + shown_ns, clock_ns: 0 }
    }

    /// Lets the programs run for a step with a budget of `runs`. Returns whether they have stopped.
    fn step(&mut self, limit: &OverheadLimit, runs: &mut u64) -> bool {
        let load = self.load();
        let varied = 0.9 + 0.2 * self.random();
        let due = (load.runs * STEP_NS as f64 / 1e9) as u64;
        let measured = due.min(*runs);
        *runs -= measured;
        let sampled = load.sampled_ns / f64::from(1u32 << limit.sampling_shift());
        let measured_ns = varied * measured as f64 * (load.called_ns + sampled);
        let stopped_ns = varied * (due - measured) as f64 * load.stopped_ns;
        self.reading.measured_times = self.timed(self.reading.measured_times, measured, measured_ns);
        self.reading.stopped_times = self.timed(self.reading.stopped_times, due - measured, stopped_ns);
        self.reading.measured += measured;
        self.reading.stopped += due - measured;
        self.taken_ns += measured_ns + stopped_ns;
        self.now_ns += STEP_NS;
        // Per sample, the reader costs half as much as the program.
        self.take(measured as f64 * sampled / 2.0);
        measured < due
    }

    fn read(&self) -> LimitReading {
        LimitReading { at_ns: self.now_ns, ..self.reading }
    }

    /// Measures for the length of a period; the reader is `late_ns` late. Returns for how long the programs
    /// measured (ns), and whether they stopped by themselves.
    fn measure(&mut self, limit: &mut OverheadLimit, late_ns: u64) -> (u64, bool) {
        let began_ns = self.now_ns;
        let until_ns = began_ns + limit.period_ns() + late_ns;
        let mut check_ns = began_ns + limit.check_interval_ns() + late_ns;
        let (mut runs, mut stopped_at_ns) = (limit.runs(), None);
        while self.now_ns < until_ns {
            if self.step(limit, &mut runs) && stopped_at_ns.is_none() {
                stopped_at_ns = Some(self.now_ns);
            }
            if check_ns <= self.now_ns {
                if stopped_at_ns.is_some() {
                    break;
                }
                limit.charge(self.read());
                (runs, check_ns) = (limit.runs(), self.now_ns + limit.check_interval_ns() + late_ns);
            }
        }
        (stopped_at_ns.unwrap_or(self.now_ns) - began_ns, stopped_at_ns.is_some())
    }

    /// Runs a limit of `ppm` for `length_ns`; detaching and attaching cost `pause_costs_ns`, and a pause without
    /// them a tenth of that.
    fn run(&mut self, ppm: u32, length_ns: u64, pause_costs_ns: f64) -> OverheadLimit {
        let mut limit = OverheadLimit::new(ppm, 2, (pause_costs_ns / 2.0) as u64, self.reading);
        let first = Pause { length_ns: limit.first_pause(), detach: false };
        self.pause(&mut limit, first, pause_costs_ns, length_ns);
        while self.now_ns < length_ns {
            let late_ns = (self.random() * self.load().late_ns as f64) as u64;
            let (measured_ns, has_stopped) = self.measure(&mut limit, late_ns);
            let random = self.random();
            if let Some(pause) = limit.end_period(self.read(), measured_ns, has_stopped, random) {
                self.pause(&mut limit, pause, pause_costs_ns, length_ns);
            }
        }
        limit
    }

    fn detach(&mut self, costs_ns: f64) -> u64 {
        self.detached.0 += 1;
        self.take(costs_ns / 2.0);
        self.now_ns
    }

    /// Pauses for as long as the limit requires, then lets the programs measure again.
    fn pause(&mut self, limit: &mut OverheadLimit, pause: Pause, costs_ns: f64, run_ns: u64) {
        let mut detached_at_ns = pause.detach.then(|| self.detach(costs_ns));
        self.take(costs_ns / 20.0);
        limit.has_stopped(self.read());
        let mut until_ns = self.now_ns + pause.length_ns;
        loop {
            let check_ns = if detached_at_ns.is_some() {
                until_ns
            } else {
                until_ns.min(self.now_ns + limit.pause_check_interval_ns())
            };
            while self.now_ns < check_ns {
                if detached_at_ns.is_some() {
                    self.now_ns = check_ns;
                } else {
                    self.step(limit, &mut 0);
                }
            }
            if self.now_ns >= run_ns {
                return;
            }
            self.take(self.check_costs_ns);
            match limit.end_pause(self.read(), until_ns.saturating_sub(self.now_ns)) {
                PauseEnd::Longer(ns) => until_ns = self.now_ns + ns,
                PauseEnd::Detach(ns) => {
                    detached_at_ns = Some(self.detach(costs_ns));
                    limit.has_stopped(self.read());
                    until_ns = self.now_ns + ns;
                }
                PauseEnd::Resume => break,
            }
        }
        if let Some(at_ns) = detached_at_ns {
            self.detached.1 = self.detached.1.min(self.now_ns - at_ns);
            self.take(costs_ns / 2.0);
        }
        self.take(costs_ns / 20.0);
        limit.begin_period(self.read());
    }

    /// The highest cost in any stretch of `ns`, as a share of two CPUs' time.
    fn most_in(&self, ns: u64) -> f64 {
        let mut first = 0;
        let mut most: f64 = 0.0;
        for (at_ns, taken_ns) in &self.taken {
            while self.taken[first].0 + ns < *at_ns {
                first += 1;
            }
            // Starts at the instant before the stretch, so that no cost in it is left out.
            most = most.max(taken_ns - self.taken[first].1);
        }
        most / ns as f64 / 2.0
    }

    /// The cost from the start until `at_ns`, as a share of two CPUs' time.
    fn up_to(&self, at_ns: u64) -> f64 {
        let after = self.taken.partition_point(|(taken_at_ns, _)| *taken_at_ns <= at_ns);
        after.checked_sub(1).map_or(0.0, |last| self.taken[last].1 / at_ns as f64 / 2.0)
    }
}

#[test]
fn checks_that_cost_a_third_of_the_limit_do_not_prolong_a_pause_without_end() {
    let mut machine = Machine { check_costs_ns: 300_000.0, ..Machine::new(steady(4_000.0), 1) };
    let limit = machine.run(5_000, 20 * SECOND_NS, 600_000.0);
    let LimitReading { measured, stopped, .. } = machine.reading;
    assert!(measured > stopped, "{measured} of {} runs: {limit:?}", measured + stopped);
}

#[test]
fn a_full_bucket_ends_a_pause_whatever_checks_cost_and_however_expensive_the_last_stop_was() {
    for price_of_stop in [0.0, 1e8] {
        let mut machine = Machine { check_costs_ns: 300_000.0, ..Machine::new(steady(4_000.0), 1) };
        let mut limit = machine.run(5_000, 5 * SECOND_NS, 600_000.0);
        (limit.price_of_stop, limit.needed) = (price_of_stop, limit.capacity());
        machine.pause(&mut limit, Pause { length_ns: SECOND_NS, detach: false }, 600_000.0, 60 * SECOND_NS);
        assert!(machine.now_ns < 20 * SECOND_NS, "{} ns: {limit:?}", machine.now_ns);
    }
}

/// Loads of one machine. The cost of a run is drawn once per machine, and varies by a tenth from run to run.
fn loads() -> impl Strategy<Value = Vec<Load>> {
    let steps = vec((100 * MS..5 * SECOND_NS, 1.0..6.1, 0..50 * MS), 1..12);
    (2.0..70.0, 20.0..100.0, 30.0..250.0, steps).prop_map(|(stopped_ns, called_ns, sampled_ns, steps)| {
        let load = |(lasts_ns, runs, late_ns)| Load {
            lasts_ns,
            runs: 10f64.powf(runs),
            stopped_ns,
            called_ns,
            sampled_ns,
            late_ns,
        };
        steps.into_iter().map(load).collect()
    })
}

fn steady(runs: f64) -> Vec<Load> {
    vec![Load { lasts_ns: u64::MAX, runs, stopped_ns: 8.0, called_ns: 40.0, sampled_ns: 120.0, late_ns: 0 }]
}

proptest! {
    #[test]
    fn the_limit_holds_in_any_ten_seconds_and_from_the_first_second_on(
        loads in loads(), ppm in 4_000..50_000u32, pause_costs_ns in 0.0..2e6, random: u64,
    ) {
        let mut machine = Machine::new(loads, random);
        machine.run(ppm, 30 * SECOND_NS, pause_costs_ns);
        let limit = f64::from(ppm) / 1e6;
        let most = machine.most_in(10 * SECOND_NS);
        prop_assert!(most <= limit, "{most} in 10 s of {limit}");
        for seconds in 1..30 {
            let share = machine.up_to(seconds * SECOND_NS);
            prop_assert!(share <= limit, "{share} in {seconds} s of {limit}");
        }
    }

    #[test]
    fn a_steady_load_above_the_limit_uses_most_of_the_limit(
        ppm in 4_000..50_000u32, times in 1.6..2.1f64, pause_costs_ns in 0.0..1e6, random: u64,
    ) {
        // This many times the limit, even at one task in eight. The calls of stopped programs take 2/15 of that: at
        // most 0.28 of the limit, of which 0.77 flow in.
        let limit = f64::from(ppm) / 1e6;
        let mut machine = Machine::new(steady(times * limit * 2e9 / 60.0), random);
        let at_end = machine.run(ppm, 60 * SECOND_NS, pause_costs_ns);
        prop_assert_eq!((at_end.sampling_shift(), machine.detached.0), (MAX_SHIFT, 0));
        let share = machine.up_to(60 * SECOND_NS) / limit;
        prop_assert!((0.5..=0.85).contains(&share), "{share}");
    }

    #[test]
    fn long_pauses_use_a_part_of_the_limit(
        ppm in 4_000..50_000u32, times in 4.0..30.0f64, pause_costs_ns in 0.0..1e6, random: u64,
    ) {
        let limit = f64::from(ppm) / 1e6;
        let mut machine = Machine::new(steady(times * limit * 2e9 / 60.0), random);
        machine.run(ppm, 60 * SECOND_NS, pause_costs_ns);
        prop_assert!(machine.detached.0 > 0);
        // With rounds of 3 s, 0.55 of the limit flows in.
        let share = machine.up_to(60 * SECOND_NS) / limit;
        prop_assert!((0.15..=0.75).contains(&share), "{share}");
    }

    #[test]
    fn a_limit_of_0_1_percent_holds_on_an_overloaded_machine_even_if_a_pause_costs_a_second_of_it(
        runs in 1e4..1.5e6f64, share in 0.0..1.0f64, pause_costs_ns in 5e5..2e6, check_costs_ns in 0.0..1e5,
        ppm in 1_000..4_000u32, random: u64,
    ) {
        // At most 1 % of two CPUs' time: that is more than 2 ms until the second check.
        let stopped_ns = 10.0 + share * (2e7 / runs - 10.0).clamp(0.0, 50.0);
        let load = Load { runs, stopped_ns, called_ns: 60.0, sampled_ns: 200.0, late_ns: MS, ..steady(0.0)[0] };
        // Little happens until after the first check.
        let early = Load { runs: runs / 10.0, lasts_ns: 15 * MS, ..load };
        let mut machine = Machine { check_costs_ns, ..Machine::new(vec![early, load], random) };
        machine.run(ppm, 40 * SECOND_NS, pause_costs_ns);
        let limit = f64::from(ppm) / 1e6;
        let most = machine.most_in(10 * SECOND_NS);
        prop_assert!(most <= limit, "{most} in 10 s of {limit}");
        for tenths in 10..400 {
            let share = machine.up_to(tenths * SECOND_NS / 10);
            prop_assert!(share <= limit, "{share} in {tenths} tenths of a second of {limit}");
        }
        // The limit is also used.
        prop_assert!(machine.reading.measured > 1_000, "{:?}", machine.reading);
        prop_assert!(machine.up_to(40 * SECOND_NS) >= limit / 4.0, "{}", machine.up_to(40 * SECOND_NS));
    }
}

#[test]
fn nothing_is_measured_if_even_a_pause_exceeds_the_limit() {
    // A pause costs 5 ms, and the limit allows 100 us per second.
    let mut machine = Machine::new(steady(1e5), 1);
    machine.run(50, 60 * SECOND_NS, 5e6);
    assert_eq!(machine.reading.measured, 0);
}

#[test]
fn a_light_load_is_measured_completely_and_without_pauses() {
    let mut machine = Machine::new(steady(10_000.0), 1);
    let at_end = machine.run(5_000, 20 * SECOND_NS, 0.0);
    // 160 ns per run of a program, and 60 ns of the reader.
    let all = 10_000.0 * 220.0 / 2e9;
    assert_eq!(at_end.sampling_shift(), 0);
    assert!((machine.up_to(20 * SECOND_NS) / all - 1.0).abs() < 0.05, "{}", machine.up_to(20 * SECOND_NS) / all);
}

#[test]
fn all_tasks_are_sampled_again_after_a_heavy_load_ends() {
    let mut loads = steady(1e6);
    loads[0].lasts_ns = 10 * SECOND_NS;
    loads.extend(steady(1_000.0));
    let mut machine = Machine::new(loads, 1);
    assert_eq!(machine.run(5_000, 10 * SECOND_NS, 1e6).sampling_shift(), MAX_SHIFT);
    let mut machine = Machine { taken: vec![(0, 0.0)], ..Machine::new(machine.loads, 1) };
    assert_eq!(machine.run(5_000, 40 * SECOND_NS, 1e6).sampling_shift(), 0);
}

#[test]
fn the_sampling_rate_is_halved_as_often_as_the_excess_requires_at_once() {
    let mut sampled = SampledTasks::default();
    sampled.adjust(3.7, 1.0);
    assert_eq!(sampled.shift(), 2);
    sampled.adjust(1.1, 1.0);
    assert_eq!(sampled.shift(), MAX_SHIFT);
    assert!(!sampled.adjust(0.4, 1.0) && !sampled.adjust(0.4, 1.0) && sampled.adjust(0.4, 1.0));
    assert_eq!(sampled.shift(), MAX_SHIFT - 1);
}

/// What `runs` runs of `ns` show.
fn times(runs: u64, ns: u64) -> RunTimeSums {
    RunTimeSums { timed: 0, runs, ns: runs * ns, clock_ns: 0 }
}

/// The difference is less than the rounding errors of some sums.
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} instead of {expected}");
}

#[test]
fn stopped_runs_are_debited_at_their_own_price() {
    let mut limit = OverheadLimit::new(10_000, 1, 0, LimitReading::default());
    let before = limit.tokens;
    let measured_times = times(1_000, 200);
    let measured = LimitReading { measured: 1_000, measured_times, ..LimitReading::default() };
    limit.charge(measured);
    assert_near(limit.tokens, before - 200_000.0);
    limit.charge(LimitReading { stopped: 5_000, stopped_times: times(4_000, 10), ..measured });
    // 1,000 of the stopped runs were not timed yet, and cost as much as the others.
    assert_near(limit.tokens, before - 250_000.0);
}

#[test]
fn runs_that_were_not_timed_yet_are_debited_and_corrected_later() {
    let mut limit = OverheadLimit::new(10_000, 2, 0, LimitReading::default());
    let before = limit.tokens;
    limit.charge(LimitReading { measured: 1_000, ..LimitReading::default() });
    assert_near(limit.tokens, before - 1_000.0 * FIRST_PRICE_NS);
    limit.charge(LimitReading { measured: 1_000, measured_times: times(1_000, 100), ..LimitReading::default() });
    assert_near(limit.tokens, before - 100_000.0);
}

/// A machine on which calling the stopped programs takes 0.8 % of two CPUs' time.
fn expensive_calls() -> Machine {
    Machine::new(vec![Load { stopped_ns: 16.0, ..steady(1e6)[0] }], 1)
}

#[test]
fn programs_are_detached_only_if_calling_them_would_take_the_limit() {
    let mut machine = expensive_calls();
    machine.run(40_000, 30 * SECOND_NS, 1e6);
    assert_eq!(machine.detached.0, 0, "calls take a fifth of the limit");
    let mut machine = expensive_calls();
    machine.run(5_000, 60 * SECOND_NS, 1e6);
    let (pauses, shortest_ns) = machine.detached;
    assert!((10..=25).contains(&pauses) && shortest_ns >= DETACHED_NS as u64, "{pauses} pauses of {shortest_ns} ns");
    assert!(machine.reading.measured > 1_000);
}

#[test]
fn programs_stay_attached_again_after_their_calls_have_become_rare() {
    let mut machine = expensive_calls();
    machine.loads[0].lasts_ns = 20 * SECOND_NS;
    machine.loads.extend(steady(50_000.0));
    let at_end = machine.run(5_000, 60 * SECOND_NS, 1e6);
    assert!(machine.detached.0 >= 1 && !at_end.detaches, "{:?}", machine.detached);
    assert!(machine.most_in(10 * SECOND_NS) <= 0.005);
}
