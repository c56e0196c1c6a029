//! Tests the limit against a model of a machine: load in steps, a late reader, varying prices, and slices
//! that show the prices late.

use proptest::{collection::vec, prelude::*};
use wakelat_common::task_sampling::fmix64;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// One phase of the machine's load.
#[derive(Clone, Copy, Debug)]
struct Load {
    lasts_ns: u64,
    /// Runs of programs in a second.
    runs: f64,
    /// Cost of a run whose task is not sampled, and the extra cost if it is: ns.
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
    /// Cost of the programs since the slice began (ns), and the reading at its beginning.
    slice: (f64, LimitReading),
    random: u64,
}

/// Interval of the measured slices.
const SLICE_EVERY_NS: u64 = 2 * SECOND_NS;

impl Machine {
    fn new(loads: Vec<Load>, random: u64) -> Self {
        let reading = LimitReading::default();
        Self { loads, now_ns: 0, reading, taken_ns: 0.0, taken: vec![(0, 0.0)], slice: (0.0, reading), random }
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

    /// Attaches the programs for `ns` with a budget of `runs`. Returns for how long they measured: ns.
    fn measure(&mut self, limit: &OverheadLimit, ns: u64, mut runs: u64) -> u64 {
        const STEP: u64 = MS / 2;
        let until_ns = self.now_ns + ns;
        let mut measured_ns = 0;
        while self.now_ns < until_ns {
            let load = self.load();
            let varied = 0.9 + 0.2 * self.random();
            let due = (load.runs * STEP as f64 / 1e9) as u64;
            let measured = due.min(runs);
            runs -= measured;
            let sampled = load.sampled_ns / f64::from(1u32 << limit.sampling_shift());
            let programs_ns = varied * (due as f64 * load.called_ns + measured as f64 * sampled);
            self.reading.measured += measured;
            self.reading.stopped += due - measured;
            self.slice.0 += programs_ns;
            self.taken_ns += programs_ns;
            self.now_ns += STEP;
            if measured == due {
                measured_ns += STEP;
            }
            // Per sample, the reader costs half as much as the program.
            self.take(measured as f64 * sampled / 2.0);
            if measured < due && until_ns.saturating_sub(self.now_ns) > load.late_ns {
                // The programs wake the reader, which comes `late_ns` later.
                return measured_ns + self.measure_stopped(load.late_ns);
            }
        }
        measured_ns
    }

    /// Runs the stopped programs for `ns`, until the late reader detaches them.
    fn measure_stopped(&mut self, ns: u64) -> u64 {
        let load = self.load();
        let due = (load.runs * ns as f64 / 1e9) as u64;
        self.reading.stopped += due;
        let programs_ns = due as f64 * load.called_ns;
        self.slice.0 += programs_ns;
        self.taken_ns += programs_ns;
        self.now_ns += ns;
        self.take(0.0);
        0
    }

    fn show_slice(&mut self, limit: &mut OverheadLimit) {
        let now = LimitReading { at_ns: self.now_ns, ..self.reading };
        let (programs_ns, since) = std::mem::replace(&mut self.slice, (0.0, now));
        limit.charge(now);
        limit.reprice(programs_ns as u64, now.measured - since.measured, now.stopped - since.stopped);
    }

    /// Runs a limit of `ppm` for `length_ns`; a pause costs `pause_costs_ns`.
    fn run(&mut self, ppm: u32, length_ns: u64, pause_costs_ns: f64) -> OverheadLimit {
        let mut limit = OverheadLimit::new(ppm, 2, (pause_costs_ns / 2.0) as u64, self.reading);
        let mut slice_due_ns = 0;
        let first = limit.first_pause();
        self.pause(&mut limit, first, pause_costs_ns / 2.0, length_ns);
        while self.now_ns < length_ns {
            if slice_due_ns <= self.now_ns {
                self.slice = (0.0, self.reading);
            }
            let late_ns = (self.random() * self.load().late_ns as f64) as u64;
            let measured_ns = self.measure(&limit, limit.period_ns() + late_ns, limit.runs());
            if slice_due_ns <= self.now_ns {
                self.show_slice(&mut limit);
                slice_due_ns = self.now_ns + SLICE_EVERY_NS;
            }
            let has_stopped = measured_ns + MS < limit.period_ns();
            let now = LimitReading { at_ns: self.now_ns, ..self.reading };
            let (shift, random) = (limit.sampling_shift(), self.random());
            let pause = limit.end_period(now, measured_ns, has_stopped, random);
            if limit.sampling_shift() != shift {
                slice_due_ns = self.now_ns;
            }
            if pause.is_some() {
                self.take(pause_costs_ns / 2.0);
            }
            self.pause(&mut limit, pause, pause_costs_ns / 2.0, length_ns);
        }
        limit
    }

    /// Pauses for as long as the limit requires, then attaches.
    fn pause(&mut self, limit: &mut OverheadLimit, mut pause: Option<u64>, attaching_ns: f64, until_ns: u64) {
        let pauses = pause.is_some();
        while let Some(ns) = pause {
            self.now_ns += ns;
            if self.now_ns >= until_ns {
                return;
            }
            pause = limit.end_pause(LimitReading { at_ns: self.now_ns, ..self.reading });
        }
        if pauses {
            self.take(attaching_ns);
            limit.begin_period(LimitReading { at_ns: self.now_ns, ..self.reading });
        }
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

    /// The cost from the start until `at_ns` or a little later, as a share of two CPUs' time.
    fn up_to(&self, at_ns: u64) -> f64 {
        let found = self.taken.iter().find(|(taken_at_ns, _)| *taken_at_ns >= at_ns).or(self.taken.last());
        found.map_or(0.0, |(taken_at_ns, taken_ns)| taken_ns / *taken_at_ns as f64 / 2.0)
    }
}

/// Loads of one machine. The cost of a run is drawn once per machine: it varies by a tenth from run to run,
/// but not with the load, because the limit would learn of a change only from the next slice.
fn loads() -> impl Strategy<Value = Vec<Load>> {
    let steps = vec((100 * MS..5 * SECOND_NS, 1.0..6.1, 0..50 * MS), 1..12);
    (20.0..80.0, 30.0..250.0, steps).prop_map(|(called_ns, sampled_ns, steps)| {
        let load =
            |(lasts_ns, runs, late_ns)| Load { lasts_ns, runs: 10f64.powf(runs), called_ns, sampled_ns, late_ns };
        steps.into_iter().map(load).collect()
    })
}

fn steady(runs: f64) -> Vec<Load> {
    vec![Load { lasts_ns: u64::MAX, runs, called_ns: 40.0, sampled_ns: 120.0, late_ns: 0 }]
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
        ppm in 4_000..50_000u32, times in 2.0..30.0f64, pause_costs_ns in 0.0..1e6, random: u64,
    ) {
        // This many times the limit, even at one task in eight.
        let limit = f64::from(ppm) / 1e6;
        let mut machine = Machine::new(steady(times * limit * 2e9 / 60.0), random);
        let at_end = machine.run(ppm, 60 * SECOND_NS, pause_costs_ns);
        prop_assert_eq!(at_end.sampling_shift(), MAX_SHIFT);
        let share = machine.up_to(60 * SECOND_NS) / limit;
        prop_assert!((0.7..=1.0).contains(&share), "{share}");
    }
}

proptest! {
    #[test]
    fn a_limit_of_0_1_percent_holds_on_an_overloaded_machine_even_if_a_pause_costs_a_second_of_it(
        runs in 1e4..1.5e6f64, pause_costs_ns in 5e5..2e6, ppm in 1_000..4_000u32, random: u64,
    ) {
        let loads = vec![Load { lasts_ns: u64::MAX, runs, called_ns: 60.0, sampled_ns: 200.0, late_ns: MS }];
        let mut machine = Machine::new(loads, random);
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
    let mut limit = OverheadLimit::new(10_000, 2, 0, LimitReading::default());
    // 3.2 % of two CPUs' time: 4 times the inflow, and less than 4 times the limit.
    limit.adjust_shift(0.032);
    assert_eq!(limit.sampling_shift(), 2);
    limit.adjust_shift(0.009);
    assert_eq!(limit.sampling_shift(), MAX_SHIFT);
}

#[test]
fn a_late_reader_pauses_longer_for_the_calls_of_stopped_programs() {
    let mut limit = OverheadLimit::new(10_000, 1, 0, LimitReading::default());
    limit.reprice(100_000, 1_000, 0);
    let measured = LimitReading { at_ns: 10 * MS, measured: 10_000, ..LimitReading::default() };
    let in_time = limit.clone().end_period(measured, 10 * MS, true, 0.0).unwrap();
    let late = limit.end_period(LimitReading { stopped: 10_000, ..measured }, 10 * MS, true, 0.0).unwrap();
    // 1 ms of CPU time, at an inflow of 0.85 % of one CPU.
    assert!(late - in_time >= (1e6 / 0.0085) as u64, "{in_time} {late}");
}

#[test]
fn a_run_after_a_stop_costs_at_most_a_full_run_and_at_least_a_call() {
    let mut limit = OverheadLimit::new(10_000, 1, 0, LimitReading::default());
    limit.reprice(400_000, 1_000, 4_000);
    assert_eq!(limit.price, 200.0);
    let mut cheaper = OverheadLimit { price: 10.0, ..OverheadLimit::new(10_000, 1, 0, LimitReading::default()) };
    cheaper.reprice(400_000, 1_000, 4_000);
    assert_eq!(cheaper.price, 80.0);
    limit.reprice(0, 0, 4_000);
    assert_eq!(limit.price, 200.0);
}

#[test]
fn a_few_long_runs_change_the_price_little() {
    let mut limit = OverheadLimit::new(10_000, 1, 0, LimitReading::default());
    limit.reprice(10_000_000, 100_000, 0);
    limit.reprice(1_000_000, 10, 0);
    assert!((100.0..1_200.0).contains(&limit.price), "{}", limit.price);
    (0..20).for_each(|_| limit.reprice(2_000_000, 10_000, 0));
    assert!((limit.price - 200.0).abs() < 1.0, "{}", limit.price);
}

#[test]
fn a_slice_corrects_the_charge_for_the_runs_before_it() {
    let mut limit = OverheadLimit::new(10_000, 1, 0, LimitReading::default());
    let before = limit.tokens;
    limit.charge(LimitReading { measured: 1_000, ..LimitReading::default() });
    assert_eq!(limit.tokens, before - 1_000.0 * FIRST_PRICE_NS);
    limit.reprice(100_000, 1_000, 0);
    assert_eq!(limit.tokens, before - 100_000.0);
}
