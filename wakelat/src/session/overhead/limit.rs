//! `--max-overhead`: decides how many tasks to sample, how long to measure and how long to pause. Pure.
//!
//! # How it works
//!
//! A token bucket holds CPU time. It fills at `inflow`, which is below the limit, and is debited for
//! everything that measuring costs: the time of the BPF programs, as they time themselves, and wakelat's own
//! CPU time. Measuring alternates between periods and pauses, in which the programs return at once:
//!
//! ```text
//!  tokens
//!    ^
//!    |         *                               needed: the expected cost and a random amount
//!    |       *   *                 *
//!    |     *       *             *   *         pause:  + inflow - stopped runs * their price
//!    |   *           *         *       *       period: + inflow - runs * price - wakelat's CPU time
//!    | *               *     *           *
//!    |*- - - - - - - - - * * - - - - - - - *-  reserve: the cost of detaching
//!    +---------|----------|--------|--------|-> time
//!       pause     period    pause    period
//! ```
//!
//! 1. A period begins when the bucket holds what the period is expected to cost.
//! 2. User space passes [`OverheadLimit::runs`] to the programs. When they have used up these runs, they stop
//!    by themselves, so that the limit holds even if user space is late.
//! 3. At the end of a period, the next one follows at once if the bucket allows it. Otherwise the programs
//!    stop until the bucket holds the cost of the next period, and a random amount more.
//! 4. The kernel also calls the programs in a pause. If these calls, and checking what they take, need most of what
//!    flows in, pauses are long ([`DETACHED_NS`]), and the programs are detached for them (the ones of `--tree` stay).
//! 5. One task in 2^shift is sampled; with the run queue's clock, and if the kernel aggregates, every task.
//!    If measuring has cost more per time than flows in, the shift rises at once by the binary logarithm of
//!    the excess, rounded up, to at most `MAX_SHIFT`. It falls by one after `CALM_PERIODS` cheap periods in
//!    a row.
//! 6. Waits of sampled tasks get a weight for what was not measured: 2^shift for the tasks and, after a
//!    pause, (pause + period) / (period - latency) for the time (`aggregate::estimate`). This is valid because
//!    neither the length of a period nor the end of a pause depends on what happens in the period.
//!
//! In any stretch of time, measuring costs at most what flows in during the stretch and what the bucket held
//! at its beginning: in 10 s, 8.5 s of the limit, and in a run of at least a second, no more than the run's
//! length. The rest of the limit is a reserve for the errors of the prices: the beginning of a run until it reads the
//! clock is an estimate, and it is slow if the processor has to fetch the program first.
//!
//! A small limit needs longer rounds, because detaching and attaching take the same CPU time whatever the
//! limit: the bucket is then larger and fills more slowly.

mod bucket;
mod check_interval;
mod round;
mod sampled_tasks;

use self::{round::Round, sampled_tasks::SampledTasks};
use super::{
    reading::{LimitReading, Pause, PauseEnd},
    recent_mean::RecentMean,
    run_price::RunPrice,
};

/// What measuring may cost in 10 s, as ns of the limit: what flows in meanwhile, and the capacity of the
/// bucket.
const WINDOW_NS: f64 = 1e10;
const IN_WINDOW_NS: f64 = 8.5e9;
/// Target length of a round (a period and the pause after it): ns. A run of some seconds has several rounds.
const ROUND_NS: f64 = 6e8;
/// The same if the programs are detached for the pause.
const DETACHED_ROUND_NS: f64 = 3e9;
/// The longest target: ns. Rounds are longer if attaching and detaching cost so much that shorter ones could not
/// cover it.
const LONGEST_ROUND_NS: f64 = 6e9;
/// The inflow of a round is at least this multiple of the cost of attaching and detaching, as long as rounds
/// can still become longer.
const OF_PAUSE: f64 = 3.0;
/// Capacity of the bucket, as a multiple of the inflow of a round.
const CAPACITY_ROUNDS: f64 = 1.8;
/// The next period may cost this many times the expectation.
const MARGIN: f64 = 1.2;
/// The limit holds over the whole run from this time on: ns. Of what it allows until then, a smaller part is used
/// than later: the programs are not in the caches yet, and what user space does at first is only seen afterwards.
const FIRST_NS: f64 = 1e9;
const IN_FIRST: f64 = 0.6;
/// Price of a run before one was timed, and of reading its record: ns each, more than on most machines that are not
/// emulated.
const FIRST_PRICE_NS: f64 = 300.0;
/// New times of this many runs count as much as all earlier ones in the price.
const MANY_RUNS: f64 = 1_000.0;
/// Price of a run after the programs have stopped, before one was timed: ns.
const FIRST_STOPPED_PRICE_NS: f64 = 10.0;
/// The weight of that price: runs.
const FIRST_STOPPED_RUNS: f64 = 5_000.0;
/// Like [`MANY_RUNS`], after the programs have stopped: this price decides whether they are detached for seconds, so it
/// follows more slowly.
const MANY_STOPPED_RUNS: f64 = 200_000.0;

