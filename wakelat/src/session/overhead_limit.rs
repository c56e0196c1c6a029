//! `--max-overhead`: decides how many tasks to sample, how long to measure and how long to pause. Pure.
//!
//! # How it works
//!
//! A token bucket holds CPU time. It fills at `inflow`, which is below the limit, and is debited for
//! everything that measuring costs: each run of a BPF program at its price, and wakelat's own CPU time.
//! Measuring alternates between periods, in which the programs are attached, and pauses, in which they are
//! detached:
//!
//! ```text
//!  tokens
//!    ^
//!    |         *                               needed: the expected cost and a random amount
//!    |       *   *                 *
//!    |     *       *             *   *         pause:  + inflow
//!    |   *           *         *       *       period: + inflow - runs * price - wakelat's CPU time
//!    | *               *     *           *
//!    |*- - - - - - - - - * * - - - - - - - *-  reserve: the cost of detaching
//!    +---------|----------|--------|--------|-> time
//!       pause     period    pause    period
//! ```
//!
//! 1. A period begins when the bucket holds what the period and the pause after it are expected to cost.
//! 2. User space passes [`OverheadLimit::runs`] to the programs. When they have used up these runs, they stop
//!    by themselves, so that the limit holds even if user space is late. The bucket still holds the cost of
//!    detaching them.
//! 3. At the end of a period, the next one follows at once if the bucket allows it. Otherwise the programs
//!    are detached until the bucket holds the cost of the next period and the pause after it, and a random
//!    amount more.
//! 4. One task in 2^shift is sampled. If measuring has cost more per time than flows in, the shift rises at
//!    once by the binary logarithm of the excess, rounded up, to at most `MAX_SHIFT`. It falls by one after
//!    `CALM_PERIODS` cheap periods in a row.
//! 5. From time to time, the kernel accounts the programs for a short slice. This gives the price of a run,
//!    and corrects what was charged since the slice before.
//! 6. Waits of sampled tasks get a weight for what was not measured: 2^shift for the tasks and, after a
//!    pause, (pause + period) / (period - latency) for the time (`aggregate::sampled`). This is valid because
//!    neither the length of a period nor the end of a pause depends on what happens in the period.
//!
//! In any stretch of time, measuring costs at most what flows in during the stretch and what the bucket held
//! at its beginning: in 10 s, 9.42 s of the limit, and in a run of at least a second, no more than the run's
//! length. The rest of the limit is a reserve for runs that cost more between slices than in them.
//!
//! A small limit needs longer rounds, because detaching and attaching take the same CPU time whatever the
//! limit: the bucket is then larger and fills more slowly.

use wakelat_common::task_sampling::MAX_SAMPLING_SHIFT;

/// What measuring may cost in 10 s, as ns of the limit: what flows in meanwhile, and the capacity of the
/// bucket.
const WINDOW_NS: f64 = 1e10;
const IN_WINDOW_NS: f64 = 9.42e9;
/// Target length of a round (a period and the pause after it): ns. A run of some seconds has several rounds.
const ROUND_NS: f64 = 6e8;
/// Maximum target length of a round: ns. Longer rounds are used if attaching and detaching cost so much that
/// shorter ones would leave too little for measuring.
const LONGEST_ROUND_NS: f64 = 6e9;
/// The inflow of a round is at least this multiple of the cost of attaching and detaching, as long as rounds
/// can still become longer.
const OF_PAUSE: f64 = 3.0;
/// Capacity of the bucket, as a multiple of the inflow of a round.
const CAPACITY_ROUNDS: f64 = 1.8;
/// The next period may cost this many times the expectation.
const MARGIN: f64 = 1.2;
/// The limit holds over the whole run from this time on: ns. The bucket therefore starts with the part of the
/// limit that does not flow in within this time.
const FIRST_NS: f64 = 1e9;
/// Price of a run before a slice has measured it: ns, more than on any machine that is not emulated.
const FIRST_PRICE_NS: f64 = 1_000.0;

