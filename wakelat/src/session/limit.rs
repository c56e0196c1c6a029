//! `--max-overhead`: how many tasks to sample, how long to measure, and how long to pause. Pure.
//!
//! A token bucket of CPU time. It fills at a part of the limit and is debited for all that measuring takes: each run of a
//! program at the price that the last slice of the account has shown, and wakelat's own CPU time. A period begins when the bucket holds
//! what the period and the pause after it are expected to take. Where the period takes more, the programs stop by themselves
//! ([`OverheadLimit::runs`]), however late user space is, and what it takes to detach them is still in the bucket. So what measuring takes in
//! a stretch of time is at most what flows in meanwhile and what the bucket held when it began: in 10 s, 9.42 s of the limit, and in
//! a run of at least a second, no more than its length. The rest of the limit is for what a run costs more between slices than in them.
//!
//! A small limit takes longer rounds, as detaching and attaching takes the same CPU time whatever the limit: the bucket is larger then,
//! and fills the slower.

use wakelat_common::share::MAX_SAMPLING_SHIFT;

/// What may be taken in 10 s, in ns of the limit: what flows in meanwhile, and what the bucket holds at most.
const WINDOW_NS: f64 = 1e10;
const IN_WINDOW_NS: f64 = 9.42e9;
/// A period and the pause after it are about as long as this together: ns. So a run of some seconds has several.
const ROUND_NS: f64 = 6e8;
/// The same where attaching and detaching takes so much that shorter rounds would leave too little for measuring: at most.
const LONGEST_ROUND_NS: f64 = 6e9;
/// What flows in in a round is so many times what attaching and detaching takes, at least, while rounds may be longer.
const OF_PAUSE: f64 = 3.0;
/// What the bucket holds, in what flows in during a round.
const CAPACITY_ROUNDS: f64 = 1.8;
/// What is expected of the next period may be too little by so much.
const MARGIN: f64 = 1.2;
/// From then on the limit holds over the run: ns. So the bucket holds at first what does not flow in until then.
const FIRST_NS: f64 = 1e9;
/// What a run may take before a slice has shown it: ns, more than on any machine that is not emulated.
const FIRST_PRICE_NS: f64 = 1_000.0;

/// So many runs show as much of the price as is known from earlier slices.
const MANY_RUNS: f64 = 1_000.0;
/// What the call of a program takes that returns at once, as a part of what a run takes that measures: at least.
const CALL: f64 = 0.25;

const FIRST_PERIOD_NS: f64 = 1e8;
const SHORTEST_PERIOD_NS: f64 = 1e7;
const LONGEST_PERIOD_NS: f64 = 1e9;
/// To detach and attach takes about a millisecond of CPU time: shorter pauses save less than they cost.
const SHORTEST_PAUSE_NS: f64 = 5e7;

/// One task in 8. To call the programs takes about as long then as what they and the reader do for these: with fewer, much less
/// would be measured, and little less taken.
const MAX_SHIFT: u8 = 3;

const _: () = assert!(MAX_SHIFT <= MAX_SAMPLING_SHIFT);

/// Sampling twice as many tasks at most doubles the overhead: up to this part of what flows in there is enough for it.
const HEADROOM: f64 = 0.47;
/// Periods in a row that leave room before more tasks are sampled.
const CALM_PERIODS: u32 = 3;

/// Keeps the overhead below a limit.
#[derive(Clone, Copy, Debug)]
pub struct OverheadLimit {
    /// ns of CPU time that may be taken in a ns.
    limit: f64,
    cpus: f64,
    /// ns of CPU time in the bucket; less than 0 where more was taken than it held.
    tokens: f64,
    last: LimitReading,
    /// ns that a run of a program takes.
    price: f64,
    /// Whether a slice has shown it.
    is_priced: bool,
    /// ns of wakelat's own CPU time that come with it.
    price_of_tool: f64,
    /// ns of CPU time that detaching and attaching take together.
    price_of_pause: f64,
    /// Runs since the last slice: they get the price that the next one shows.
    unpriced: u64,
    /// Since the last period ended.
    round: Round,
    sampling_shift: u8,
    calm_periods: u32,
    period_ns: f64,
    /// What the bucket has to hold before the next period begins.
    needed: f64,
}

