//! How the programs time themselves: they count every run, and time one run in [`MEAN_STEP`] on average, or one in
//! four times as many if they run often.
//!
//! Each timed run stands for itself and the runs since the timed run before it: its time counts once for each
//! of them. The number of runs until the next timed one is random, because a fixed number would
//! select the same half of a round trip each time. As a random number does not depend on what the runs do, the
//! sum is on average the time of all runs.
//!
//! Both figures are those of one CPU, and each kind of program has its own.

/// A program whose runs have figures of their own: their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramKind {
    /// The program on `sched_switch`: its runs are the context switches that it has seen.
    Switch = 0,
    /// All other programs.
    Other = 1,
}

/// Number of kinds.
pub const PROGRAM_KINDS: usize = 2;

/// The least number of runs from one timed run to the next.
const MIN_STEP: u64 = 33;
/// The number of steps, all equally likely: 2 to this power.
const STEP_BITS: u32 = 6;
/// The mean number of runs from one timed run to the next, rounded down.
pub const MEAN_STEP: u64 = MIN_STEP + (1 << STEP_BITS) / 2 - 1;

/// The longest time of a run that counts: ns. A run that takes longer was interrupted: by the hypervisor, a
/// non-maskable interrupt or, on kernels where tracepoints can be preempted, another task. Counting that once
/// for each run of the step would be far from what measuring costs.
pub const LONGEST_RUN_NS: u64 = 1 << 15;

/// What a run takes before it first reads the clock, and what no reading can show: the call, the lookup of its
/// counters and the count. In quarters of the time of a reading. The kernel's own account of the same runs, less that
/// of an empty program, is 13 to 20 ns more than the time after the first reading, on a processor on which a reading
/// takes 24 ns; a run that returns at once takes 2 to 4 ns after it.
const BEGINNING_QUARTERS: u64 = 3;

/// Readings of the clock in a timed run.
pub const CLOCK_READINGS: u64 = 3;

/// Runs on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CpuProgramRuns {
    /// Those of each [`ProgramKind`].
    pub kinds: [ProgramRuns; PROGRAM_KINDS],
}

/// The runs of one kind of program on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProgramRuns {
    /// Number of runs.
    pub count: u64,
    /// The number of the next run to be timed.
    pub next_timed: u64,
    /// `count` at the end of the last timed run.
    pub last_timed: u64,
    /// The first reading of the clock for the run that is being timed: ns of CLOCK_MONOTONIC; 0 if there is none.
    pub timing_since_ns: u64,
    /// The second reading, if the program does not keep it on its stack.
    pub began_at_ns: u64,
    /// When the length of the steps was chosen last ([`Self::end_timed`]): ns of CLOCK_MONOTONIC; 0 before the first time.
    pub step_chosen_at_ns: u64,
    /// State of the random numbers.
    pub random: u64,
    /// Always 0: a number whose value the verifier and the compiler do not know.
    pub zero: u64,
    /// The times of runs that measured.
    pub measured: RunTimeSums,
    /// The times of runs after the programs had stopped measuring, which return at once.
    pub stopped: RunTimeSums,
}

/// Times of runs, each counted once for every run that it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RunTimeSums {
    /// Timed runs.
    pub timed: u64,
    /// Runs that the timed ones stand for, themselves included.
    pub runs: u64,
    /// Time of these runs, each with one reading of the clock: ns.
    pub ns: u64,
    /// Time of one reading of the clock in each of these runs: ns.
    pub clock_ns: u64,
}

impl RunTimeSums {
    /// Adds a timed run that stands for `runs` runs. It took `ns`, and a reading of the clock `clock_ns`.
    #[inline(always)]
    pub const fn add(&mut self, runs: u64, ns: u64, clock_ns: u64) {
        self.timed += 1;
        self.runs += runs;
        self.ns += runs.wrapping_mul(at_most(ns, LONGEST_RUN_NS));
        self.clock_ns += runs.wrapping_mul(at_most(clock_ns, LONGEST_RUN_NS));
    }