/// A slice with this many runs weighs as much as all earlier slices in the price.
const MANY_RUNS: f64 = 1_000.0;
/// Cost of calling a program that returns at once, at least: as a part of the cost of a run that measures.
const CALL: f64 = 0.25;

const FIRST_PERIOD_NS: f64 = 1e8;
const SHORTEST_PERIOD_NS: f64 = 1e7;
const LONGEST_PERIOD_NS: f64 = 1e9;
/// Detaching and attaching take about a millisecond of CPU time: shorter pauses save less than they cost.
const SHORTEST_PAUSE_NS: f64 = 5e7;

/// One task in 8. At this rate, calling the programs costs about as much as what they and the reader do for
/// the sampled tasks: with fewer tasks, much less would be measured, and little would be saved.
const MAX_SHIFT: u8 = 3;

const _: () = assert!(MAX_SHIFT <= MAX_SAMPLING_SHIFT);

/// Sampling twice as many tasks at most doubles the overhead: the inflow allows it if the overhead is at most
/// this part of the inflow.
const HEADROOM: f64 = 0.47;
/// Consecutive periods with headroom before more tasks are sampled.
const CALM_PERIODS: u32 = 3;

/// Keeps the overhead below a limit.
#[derive(Clone, Copy, Debug)]
pub struct OverheadLimit {
    /// ns of CPU time allowed per ns.
    limit: f64,
    cpus: f64,
    /// CPU time in the bucket: ns; negative if measuring cost more than the bucket held.
    tokens: f64,
    last: LimitReading,
    /// Cost of one run of a program: ns.
    price: f64,
    /// Whether a slice has measured the price.
    is_priced: bool,
    /// wakelat's own CPU time per run of a program: ns.
    price_of_tool: f64,
    /// CPU time of detaching and attaching together: ns.
    price_of_pause: f64,
    /// Runs since the last slice: the next slice corrects their price.
    unpriced: u64,
    /// Totals since the last period ended.
    round: Round,
    sampling_shift: u8,
    calm_periods: u32,
    period_ns: f64,
    /// Tokens that the bucket has to hold before the next period begins: ns of CPU time.
    needed: f64,
}

/// Totals since the start, at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitReading {
    /// Time of the reading: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Runs of programs while they measured.
    pub measured: u64,
    /// Runs of programs after they had stopped, until they were detached.
    pub stopped: u64,
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
}

/// What a period and the pause before it have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    length_ns: u64,
    runs: u64,
    tool_ns: u64,
    /// wakelat's CPU time in the pause and for ending it: ns.
    of_pause_ns: u64,
}

impl OverheadLimit {
    /// A limit of `ppm` millionths of the time of `cpus` CPUs, from `now` on. Attaching the programs took
    /// `attaching_ns` of CPU time. All tasks are sampled at first.
    pub fn new(ppm: u32, cpus: u32, attaching_ns: u64, now: LimitReading) -> Self {
        let limit = Self {
            limit: f64::from(ppm) / 1e6 * f64::from(cpus),
            cpus: f64::from(cpus),
            tokens: 0.0,
            last: now,
            price: FIRST_PRICE_NS,
            is_priced: false,
            price_of_tool: 0.0,
            price_of_pause: 2.0 * attaching_ns as f64,
            unpriced: 0,
            round: Round::default(),
            sampling_shift: 0,
            calm_periods: 0,
            period_ns: FIRST_PERIOD_NS,
            needed: 0.0,
        };
        Self { tokens: (limit.limit - limit.inflow()) * FIRST_NS, ..limit }
    }

    /// How long to pause before the first period: ns. `None` if the bucket already holds what ending a period
    /// costs.
    pub fn first_pause(&mut self) -> Option<u64> {
        if self.tokens >= 2.0 * self.reserve() {
            return None;
        }
        self.needed = (MARGIN * self.inflow() * self.round_ns()).min(self.capacity());
        Some(self.missing_ns() as u64)
    }

