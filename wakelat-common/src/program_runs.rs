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
    /// When the last timed run ended: ns of CLOCK_MONOTONIC; 0 before the first.
    pub last_timed_at_ns: u64,
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

/// Whether a program runs often that has run `runs` times in `ns`: more than 61,035 times a second.
#[inline(always)]
pub const fn is_frequent(runs: u64, ns: u64) -> bool {
    ns < runs << 14
}

/// The number of runs until the next timed one: [`MEAN_STEP`] on average, or, if it may be `long`, four times that. A
/// frequent run takes little longer than the empty program, so that timing one in 64 would be a tenth of what it costs,
/// and one in 256 are still more than 200 a second.
#[inline(always)]
pub const fn step(random: u64, long: bool) -> u64 {
    let shift = if long { 2 } else { 0 };
    (MIN_STEP << shift) + (random >> (u64::BITS - STEP_BITS - shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a program that take these times in turn.
    fn timed(times_ns: &[u64], count: u64) -> RunTimeSums {
        timed_with(times_ns, count, |_| false)
    }

    /// The same, with long steps where `long` says so of the last run before them.
    fn timed_with(times_ns: &[u64], count: u64, long: impl Fn(u64) -> bool) -> RunTimeSums {
        let (mut times, mut random, mut next, mut last) = (RunTimeSums::default(), 1, 0, 0);
        for run in 1..=count {
            if run >= next {
                times.add(run - last, times_ns[(run % times_ns.len() as u64) as usize] + 20, 20);
                random = next_random(random, run * 1_000);
                (last, next) = (run, run + step(random, long(run)));
            }
        }
        times
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

    /// A load that alternates between frequent short runs and rare long ones: steps depend on the runs before them.
    #[test]
    fn steps_that_depend_on_the_load_keep_the_sum() {
        let times_ns: Vec<u64> = (0..20_000).map(|run| if run < 10_000 { 100 } else { 1_000 }).collect();
        let times = timed_with(&times_ns, 4_000_000, |run| run % 20_000 < 10_000);
        // Each of the 400 changes is off by half a long step at most, of 20,000 runs.
        let found = times.programs_ns() as f64 / (4e6 * (550.0 + 15.0));
        assert!((found - 1.0).abs() < 0.01, "{found}");
        assert!((25_000..45_000).contains(&times.timed), "{}", times.timed);
    }

    #[test]
    fn runs_are_frequent_above_61_000_a_second() {
        assert!(is_frequent(64, 64 * 16_383) && !is_frequent(64, 64 * 16_384));
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
