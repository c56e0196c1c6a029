//! The windows of a run: their groups, and their account from what the kernel had counted before and after.

use wakelat_common::{Class, Classes, filter::part, histogram::Histogram, start::PendingWait};

use super::{clock::unix_offset_ns, meter::OverheadCost};
use crate::{
    aggregate::{
        Groups,
        coverage::{CoverageSnapshot, terms},
        distribution::Maximum,
        key::{Key, Names},
        sampled::{Period, SamplingState},
    },
    collect::CounterTotals,
    config::Config,
    decode,
    report::{Coverage, LatencyFrom, Mode, Overhead, ProgramTime, Report, Sampling, Threshold},
    timeline,
    wait::{Comm, Wait},
};

/// The window under way, and what came before it.
pub struct Windows {
    kernel: String,
    from: LatencyFrom,
    mode: Mode,
    limit_ppm: Option<u32>,
    classes: Classes,
    cpus: u32,
    threshold_ns: Option<u64>,
    /// Events between waits are told, too.
    with_events: bool,
    groups: Groups,
    /// When the period under way began: ns of CLOCK_MONOTONIC.
    period_began_at_ns: u64,
    /// There is no filter but the one that excludes wakelat's own threads.
    filters_only_itself: bool,
    /// Groups have what waits spent in parts, and not their latency.
    by_component: bool,
    over: u64,
    /// Samples taken from the ring buffer since the start, warm-up included.
    wakeups_received: u64,
    preemptions_received: u64,
    /// Waits that were going on when a rest began, since the start.
    wakeups_paused: u64,
    preemptions_paused: u64,
    before: Before,
    /// Intervals of this window that have no report.
    skipped_intervals: u64,
    /// Waits or events of this window that were not written.
    not_written: u64,
    warming_up: bool,
}

/// What the kernel has counted, and what measuring has taken, since the start.
#[derive(Clone, Copy, Default)]
pub struct WindowReading {
    /// When the window ends: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long the reader has waited for a CPU: ns; none where the kernel does not count it.
    pub reader_waited_ns: Option<u64>,
    /// How long the window was to be: ns; none where that was left open.
    pub requested_ns: Option<u64>,
    /// The counters of the programs.
    pub totals: CounterTotals,
    /// Events for which the kernel skipped a program; none where it does not count them.
    pub missed: Option<u64>,
    /// What measuring has taken.
    pub cost: OverheadCost,
    /// One task of how many was watched in this window, at least and at most; none where all are.
    pub sampled_one_in: Option<(u32, u32)>,
}

/// How things stood when the window began.
#[derive(Clone, Copy, Default)]
struct Before {
    at_ns: u64,
    unix_offset_ns: i64,
    wakeups: CoverageSnapshot,
    preemptions: CoverageSnapshot,
    missed: Option<u64>,
    cost: OverheadCost,
    events_lost: u64,
    reader_waited_ns: Option<u64>,
}

impl Windows {
    /// The first window begins with `reading`, unless there is a warm-up. There are `cpus`.
    pub fn new(config: &Config, kernel: &str, cpus: u32, reading: &WindowReading, with_events: bool) -> Self {
        let mut groups = Groups::new(config.by.clone(), config.merged, config.max_groups);
        if config.max_overhead_ppm.is_some() {
            groups.begin_period(Period::FIRST);
        }
        Self {
            kernel: kernel.to_owned(),
            from: config.from,
            mode: config.mode,
            limit_ppm: config.max_overhead_ppm,
            classes: config.classes,
            cpus,
            threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
            with_events,
            groups,
            period_began_at_ns: reading.at_ns,
            filters_only_itself: config.filter.parts == part::OTHERS,
            by_component: config.by.contains(&Key::Component),
            over: 0,
            wakeups_received: 0,
            preemptions_received: 0,
            wakeups_paused: 0,
            preemptions_paused: 0,
            before: Before {
                at_ns: reading.at_ns,
                unix_offset_ns: unix_offset_ns(),
                cost: reading.cost,
                reader_waited_ns: reading.reader_waited_ns,
                ..Before::default()
            },
            skipped_intervals: 0,
            not_written: 0,
            warming_up: config.window.warm_up_ns > 0,
        }
    }