    /// Time of the runs without the readings of the clock: ns. Includes an estimate of what they take before the
    /// first reading.
    pub const fn programs_ns(&self) -> u64 {
        self.ns.saturating_sub(self.clock_ns) + self.clock_ns / 4 * BEGINNING_QUARTERS
    }

    /// Time that the timed runs took for reading the clock: ns.
    pub const fn timing_ns(&self) -> u64 {
        match self.runs {
            0 => 0,
            runs => (self.timed as u128 * CLOCK_READINGS as u128 * self.clock_ns as u128 / runs as u128) as u64,
        }
    }
}

#[inline(always)]
const fn at_most(value: u64, most: u64) -> u64 {
    if value < most { value } else { most }
}

/// The next state of the random numbers, to which the time of an event adds. A multiplicative generator: its
/// high bits are random enough not to follow the rhythm of a load.
#[inline(always)]
pub const fn next_random(random: u64, now_ns: u64) -> u64 {
    (random ^ now_ns).wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f)
}

/// Runs between two choices of the length of steps: 2 to this power. They are many steps: a choice by only the last step
/// would depend on what the runs do, and cheap runs at the end of a busy phase could stand for dear ones after it.
const CHOICE_BITS: u32 = 14;

/// The shortest time between two choices of a program that does not run often, which runs at most 61,035 times a second: ns.
const NOT_FREQUENT_NS: u64 = 1 << 28;

/// A long step is a short one times 2 to this power. A frequent run takes little longer than the empty program, so that
/// timing one in 64 would be a tenth of what it costs, and one in 256 are still more than 200 a second.
const LONG_SHIFT: u32 = 2;

impl ProgramRuns {
    /// Ends a timed run at `now_ns` (CLOCK_MONOTONIC): chooses the next one, [`MEAN_STEP`] runs later on average, or four times
    /// that if steps may be long and the program runs often.
    #[inline(always)]
    pub const fn end_timed(&mut self, now_ns: u64, may_be_long: bool) {
        let mut long = self.next_timed.wrapping_sub(self.last_timed) >= MIN_STEP << LONG_SHIFT;
        if self.count >> CHOICE_BITS != self.last_timed >> CHOICE_BITS {
            long = may_be_long && now_ns.wrapping_sub(self.step_chosen_at_ns) < NOT_FREQUENT_NS;
            self.step_chosen_at_ns = now_ns;
        }
        self.random = next_random(self.random, now_ns);
        self.last_timed = self.count;
        self.next_timed = self.count + step(self.random, long);
        self.timing_since_ns = 0;
    }
}

