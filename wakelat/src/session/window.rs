//! The windows of a run: their groups, and their coverage from the kernel's counters at their beginning and
//! end.

use wakelat_common::{
    Class, Classes, filter::part, group::GroupElement, histogram::Histogram, pending_wait::PendingWait,
};

use super::{clock, overhead::price::OverheadCost};
use crate::{collect::CounterTotals, config::Config};
use wakelat_core::{
    aggregate::{
        Groups,
        coverage::{CoverageSnapshot, terms},
        distribution::Maximum,
        estimate::{Period, SamplingState},
        key::{Key, Names},
    },
    decode,
    files::Files,
    report::{
        Coverage, CoverageTerms, LatencyFrom, Mode, Overhead, ProgramTime, Report, Sampling, SwitchInTerms, Threshold,
    },
    timeline,
    wait::{Comm, Wait},
};

/// The current window, and the readings at its beginning.
pub struct Windows {
    kernel: String,
    from: LatencyFrom,
    mode: Mode,
    limit_ppm: Option<u32>,
    classes: Classes,
    cpus: u32,
    threshold_ns: Option<u64>,
    /// Events between waits are recorded, too.
    with_events: bool,
    groups: Groups,
    /// When the current period began: ns of CLOCK_MONOTONIC.
    period_began_at_ns: u64,
    /// The only filter is the one that excludes wakelat's own threads.
    filters_only_itself: bool,
    /// Groups hold the components of waits instead of their latency.
    by_component: bool,
    /// Single waits are added to the groups.
    has_groups: bool,
    over: u64,
    /// Waits received from the kernel since the start, warm-up included.
    wakeups_received: u64,
    preemptions_received: u64,
    /// Waits that were pending when a pause began, since the start.
    wakeups_paused: u64,
    preemptions_paused: u64,
    before: Before,
    /// Intervals of this window that ended without a report.
    skipped_intervals: u64,
    /// Waits or events of this window that were not written.
    not_written: u64,
    warming_up: bool,
}

/// Totals since the start: the kernel's counters and the cost of measuring.
#[derive(Clone, Copy, Default)]
pub struct WindowReading {
    /// When the window ends: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long the reader has waited for a CPU: ns; `None` if the kernel does not count it.
    pub reader_waited_ns: Option<u64>,
    /// Requested length of the window: ns; `None` if not specified.
    pub requested_ns: Option<u64>,
    /// The counters of the programs.
    pub totals: CounterTotals,
    /// Events for which the kernel skipped a program; `None` if it does not count them.
    pub missed: Option<u64>,
    /// Cost of measuring.
    pub cost: OverheadCost,
    /// The lowest and the highest N in this window, if one task in N was sampled; `None` without a limit.
    pub sampled_one_in: Option<(u32, u32)>,
}

/// The readings at the beginning of the window.
#[derive(Clone, Copy, Default)]
struct Before {
    at_ns: u64,
    unix_offset_ns: i64,
    wakeups: CoverageSnapshot,
    preemptions: CoverageSnapshot,
    switch_ins: Option<SwitchInTerms>,
    missed: Option<u64>,
    cost: OverheadCost,
    events_lost: u64,
    reader_waited_ns: Option<u64>,
}