    /// Excludes everything up to `now` from the limit.
    pub fn skip_to(&mut self, now: LimitReading) {
        self.last = now;
    }

    /// The sampling shift: one task in 2^shift is sampled.
    pub fn sampling_shift(&self) -> u8 {
        self.sampling_shift
    }

    /// Planned length of the next period: ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns as u64
    }

    /// Number of runs that the bucket can pay for now.
    pub fn runs(&self) -> u64 {
        // Without the reserve for detaching: 0 if the bucket holds no more than that.
        ((self.tokens - self.reserve()) / (self.price + self.price_of_tool)) as u64
    }

    /// Debits what measuring has cost up to `now`.
    pub fn charge(&mut self, now: LimitReading) {
        let last = std::mem::replace(&mut self.last, now);
        let length_ns = now.at_ns.saturating_sub(last.at_ns);
        let tool_ns = now.tool_ns.saturating_sub(last.tool_ns);
        // A stopped program returns at once, but is still called: such a run is debited as if it measured.
        let runs = (now.measured - last.measured) + (now.stopped - last.stopped);
        self.tokens = (self.tokens + self.inflow() * length_ns as f64).min(self.capacity());
        self.tokens -= runs as f64 * self.price + tool_ns as f64;
        self.unpriced += runs;
        self.round.length_ns += length_ns;
        self.round.runs += runs;
        self.round.tool_ns += tool_ns;
    }

    /// Updates the price from a slice: `measured` runs, and `stopped` runs after the programs had stopped,
    /// took `programs_ns` in total. Also corrects the charge for all runs between the previous slice and the
    /// last [`Self::charge`].
    pub fn reprice(&mut self, programs_ns: u64, measured: u64, stopped: u64) {
        if measured == 0 {
            return;
        }
        // The share of the stopped runs is unknown: each cost no more than a run that measured, and no less
        // than a call.
        let (measured, stopped) = (measured as f64, stopped as f64);
        let at_least = programs_ns as f64 / (measured + stopped);
        let at_most = programs_ns as f64 / (measured + CALL * stopped);
        let shown = self.price.clamp(at_least, at_most);
        // Half of the runs since the previous slice are assumed to cost what that slice showed, and half what
        // this one shows. A few runs show little: they may be the first after attaching, or prolonged by an
        // interrupt or the hypervisor.
        let (part, weight) =
            if self.is_priced { (0.5, (measured + stopped) / (measured + stopped + MANY_RUNS)) } else { (1.0, 1.0) };
        let price = self.price + weight * (shown - self.price);
        let unpriced = part * std::mem::take(&mut self.unpriced) as f64;
        self.tokens = (self.tokens + unpriced * (self.price - price)).min(self.capacity());
        (self.price, self.is_priced) = (price, true);
    }

    /// Ends a period in which the programs measured for `measured_ns`. `has_stopped`: they stopped by
    /// themselves, before the planned end. Returns how long to pause before the next period (ns), or `None`
    /// for no pause. `random` is from 0 to 1.
    pub fn end_period(&mut self, now: LimitReading, measured_ns: u64, has_stopped: bool, random: f64) -> Option<u64> {
        self.charge(now);
        let round = std::mem::take(&mut self.round);
        let measured_ns = measured_ns.max(1) as f64;
        let programs_ns = round.runs as f64 * self.price;
        let reading_ns = (round.tool_ns - round.of_pause_ns) as f64;
        self.price_of_tool = if round.runs == 0 { 0.0 } else { (reading_ns / round.runs as f64).min(self.price) };
        let tool_share = round.tool_ns as f64 / round.length_ns.max(1) as f64;
        self.adjust_shift((programs_ns / measured_ns + tool_share) / self.cpus);
        // The length of a period is fixed before it begins, and the pause before it ends at random, so that
        // periods are a fair sample of time. The exception is a period in which the programs stopped by
        // themselves: it is shorter because it was busy, but its waits have the weight of the time measured.
        let cost_ns = programs_ns + reading_ns;
        let aim = self.inflow() * self.round_ns() - self.price_of_pause;
        let aim = aim.max(self.price_of_pause / OF_PAUSE);
        let scale = (aim / cost_ns.max(1.0)).clamp(0.1, 4.0);
        self.period_ns = (measured_ns * scale).clamp(SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS);
        let expected = MARGIN * (cost_ns * self.period_ns / measured_ns).min(aim);
        if self.tokens >= expected + self.reserve() && !has_stopped {
            return None;
        }
        let needed = expected + self.price_of_pause;
        // A random amount more: up to the capacity, and by at most about a third of the capacity.
        self.needed = needed + random * (self.capacity() - needed).max(0.0).min((CAPACITY_ROUNDS - MARGIN) * aim);
        Some(self.missing_ns().max(SHORTEST_PAUSE_NS) as u64)
    }

    /// Called when a pause is due to end. Returns how much longer it has to last (ns), if what happened in
    /// the pause has cost too much.
    pub fn end_pause(&mut self, now: LimitReading) -> Option<u64> {
        self.charge(now);
        if self.capacity() < self.price_of_pause {
            // Even attaching exceeds the limit.
            return Some(LONGEST_ROUND_NS as u64);
        }
        self.needed = self.needed.min(self.capacity());
        // What remains because of timer slack and rounding is not worth another pause.
        let missing_ns = self.missing_ns();
        (missing_ns > SHORTEST_PAUSE_NS / 10.0).then_some(missing_ns as u64)
    }

    /// Begins a period: the programs are attached again.
    pub fn begin_period(&mut self, now: LimitReading) {
        self.charge(now);
        self.round.of_pause_ns = self.round.tool_ns;
        let shown = self.round.tool_ns as f64;
        // Raised at once, lowered slowly.
        self.price_of_pause = shown.max(0.5 * (self.price_of_pause + shown));
    }

    /// Target length of a period and its pause together: ns.
    fn round_ns(&self) -> f64 {
        (OF_PAUSE * self.price_of_pause / self.limit).clamp(ROUND_NS, LONGEST_ROUND_NS)
    }

    /// ns of CPU time that flow into the bucket per ns.
    fn inflow(&self) -> f64 {
        self.limit * IN_WINDOW_NS / (WINDOW_NS + CAPACITY_ROUNDS * self.round_ns())
    }

    fn capacity(&self) -> f64 {
        CAPACITY_ROUNDS * self.round_ns() * self.inflow()
    }

    /// CPU time that detaching takes: ns.
    fn reserve(&self) -> f64 {
        self.price_of_pause / 2.0
    }

    /// How long it takes until the bucket holds `needed`: ns.
    fn missing_ns(&self) -> f64 {
        ((self.needed - self.tokens) / self.inflow()).max(0.0)
    }

    /// Samples fewer or more tasks, after measuring took `share` of the time of all CPUs.
    fn adjust_shift(&mut self, share: f64) {
        let aim = self.inflow() / self.cpus;
        if share > aim {
            // What is to be had by sampling fewer is proportional to them, at best.
            let halvings = (share / aim).log2().ceil().max(1.0) as u8;
            self.sampling_shift = self.sampling_shift.saturating_add(halvings).min(MAX_SHIFT);
            self.calm_periods = 0;
        } else {
            self.calm_periods = if share <= HEADROOM * aim { self.calm_periods + 1 } else { 0 };
            if self.calm_periods >= CALM_PERIODS && self.sampling_shift > 0 {
                self.sampling_shift -= 1;
                self.calm_periods = 0;
                // An upper bound, until a slice measures the price.
                self.price *= 2.0;
                self.price_of_tool *= 2.0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