/// The number of runs until the next timed one.
#[inline(always)]
const fn step(random: u64, long: bool) -> u64 {
    let shift = if long { LONG_SHIFT } else { 0 };
    (MIN_STEP << shift) + (random >> (u64::BITS - STEP_BITS - shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a program that take these times in turn, each as long after the one before as it says: the figures
    /// and the exact sum.
    fn timed_at(turns: &[(u64, u64)], count: u64, may_be_long: bool) -> (ProgramRuns, u64) {
        let (mut runs, mut now_ns, mut exact_ns) = (ProgramRuns { random: 1, ..ProgramRuns::default() }, 1 << 40, 0);
        for turn in 0..count {
            let (ns, after_ns) = turns[(turn % turns.len() as u64) as usize];
            now_ns += after_ns;
            exact_ns += ns + 15;
            runs.count += 1;
            if runs.count >= runs.next_timed {
                runs.measured.add(runs.count - runs.last_timed, ns + 20, 20);
                runs.end_timed(now_ns, may_be_long);
            }
        }
        (runs, exact_ns)
    }

    /// Runs that take these times in turn, 20 µs after one another.
    fn timed(times_ns: &[u64], count: u64) -> RunTimeSums {
        let turns: Vec<_> = times_ns.iter().map(|ns| (*ns, 20_000)).collect();
        timed_at(&turns, count, true).0.measured
    }

    #[test]
    fn steps_are_between_their_bounds_and_have_their_mean() {
        let (mut random, mut sum, mut long_sum) = (7, 0, 0);
        for now_ns in 0..100_000 {
            random = next_random(random, now_ns);
            assert!((33..=96).contains(&step(random, false)));
            assert!((132..=387).contains(&step(random, true)));
            sum += step(random, false);
            long_sum += step(random, true);
        }
        // The mean is 64.5, and that of 100,000 uniform steps deviates by 0.06 (18.5 / 316).
        assert!((64.2..64.8).contains(&(sum as f64 / 1e5)), "{sum}");
        assert!((258.5..260.5).contains(&(long_sum as f64 / 1e5)), "{long_sum}");
        assert_eq!(MEAN_STEP, 64);
    }

    #[test]
    fn a_load_with_a_period_is_timed_in_all_of_its_phases() {
        for period in [2, 3, 4, 64, 65] {
            // All but one run of each period take nothing after their beginning, which takes 15 ns.
            let mut times_ns = vec![0; period];
            times_ns[0] = 1_000;
            let count = 1_000_000;
            let exact = count * 1_000 / period as u64 + count * 15;
            // n = 15,500 timed runs, of which a share p = 1 / period has the time: sqrt((1 - p) / (n p)) times 13/12 for
            // the steps of different lengths; five times that.
            let deviation = 5.0 * ((period as f64 - 1.0) / 15_500.0 * 13.0 / 12.0).sqrt();
            let found = timed(&times_ns, count).programs_ns() as f64 / exact as f64;
            assert!((found - 1.0).abs() < deviation, "{period}: {found}, {deviation}");
        }
    }

    /// Frequent short runs and rare long ones, in phases of all lengths. A choice by only the last step is off by a tenth.
    #[test]
    fn a_load_with_busy_phases_keeps_its_sum() {
        for (busy, rare, (ns, after_ns)) in [
            (300, 50, (300, 200_000)),
            (200, 200, (300, 200_000)),
            (200, 200, (120, 50_000)),
            (400, 100, (300, 200_000)),
            (1_000, 200, (300, 200_000)),
            (10_000, 10_000, (1_000, 50_000)),
        ] {
            let turns: Vec<_> = (0..busy).map(|_| (40, 5_000)).chain((0..rare).map(|_| (ns, after_ns))).collect();
            let (runs, exact_ns) = timed_at(&turns, 8_000_000, true);
            let found = runs.measured.programs_ns() as f64 / exact_ns as f64;
            assert!((found - 1.0).abs() < 0.02, "{busy} and {rare}: {found}");
        }
    }

    #[test]
    fn steps_are_long_above_61_000_runs_a_second_if_they_may_be() {
        let timed = |after_ns, may_be_long| timed_at(&[(40, after_ns)], 1_000_000, may_be_long).0.measured.timed;
        assert!((15_000..16_000).contains(&timed(17_000, true)), "{}", timed(17_000, true));
        assert!((3_900..4_300).contains(&timed(16_000, true)), "{}", timed(16_000, true));
        assert!((15_000..16_000).contains(&timed(16_000, false)), "{}", timed(16_000, false));
    }

    #[test]
    fn runs_of_one_length_have_exactly_their_sum() {
        let times = timed(&[100], 10_000);
        assert!(times.runs <= 10_000 && times.runs > 10_000 - 96);
        assert_eq!((times.programs_ns(), times.clock_ns), (times.runs * (100 + 15), times.runs * 20));
        assert_eq!(times.timing_ns(), times.timed * 60);
    }

    #[test]
    fn an_interrupted_run_counts_as_the_longest_one() {
        let mut times = RunTimeSums::default();
        times.add(64, 10_000_000, 10_000_000);
        assert_eq!((times.ns, times.clock_ns), (64 * LONGEST_RUN_NS, 64 * LONGEST_RUN_NS));
        assert_eq!(RunTimeSums::default().timing_ns(), 0);
    }
}