    /// Adds a wait. Returns false where it belongs to the warm-up.
    pub fn record(&mut self, wait: &Wait) -> bool {
        match wait.class {
            Class::Wakeup | Class::New => self.wakeups_received += 1,
            Class::Preempted => self.preemptions_received += 1,
        }
        if !self.warming_up && !self.by_component {
            self.groups.record(wait);
        }
        !self.warming_up
    }

    /// Adds what a wait that was recorded spent in each part.
    pub fn record_breakdown(&mut self, account: &timeline::Breakdown) {
        self.groups.record_breakdown(account);
    }

    /// Adds what one CPU has counted of one class.
    pub fn record_counted(&mut self, class: Class, histogram: &Histogram) {
        match class {
            Class::Wakeup | Class::New => self.wakeups_received += histogram.count,
            Class::Preempted => self.preemptions_received += histogram.count,
        }
        if self.warming_up {
            return;
        }
        let worst = histogram.worst().iter().flat_map(decode::wait);
        self.groups.add_counted(class, histogram, worst);
        // Below the threshold nothing is counted.
        if self.threshold_ns.is_some() {
            self.over += histogram.count;
        }
    }

    /// Waits that come from now on are of `period`, which begins at `at_ns`.
    pub fn begin_period(&mut self, period: Period, at_ns: u64) {
        self.period_began_at_ns = at_ns;
        self.groups.begin_period(period);
    }

    /// The period under way ended at `at_ns`.
    pub fn end_period(&mut self, at_ns: u64) {
        self.groups.end_period(at_ns.saturating_sub(self.period_began_at_ns));
    }

    /// These were going on when a rest began: nobody will see their ends.
    pub fn count_paused(&mut self, waiting: &[PendingWait]) {
        let preemptions = waiting.iter().filter(|start| is_preemption(start)).count() as u64;
        self.preemptions_paused += preemptions;
        self.wakeups_paused += waiting.len() as u64 - preemptions;
    }

    /// One of the waits has reached the threshold.
    pub fn count_over(&mut self) {
        self.over += 1;
    }

    /// Samples taken so far, warm-up included.
    pub fn received(&self) -> u64 {
        self.wakeups_received + self.preemptions_received
    }

    /// What to add to CLOCK_MONOTONIC to have ns since 1970-01-01 UTC.
    pub fn unix_offset_ns(&self) -> i64 {
        self.before.unix_offset_ns
    }

    /// Intervals ended, and are part of the window under way.
    pub fn skip(&mut self, intervals: u64) {
        self.skipped_intervals += intervals;
    }

    /// A wait or an event was not written.
    pub fn count_unwritten(&mut self) {
        self.not_written += 1;
    }

    /// A new window begins with this reading.
    pub fn begin(&mut self, reading: &WindowReading) {
        let (wakeups, preemptions) = self.snapshots(&reading.totals);
        let WindowReading { at_ns, missed, cost: spent, reader_waited_ns, .. } = *reading;
        let (events_lost, unix_offset_ns) = (reading.totals.events_lost, unix_offset_ns());
        self.before =
            Before { at_ns, unix_offset_ns, wakeups, preemptions, missed, cost: spent, events_lost, reader_waited_ns };
        self.groups.clear();
        self.period_began_at_ns = at_ns;
        (self.skipped_intervals, self.not_written) = (0, 0);
        self.over = 0;
        self.warming_up = false;
    }

    /// The window so far, while the programs run.
    pub fn interval_report(&mut self, reading: &WindowReading, names: &dyn Names) -> Report {
        self.report(reading, None, names)
    }

    /// The window at its end: the programs are detached, the ring buffer is empty, `waiting` is all that still waits.
    pub fn final_report(&mut self, reading: &WindowReading, waiting: &[PendingWait], names: &dyn Names) -> Report {
        self.report(reading, Some(waiting), names)
    }