impl Windows {
    /// Begins the first window at `reading`, unless there is a warm-up, on a machine with `cpus` CPUs.
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
            has_groups: true,
            over: 0,
            wakeups_received: 0,
            preemptions_received: 0,
            wakeups_paused: 0,
            preemptions_paused: 0,
            before: Before {
                at_ns: reading.at_ns,
                unix_offset_ns: clock::unix_offset_ns(),
                cost: reading.cost,
                reader_waited_ns: reading.reader_waited_ns,
                missed: reading.missed,
                ..Before::default()
            },
            skipped_intervals: 0,
            not_written: 0,
            warming_up: config.window.warm_up_ns > 0,
        }
    }

    /// Without `has_groups`, single waits are counted only.
    #[must_use]
    pub fn with_groups(self, has_groups: bool) -> Self {
        Self { has_groups, ..self }
    }

    /// Adds a wait. Returns false if it belongs to the warm-up.
    pub fn record(&mut self, wait: &Wait) -> bool {
        self.count_received(wait.class);
        if !self.warming_up && !self.by_component && self.has_groups {
            self.groups.record(wait);
        }
        !self.warming_up
    }

    /// Counts a wait that the kernel has sent.
    #[inline]
    pub fn count_received(&mut self, class: Class) {
        match class {
            Class::Wakeup | Class::New => self.wakeups_received += 1,
            Class::Preempted => self.preemptions_received += 1,
        }
    }

    /// Whether [`Self::record`] would do no more than [`Self::count_received`], and every wait is in the report.
    pub fn only_counts_waits(&self) -> bool {
        !self.warming_up && (self.by_component || !self.has_groups)
    }

    /// Adds the components of a recorded wait.
    pub fn record_breakdown(&mut self, breakdown: &timeline::Breakdown) {
        self.groups.record_breakdown(breakdown);
    }

    /// Adds the waits of one class that one CPU has counted.
    pub fn record_counted(&mut self, class: Class, histogram: &Histogram) {
        let count = histogram.count();
        match class {
            Class::Wakeup | Class::New => self.wakeups_received += count,
            Class::Preempted => self.preemptions_received += count,
        }
        if self.warming_up {
            return;
        }
        let worst = histogram.worst().iter().flat_map(decode::wait);
        self.groups.add_counted(class, histogram, worst);
        // The programs do not count waits below the threshold.
        if self.threshold_ns.is_some() {
            self.over += count;
        }
    }

    /// Adds waits of one group that the kernel aggregated; `longest` is the longest of them. Returns false if they
    /// belong to the warm-up.
    pub fn record_element(&mut self, element: &GroupElement, longest: &Wait) -> bool {
        let count = element.count();
        match longest.class {
            Class::Wakeup | Class::New => self.wakeups_received += count,
            Class::Preempted => self.preemptions_received += count,
        }
        if self.warming_up {
            return false;
        }
        self.groups.add_element(element, longest);
        // The programs do not count waits below the threshold.
        if self.threshold_ns.is_some() {
            self.over += count;
        }
        true
    }

    /// Begins `period` at `at_ns`: later waits belong to it.
    pub fn begin_period(&mut self, mut period: Period, at_ns: u64) {
        // The part of the pause before this window belongs to the window before.
        period.pause_ns = period.pause_ns.min(at_ns.saturating_sub(self.before.at_ns));
        self.period_began_at_ns = at_ns;
        self.groups.begin_period(period);
    }

    /// Ends the current period at `at_ns`.
    pub fn end_period(&mut self, at_ns: u64) {
        self.groups.end_period(at_ns.saturating_sub(self.period_began_at_ns));
    }

    /// Counts waits that were pending when a pause began: their ends will not be seen.
    pub fn count_paused(&mut self, waiting: &[PendingWait]) {
        let preemptions = waiting.iter().filter(|pending| is_preemption(pending)).count() as u64;
        self.preemptions_paused += preemptions;
        self.wakeups_paused += waiting.len() as u64 - preemptions;
    }

    /// The groups of the current window.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Removes all waits from the groups: the rest of the window goes on.
    pub fn clear_groups(&mut self) {
        self.groups.clear();
    }

    /// Counts a wait that has reached the threshold.
    pub fn count_over(&mut self) {
        self.over += 1;
    }

    /// Waits received so far, warm-up included.
    pub fn received(&self) -> u64 {
        self.wakeups_received + self.preemptions_received
    }

    /// Offset from CLOCK_MONOTONIC to the Unix epoch (1970-01-01 UTC): ns.
    pub fn unix_offset_ns(&self) -> i64 {
        self.before.unix_offset_ns
    }

    /// Uses the current offset to the Unix epoch from here on: the wall clock may have been set since the window began.
    pub fn follow_wall_clock(&mut self) {
        self.before.unix_offset_ns = clock::followed_unix_offset_ns(self.before.unix_offset_ns);
    }

    /// Counts intervals that ended without a report and are part of the current window.
    pub fn skip(&mut self, intervals: u64) {
        self.skipped_intervals += intervals;
    }

    /// Counts a wait or an event that was not written.
    pub fn count_unwritten(&mut self) {
        self.not_written += 1;
    }

    /// Begins a new window at `reading`.
    pub fn begin(&mut self, reading: &WindowReading) {
        let (wakeups, preemptions) = self.snapshots(&reading.totals);
        let WindowReading { at_ns, missed, cost, reader_waited_ns, .. } = *reading;
        let (events_lost, unix_offset_ns) = (reading.totals.events_lost, clock::unix_offset_ns());
        let switch_ins = self.switch_ins(&reading.totals, false);
        self.before = Before {
            at_ns,
            unix_offset_ns,
            wakeups,
            preemptions,
            switch_ins,
            missed,
            cost,
            events_lost,
            reader_waited_ns,
        };
        self.groups.clear();
        self.period_began_at_ns = at_ns;
        (self.skipped_intervals, self.not_written) = (0, 0);
        self.over = 0;
        self.warming_up = false;
    }

    /// The report of the window so far, while the programs run.
    pub fn interval_report(&mut self, reading: &WindowReading, names: &dyn Names) -> Report {
        self.report(reading, false, None, names)
    }

    /// The report of the last window. The programs are detached, the ring buffer is empty, and `waiting` are
    /// all waits that are still pending, if they are known.
    pub fn final_report(
        &mut self,
        reading: &WindowReading,
        waiting: Option<&[PendingWait]>,
        names: &dyn Names,
    ) -> Report {
        self.report(reading, true, waiting, names)
    }

    /// The overhead in this window, given the cost since the start.
    fn overhead(&self, cost: &OverheadCost) -> Overhead {
        let before = &self.before.cost;
        Overhead {
            cpus: self.cpus,
            tool_ns: cost.tool_ns - before.tool_ns,
            programs: ProgramTime {
                ns: cost.programs_ns - before.programs_ns,
                switches: cost.switches - before.switches,
                timed_runs: cost.timed_runs - before.timed_runs,
            },
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

    /// The switch-ins since the start. A wait counts in the window in which it is received: samples that are in the
    /// ring buffer count with the next one. When the run has `ended`, none may be left.
    fn switch_ins(&self, totals: &CounterTotals, ended: bool) -> Option<SwitchInTerms> {
        let mut terms = totals.switch_ins?;
        let in_ring_buffer = terms.measured.saturating_sub(self.received());
        terms.measured -= in_ring_buffer;
        if !ended {
            terms.seen -= in_ring_buffer;
        }
        Some(terms)
    }

    fn report(
        &mut self,
        reading: &WindowReading,
        ended: bool,
        waiting: Option<&[PendingWait]>,
        names: &dyn Names,
    ) -> Report {
        let duration_ns = reading.at_ns.saturating_sub(self.before.at_ns);
        let (wakeups, preemptions) = self.snapshots(&reading.totals);
        let switch_ins = self.switch_ins(&reading.totals, ended);
        let count = |preempted: bool| {
            waiting.map(|waiting| waiting.iter().filter(|pending| is_preemption(pending) == preempted).count() as u64)
        };
        let ended_at_ns = reading.at_ns;
        let oldest_waiting = waiting.into_iter().flatten().min_by_key(|pending| pending.at_ns).map(|pending| Maximum {
            latency_ns: ended_at_ns.saturating_sub(pending.at_ns),
            at_ns: ended_at_ns,
            tid: pending.pid,
            comm: names.comm(pending.pid).unwrap_or(Comm::new(b"(gone)")),
            cpu: pending.prev_cpu,
        });
        let paused_ns = reading.cost.paused_ns - self.before.cost.paused_ns;
        let sampling = reading
            .sampled_one_in
            .map(|(_, most)| SamplingState { max_shift: most.trailing_zeros() as u8, with_pauses: paused_ns > 0 });
        if sampling.is_some() {
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
            groups: self.groups.report(names, sampling),
            files: Files::default(),
            coverage: Coverage {
                wakeups: match reading.totals.switch_ins {
                    Some(_) => CoverageTerms::default(),
                    None => terms(&self.before.wakeups, &wakeups, count(false)),
                },
                preemptions: (self.classes.contains(Class::Preempted) && reading.totals.switch_ins.is_none())
                    .then(|| terms(&self.before.preemptions, &preemptions, count(true))),
                switch_ins: switch_ins.map(|now| SwitchInTerms {
                    still_waiting: waiting.map(|waiting| waiting.len() as u64),
                    ..now.since(&self.before.switch_ins.unwrap_or_default())
                }),
                missed: reading.missed.map(|missed| missed - self.before.missed.unwrap_or(0)),
                events_lost: self.with_events.then(|| reading.totals.events_lost - self.before.events_lost),
                oldest_waiting,
                groups_merged: self.groups.merged(),
                group_table_full: self.groups.table_full(),
                filtered_is_own: self.filters_only_itself,
                missing_ends: Vec::new(),
                text: None,
            },
            threshold: self.threshold_ns.map(|threshold_ns| Threshold { threshold_ns, over: self.over }),
            overhead: Some(self.overhead(&reading.cost)),
            sampling: self.limit_ppm.zip(reading.sampled_one_in).map(|(limit_ppm, (one_in_least, one_in_most))| {
                let measured_ns = duration_ns.saturating_sub(paused_ns);
                Sampling { limit_ppm, one_in_least, one_in_most, measured_ns }
            }),
        }
    }
}

fn is_preemption(pending: &PendingWait) -> bool {
    pending.class == Class::Preempted as u8
}