/// What was counted up to one instant since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitReading {
    /// ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Runs of programs that measured.
    pub measured: u64,
    /// Runs after the programs had stopped, until they were detached.
    pub stopped: u64,
    /// wakelat's own CPU time: ns.
    pub tool_ns: u64,
}

/// What a period, and the pause before it, have taken.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    length_ns: u64,
    runs: u64,
    tool_ns: u64,
    /// In the pause, and to end it.
    of_pause_ns: u64,
}

impl OverheadLimit {
    /// A limit of `ppm` millionths of the time of `cpus`, from `now` on, where to attach the programs took `attaching_ns` of CPU time. To begin
    /// with, every task is sampled.
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

    /// How long to pause before the first period, where the bucket does not hold what it takes to end one: ns.
    pub fn first_pause(&mut self) -> Option<u64> {
        if self.tokens >= 2.0 * self.reserve() {
            return None;
        }
        self.needed = (MARGIN * self.inflow() * self.round_ns()).min(self.capacity());
        Some(self.missing_ns() as u64)
    }

    /// What was taken up to `now` does not count.
    pub fn skip_to(&mut self, now: LimitReading) {
        self.last = now;
    }

    /// One task in 2 to the power of this is sampled.
    pub fn sampling_shift(&self) -> u8 {
        self.sampling_shift
    }