    /// What this window took, where it has taken `spent` by now.
    fn overhead(&self, spent: &OverheadCost) -> Overhead {
        let before = &self.before.cost;
        Overhead {
            cpus: self.cpus,
            tool_ns: spent.tool_ns - before.tool_ns,
            programs: spent.programs_ns.map(|ns| ProgramTime {
                ns: ns - before.programs_ns.unwrap_or(0),
                switches: spent.switches - before.switches,
                accounted_ns: spent.accounted_ns - before.accounted_ns,
            }),
        }
    }

    fn snapshots(&self, totals: &CounterTotals) -> (CoverageSnapshot, CoverageSnapshot) {
        (
            CoverageSnapshot { counters: totals.wakeups, received: self.wakeups_received, paused: self.wakeups_paused },
            CoverageSnapshot {
                counters: totals.preemptions,
                received: self.preemptions_received,
                paused: self.preemptions_paused,
            },
        )
    }

    fn report(&mut self, reading: &WindowReading, waiting: Option<&[PendingWait]>, names: &dyn Names) -> Report {
        let duration_ns = reading.at_ns.saturating_sub(self.before.at_ns);
        let (wakeups, preemptions) = self.snapshots(&reading.totals);
        let of = |preempted: bool| {
            waiting.map(|waiting| waiting.iter().filter(|start| is_preemption(start) == preempted).count() as u64)
        };
        let ended_at_ns = reading.at_ns;
        let oldest_censored = waiting.into_iter().flatten().min_by_key(|start| start.at_ns).map(|start| Maximum {
            latency_ns: ended_at_ns.saturating_sub(start.at_ns),
            at_ns: ended_at_ns,
            tid: start.pid,
            comm: names.comm(start.pid).unwrap_or(Comm::new(b"(gone)")),
            cpu: start.prev_cpu,
        });
        let rested_ns = reading.cost.paused_ns - self.before.cost.paused_ns;
        let drawn = reading
            .sampled_one_in
            .map(|(_, most)| SamplingState { max_shift: most.trailing_zeros() as u8, with_pauses: rested_ns > 0 });
        if drawn.is_some() {
            self.groups.measured(ended_at_ns.saturating_sub(self.period_began_at_ns));
        }
        Report {
            kernel: self.kernel.clone(),
            start_unix_ns: u64::try_from(i128::from(self.before.at_ns) + i128::from(self.before.unix_offset_ns))
                .unwrap_or(0),
            duration_ns,
            requested_ns: reading.requested_ns,
            skipped_intervals: self.skipped_intervals,
            reader_waited_ns: reading
                .reader_waited_ns
                .map(|waited_ns| waited_ns.saturating_sub(self.before.reader_waited_ns.unwrap_or(0))),
            not_written: self.not_written,
            unix_offset_ns: self.before.unix_offset_ns,
            from: self.from,
            mode: self.mode,
            groups: self.groups.report(names, drawn),
            coverage: Coverage {
                wakeups: terms(&self.before.wakeups, &wakeups, of(false)),
                preemptions: self
                    .classes
                    .contains(Class::Preempted)
                    .then(|| terms(&self.before.preemptions, &preemptions, of(true))),
                missed: reading.missed.map(|missed| missed - self.before.missed.unwrap_or(0)),
                events_lost: self.with_events.then(|| reading.totals.events_lost - self.before.events_lost),
                oldest_waiting: oldest_censored,
                groups_merged: self.groups.merged(),
                filtered_is_own: self.filters_only_itself,
            },
            threshold: self.threshold_ns.map(|threshold_ns| Threshold { threshold_ns, over: self.over }),
            overhead: Some(self.overhead(&reading.cost)),
            sampling: self.limit_ppm.zip(reading.sampled_one_in).map(|(limit_ppm, (one_in_least, one_in_most))| {
                let measured_ns = duration_ns.saturating_sub(rested_ns);
                Sampling { limit_ppm, one_in_least, one_in_most, measured_ns }
            }),
        }
    }
}

fn is_preemption(start: &PendingWait) -> bool {
    start.class == Class::Preempted as u8
}