const FIRST_PERIOD_NS: f64 = 1e8;
const SHORTEST_PERIOD_NS: f64 = 1e7;
const LONGEST_PERIOD_NS: f64 = 1e9;
/// What user space does for a pause takes about a millisecond of CPU time: shorter pauses save less than they
/// cost.
const SHORTEST_PAUSE_NS: f64 = 5e7;
/// The shortest pause for which programs are detached: ns. Attaching and detaching patch the kernel's code,
/// with an interrupt to every CPU.
pub const DETACHED_NS: f64 = 2e9;
/// The programs are detached for pauses if calling the stopped programs and checking what that takes need more than this
/// part of the inflow, and no longer if they need less than half of that.
const DETACH_ABOVE: f64 = 0.7;

/// Time that counts as much as all earlier time in what pauses take: ns. How often tasks switch varies much from one tenth
/// of a second to the next.
const SHARE_NS: f64 = 5e8;
/// New times of this many checks count as much as all earlier ones in the price of a check.
const MANY_CHECKS: f64 = 5.0;

/// Keeps the overhead below a limit.
#[derive(Clone, Copy, Debug)]
pub struct OverheadLimit {
    /// ns of CPU time allowed per ns.
    limit: f64,
    /// CPU time in the bucket: ns; negative if measuring cost more than the bucket held.
    tokens: f64,
    /// Whether the bucket was full before what the time up to the last reading cost was debited.
    was_full: bool,
    last: LimitReading,
    /// Time of the programs that has been debited: ns.
    debited_ns: f64,
    measured: RunPrice,
    stopped: RunPrice,
    /// wakelat's own CPU time per run of a program: ns.
    price_of_tool: f64,
    /// CPU time of wakelat for stopping the programs and letting them measure again: ns.
    price_of_stop: f64,
    /// CPU time of detaching and attaching together: ns.
    price_of_detaching: f64,
    /// What calling the stopped programs takes: ns of CPU time per ns.
    stopped_share: RecentMean,
    /// Whether the last period took at most half of what flows in.
    is_calm: bool,
    /// wakelat's CPU time for a check while the programs are stopped, with everything else that it does since the check
    /// before: ns.
    price_of_check: RecentMean,
    /// The number of checks in pauses.
    checks: usize,
    /// Whether the programs are detached for pauses.
    detaches: bool,
    /// Whether the programs are detached.
    is_detached: bool,
    /// Until when no more flows in than with long rounds: ns of CLOCK_MONOTONIC.
    slow_until_ns: u64,
    /// Totals since the last period ended.
    round: Round,
    sampling: SampledTasks,
    period_ns: f64,
    /// The last extension of the current pause: ns; 0 if there was none.
    extension_ns: f64,
    /// Tokens that the bucket has to hold before the next period begins: ns of CPU time.
    needed: f64,
}

impl OverheadLimit {
    /// A limit of `ppm` millionths of the time of `cpus` CPUs, from `now` on. Attaching the programs took
    /// `attaching_ns` of CPU time. All tasks are sampled at first.
    pub fn new(ppm: u32, cpus: u32, attaching_ns: u64, now: LimitReading) -> Self {
        let limit = Self {
            limit: f64::from(ppm) / 1e6 * f64::from(cpus),
            tokens: 0.0,
            was_full: false,
            last: now,
            debited_ns: 0.0,
            measured: RunPrice::assumed(FIRST_PRICE_NS, MANY_RUNS, MANY_RUNS),
            stopped: RunPrice::assumed(FIRST_STOPPED_PRICE_NS, FIRST_STOPPED_RUNS, MANY_STOPPED_RUNS),
            price_of_tool: FIRST_PRICE_NS,
            price_of_stop: 0.0,
            price_of_detaching: 2.0 * attaching_ns as f64,
            stopped_share: RecentMean::unknown(SHARE_NS),
            is_calm: false,
            price_of_check: RecentMean::unknown(MANY_CHECKS),
            checks: 0,
            detaches: false,
            is_detached: false,
            slow_until_ns: 0,
            round: Round::default(),
            sampling: SampledTasks::default(),
            period_ns: FIRST_PERIOD_NS,
            extension_ns: 0.0,
            needed: 0.0,
        };
        let debited_ns = limit.programs_ns(&now);
        let tokens = (limit.limit * IN_FIRST - limit.inflow()) * FIRST_NS;
        Self { tokens, debited_ns, ..limit }
    }