    /// How long the next period is to be: ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns as u64
    }

    /// How many runs the bucket holds now.
    pub fn runs(&self) -> u64 {
        // Without what it takes to detach: none where that is all.
        ((self.tokens - self.reserve()) / (self.price + self.price_of_tool)) as u64
    }

    /// Debits what was taken up to `now`.
    pub fn charge(&mut self, now: LimitReading) {
        let last = std::mem::replace(&mut self.last, now);
        let length_ns = now.at_ns.saturating_sub(last.at_ns);
        let tool_ns = now.tool_ns.saturating_sub(last.tool_ns);
        // A program that has stopped returns at once, and is still called: it is debited as if it measured.
        let runs = (now.measured - last.measured) + (now.stopped - last.stopped);
        self.tokens = (self.tokens + self.inflow() * length_ns as f64).min(self.capacity());
        self.tokens -= runs as f64 * self.price + tool_ns as f64;
        self.unpriced += runs;
        self.round.length_ns += length_ns;
        self.round.runs += runs;
        self.round.tool_ns += tool_ns;
    }

    /// A slice of the account has shown that `measured` runs, and `stopped` ones after the programs had stopped, took `programs_ns`.
    /// Corrects what the runs since the slice before were charged, up to the last [`Self::charge`].
    pub fn reprice(&mut self, programs_ns: u64, measured: u64, stopped: u64) {
        if measured == 0 {
            return;
        }
        // Which part the stopped ones took is not known: no more than the others, and no less than a call.
        let (measured, stopped) = (measured as f64, stopped as f64);
        let at_least = programs_ns as f64 / (measured + stopped);
        let at_most = programs_ns as f64 / (measured + CALL * stopped);
        let shown = self.price.clamp(at_least, at_most);
        // Of the runs since the slice before, half are taken to be like that one, and half like this one. A few runs show
        // little: the first after the programs are attached, or ones that an interrupt or the hypervisor made long.
        let (part, weight) =
            if self.is_priced { (0.5, (measured + stopped) / (measured + stopped + MANY_RUNS)) } else { (1.0, 1.0) };
        let price = self.price + weight * (shown - self.price);
        let unpriced = part * std::mem::take(&mut self.unpriced) as f64;
        self.tokens = (self.tokens + unpriced * (self.price - price)).min(self.capacity());
        (self.price, self.is_priced) = (price, true);
    }

    /// A period has ended in which the programs measured for `measured_ns`; `has_stopped`: by themselves, before its planned end.
    /// Returns how long to pause before the next, if at all: ns. `random` is from 0 to 1.
    pub fn end_period(&mut self, now: LimitReading, measured_ns: u64, has_stopped: bool, random: f64) -> Option<u64> {
        self.charge(now);
        let round = std::mem::take(&mut self.round);
        let measured_ns = measured_ns.max(1) as f64;
        let programs_ns = round.runs as f64 * self.price;
        let reading_ns = (round.tool_ns - round.of_pause_ns) as f64;
        self.price_of_tool = if round.runs == 0 { 0.0 } else { (reading_ns / round.runs as f64).min(self.price) };
        let of_tool = round.tool_ns as f64 / round.length_ns.max(1) as f64;
        self.adjust_shift((programs_ns / measured_ns + of_tool) / self.cpus);
        // Neither what a period takes nor what it is to take depends on what happens in it, so that periods are a fair sample
        // of the time: its length is known beforehand, and the pause before it ends at random.
        let taken = programs_ns + reading_ns;
        let aim = self.inflow() * self.round_ns() - self.price_of_pause;
        let aim = aim.max(self.price_of_pause / OF_PAUSE);
        let longer = (aim / taken.max(1.0)).clamp(0.1, 4.0);
        self.period_ns = (measured_ns * longer).clamp(SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS);
        let expected = MARGIN * (taken * self.period_ns / measured_ns).min(aim);
        if self.tokens >= expected + self.reserve() && !has_stopped {
            return None;
        }
        let needed = expected + self.price_of_pause;
        // At random up to the capacity, or where that is too little, to as much more as a third of it.
        self.needed = needed + random * (self.capacity() - needed).max(0.0).min((CAPACITY_ROUNDS - MARGIN) * aim);
        Some(self.missing_ns().max(SHORTEST_PAUSE_NS) as u64)
    }

    /// A pause was to end now. Returns for how long it has to go on, where what came with it has taken too much: ns.
    pub fn end_pause(&mut self, now: LimitReading) -> Option<u64> {
        self.charge(now);
        if self.capacity() < self.price_of_pause {
            // Not even to attach is within the limit.
            return Some(LONGEST_ROUND_NS as u64);
        }
        self.needed = self.needed.min(self.capacity());
        // What the timer and rounding leave is not worth another pause.
        let missing_ns = self.missing_ns();
        (missing_ns > SHORTEST_PAUSE_NS / 10.0).then_some(missing_ns as u64)
    }

    /// The programs are attached again: a period begins.
    pub fn begin_period(&mut self, now: LimitReading) {
        self.charge(now);
        self.round.of_pause_ns = self.round.tool_ns;
        let shown = self.round.tool_ns as f64;
        // At once where it is more, and slowly where it is less.
        self.price_of_pause = shown.max(0.5 * (self.price_of_pause + shown));
    }

    /// How long a period and its pause are to be together: ns.
    fn round_ns(&self) -> f64 {
        (OF_PAUSE * self.price_of_pause / self.limit).clamp(ROUND_NS, LONGEST_ROUND_NS)
    }

    /// ns of CPU time that flow in in a ns.
    fn inflow(&self) -> f64 {
        self.limit * IN_WINDOW_NS / (WINDOW_NS + CAPACITY_ROUNDS * self.round_ns())
    }

    fn capacity(&self) -> f64 {
        CAPACITY_ROUNDS * self.round_ns() * self.inflow()
    }

    /// What it takes to detach: ns.
    fn reserve(&self) -> f64 {
        self.price_of_pause / 2.0
    }

    /// How long it takes until the bucket holds what is needed: ns.
    fn missing_ns(&self) -> f64 {
        ((self.needed - self.tokens) / self.inflow()).max(0.0)
    }

    /// Samples fewer tasks, or more, where measuring took `share` of the time of all CPUs.
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
                // Until a slice shows it.
                self.price *= 2.0;
                self.price_of_tool *= 2.0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