    /// The same limit by pauses only: all tasks are measured.
    pub fn of_all_tasks(self) -> Self {
        Self { sampling: SampledTasks::ALL, ..self }
    }

    /// How long to pause before the first period: ns. What the bucket holds at first is less than a period needs.
    pub fn first_pause(&mut self) -> u64 {
        self.needed = (MARGIN * self.inflow() * self.round_ns()).min(self.capacity());
        self.missing_ns() as u64
    }

    /// The sampling shift: one task in 2^shift is sampled.
    pub fn sampling_shift(&self) -> u8 {
        self.sampling.shift()
    }

    /// Planned length of the next period: ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns as u64
    }

    /// Whether the programs are detached.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Number of runs that the bucket can pay for now.
    pub fn runs(&self) -> u64 {
        // Without the reserve for detaching: 0 if the bucket holds no more than that.
        ((self.tokens - self.reserve()) / (self.measured.ns() + self.price_of_tool)) as u64
    }

    /// Debits what measuring has cost up to `now`.
    pub fn charge(&mut self, now: LimitReading) {
        let last = std::mem::replace(&mut self.last, now);
        let length_ns = now.at_ns.saturating_sub(last.at_ns);
        let tool_ns = now.tool_ns.saturating_sub(last.tool_ns);
        self.measured.update(&last.measured_times, &now.measured_times);
        // While the others are detached, only programs run that follow descendants.
        if !self.is_detached {
            self.stopped.update(&last.stopped_times, &now.stopped_times);
        }
        // Includes a correction for runs that were debited at the price before they had been timed.
        let programs_ns = self.programs_ns(&now);
        let debit = programs_ns - std::mem::replace(&mut self.debited_ns, programs_ns);
        let filled = self.tokens + self.inflow() * length_ns as f64;
        self.was_full = filled >= self.capacity();
        self.tokens = filled.min(self.capacity());
        self.tokens = (self.tokens - debit - tool_ns as f64).min(self.capacity());
        let (measured, stopped) = (now.measured - last.measured, now.stopped - last.stopped);
        self.round.length_ns += length_ns;
        self.round.attached_ns += if self.is_detached { 0 } else { length_ns };
        self.round.runs += measured + stopped;
        self.round.measured += measured;
        self.round.measured_ns += measured as f64 * self.measured.ns();
        self.round.tool_ns += tool_ns;
    }

    /// Ends a period in which the programs measured for `measured_ns`. `has_stopped`: they stopped by
    /// themselves, before the planned end. Returns the pause before the next period, or `None` for no pause.
    /// `random` is from 0 to 1.
    pub fn end_period(&mut self, now: LimitReading, measured_ns: u64, has_stopped: bool, random: f64) -> Option<Pause> {
        self.charge(now);
        let round = std::mem::take(&mut self.round);
        self.choose_pauses(round.runs, round.attached_ns);
        let measured_ns = measured_ns.max(1) as f64;
        let reading_ns = round.tool_ns.saturating_sub(round.of_pause_ns) as f64;
        self.price_of_tool =
            if round.measured == 0 { 0.0 } else { (reading_ns / round.measured as f64).min(self.measured.ns()) };
        let tool_share = round.tool_ns as f64 / round.length_ns.max(1) as f64;
        let share = round.measured_ns / measured_ns + tool_share;
        self.is_calm = share <= self.inflow() / 2.0;
        if self.sampling.adjust(share, self.inflow()) {
            // An upper bound, until runs at the new rate were timed.
            self.measured.double();
            self.price_of_tool *= 2.0;
        }
        // The length of a period is fixed before it begins, and the pause before it ends at random, so that
        // periods are a fair sample of time. The exception is a period in which the programs stopped by
        // themselves: it is shorter because it was busy, but its waits have the weight of the time measured.
        let cost_ns = round.measured_ns + reading_ns;
        let aim = self.net_inflow() * self.round_ns() - self.price_of_pause();
        let aim = aim.max(self.price_of_pause() / OF_PAUSE);
        let scale = (aim / cost_ns.max(1.0)).clamp(0.1, 4.0);
        self.period_ns = (measured_ns * scale).clamp(SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS);
        let expected = MARGIN * (cost_ns * self.period_ns / measured_ns).min(aim);
        if self.tokens >= expected + self.reserve() && !has_stopped {
            return None;
        }
        let needed = expected + self.reserve() + self.price_of_pause();
        // A random amount more: up to the capacity, and by at most about a third of the capacity.
        self.needed = needed + random * (self.capacity() - needed).max(0.0).min((CAPACITY_ROUNDS - MARGIN) * aim);
        self.needed = self.needed.min(self.capacity());
        self.is_detached = self.detaches;
        let shortest = if self.detaches { DETACHED_NS } else { SHORTEST_PAUSE_NS };
        Some(Pause { length_ns: self.missing_ns().max(shortest) as u64, detach: self.detaches })
    }

    /// Called during a pause, which is planned to last `remaining_ns` more.
    pub fn end_pause(&mut self, now: LimitReading, remaining_ns: u64) -> PauseEnd {
        let before = self.last;
        self.charge(now);
        let length_ns = now.at_ns.saturating_sub(before.at_ns);
        self.checks += 1;
        // Until the first check of a run, wakelat also does other things than to check.
        if self.checks > 1 && !self.is_detached {
            self.price_of_check.add(now.tool_ns.saturating_sub(before.tool_ns) as f64, 1.0);
        }
        if self.is_detached {
            if self.capacity() < self.price_of_detaching {
                // Even attaching exceeds the limit.
                return PauseEnd::Longer(LONGEST_ROUND_NS as u64);
            }
        } else {
            self.choose_pauses(now.stopped - before.stopped, length_ns);
            if self.detaches {
                self.is_detached = true;
                return PauseEnd::Detach(self.missing_ns().max(DETACHED_NS) as u64);
            }
        }
        if remaining_ns > 0 {
            return PauseEnd::Longer(remaining_ns);
        }
        self.needed = self.needed.min(self.capacity());
        // What remains because of timer slack and rounding is not worth another pause.
        let missing_ns = self.missing_ns();
        if missing_ns <= SHORTEST_PAUSE_NS / 10.0 {
            return PauseEnd::Resume;
        }
        if self.was_full {
            // Waiting brings nothing: what each check costs would be missing for ever.
            if self.tokens > self.reserve() + self.price_of_pause() {
                return PauseEnd::Resume;
            }
            self.price_of_stop /= 2.0;
        }
        // Waking up costs as much each time, so pauses that are ever as short could cost what flows in meanwhile.
        self.extension_ns = (2.0 * self.extension_ns).max(SHORTEST_PAUSE_NS);
        PauseEnd::Longer(missing_ns.max(self.extension_ns) as u64)
    }

    /// The programs have been stopped or detached for a pause, since the last reading.
    pub fn has_stopped(&mut self, now: LimitReading) {
        let before_ns = self.round.tool_ns;
        self.charge(now);
        self.round.stopping_ns += self.round.tool_ns - before_ns;
    }

    /// Begins a period: the programs measure again.
    pub fn begin_period(&mut self, now: LimitReading) {
        self.has_stopped(now);
        self.extension_ns = 0.0;
        self.round.of_pause_ns = self.round.tool_ns;
        let shown = self.round.stopping_ns as f64;
        let detached = std::mem::take(&mut self.is_detached);
        let price = if detached { &mut self.price_of_detaching } else { &mut self.price_of_stop };
        // Raised fast and lowered slowly, but no more than doubled by one, which may have been unusual.
        let shown = if *price > 0.0 { shown.min(2.0 * *price) } else { shown };
        *price = shown.max(0.5 * (*price + shown));
    }

    /// Time of the programs since the start: ns.
    fn programs_ns(&self, reading: &LimitReading) -> f64 {
        self.measured.total_ns(reading.measured, &reading.measured_times)
            + self.stopped.total_ns(reading.stopped, &reading.stopped_times)
    }

    /// Decides whether the programs are detached for pauses, after `runs` runs in `attached_ns`.
    fn choose_pauses(&mut self, runs: u64, attached_ns: u64) {
        if attached_ns == 0 {
            return;
        }
        let share = runs as f64 / attached_ns as f64 * self.stopped.ns();
        self.stopped_share.add(share, attached_ns as f64);
        let above = DETACH_ABOVE * self.inflow_of(self.short_round_ns()) * if self.detaches { 0.5 } else { 1.0 };
        let detaches = self.stopped_share.value() + self.checks_share() > above;
        if self.detaches && !detaches {
            // The bucket of short rounds is smaller, but fills faster. Together with what the larger one held, that
            // would be too much within one window.
            self.slow_until_ns = self.last.at_ns + WINDOW_NS as u64;
        }
        self.detaches = detaches;
    }
}

#[cfg(test)]
mod tests;
