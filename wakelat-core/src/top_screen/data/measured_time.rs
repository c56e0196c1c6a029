//! Everything that is kept of the events: a table of waits and run times for each interval, and for all of the time.

use std::sync::Arc;

use super::{cpu_occupancy::CpuOccupancy, kept_wait::KeptWait, task_names::TaskNames, wait_table::WaitTable};
use crate::{
    aggregate::key::Names,
    report::LatencyFrom,
    timeline::{Timeline, event::Event},
};

/// The shortest interval: ns.
const SHORTEST_NS: u64 = 125_000_000;

/// Most intervals; for a longer time, intervals are twice as long.
const MAX_INTERVALS: usize = 600;

/// Most entries of all intervals together; for more, intervals are twice as long.
const MAX_SIZE: usize = 1 << 15;

/// Most entries of one interval, and of the sum of all.
const MAX_INTERVAL_SIZE: usize = 1 << 12;
const MAX_TOTAL_SIZE: usize = 1 << 14;

/// Run times are divided at this many intervals between two events; a longer gap is one.
const MAX_STEPS: u64 = 64;

/// What the screens show: cheap to clone, to freeze it.
#[derive(Clone, Debug, Default)]
pub struct MeasuredTime {
    /// The length of an interval: ns.
    pub interval_ns: u64,
    /// The intervals that have events, by number.
    pub intervals: Vec<(u64, Arc<WaitTable>)>,
    /// The sum of all intervals.
    pub total: Arc<WaitTable>,
    /// What was measured between the last two reports.
    pub last: Arc<WaitTable>,
    /// Changes when any of the tables does.
    pub generation: u64,
    /// When the last event was: ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// When the first event was: ns of CLOCK_MONOTONIC.
    pub start_ns: Option<u64>,
    /// From CLOCK_MONOTONIC to 1970-01-01 UTC: ns.
    pub unix_offset_ns: i64,
    /// What the CPUs do.
    pub cpus: CpuOccupancy,
}

/// Adds up the events.
#[derive(Debug)]
pub struct Measuring {
    timeline: Timeline,
    /// What is shown.
    pub measured: MeasuredTime,
    /// The names that it needs.
    pub names: TaskNames,
    current: WaitTable,
    since_report: WaitTable,
    /// Until when the tables have everything: ns of CLOCK_MONOTONIC.
    flushed_ns: u64,
    reports: u64,
}

impl Measuring {
    /// Nothing yet. `from` is where the latency of a wakeup begins; `are_several`: the events are of several
    /// recordings.
    pub fn new(from: LatencyFrom, are_several: bool) -> Self {
        let cpus = CpuOccupancy::new(are_several);
        Self {
            timeline: Timeline::new(from),
            measured: MeasuredTime { interval_ns: SHORTEST_NS, cpus, ..MeasuredTime::default() },
            names: TaskNames::default(),
            current: WaitTable::default(),
            since_report: WaitTable::default(),
            flushed_ns: 0,
            reports: 0,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names) {
        let at_ns = event.kind.at_ns();
        self.measured.unix_offset_ns = unix_offset_ns;
        self.advance(at_ns);
        let Self { timeline, measured, names: known, current, .. } = self;
        known.learn(event, names);
        measured.cpus.follow(event, |task, cpu, ns| current.add_run(task, cpu, ns));
        if let Some(breakdown) = timeline.push(event) {
            let wait = &breakdown.ended_wait.wait;
            current.add(breakdown, || {
                let waker = wait.waker_tid.map(|tid| (tid, names.comm(tid)));
                KeptWait::new(breakdown, wait.at_ns.saturating_add_signed(unix_offset_ns), waker)
            });
            if current.waits.len() > 2 * MAX_INTERVAL_SIZE {
                current.shorten(MAX_INTERVAL_SIZE);
            }
        }
    }

    /// The warm-up has ended: forgets the waits so far.
    pub fn start_window(&mut self) {
        let measured = &mut self.measured;
        measured.cpus.start_window(measured.now_ns);
        let MeasuredTime { generation, now_ns, unix_offset_ns, cpus, .. } = std::mem::take(measured);
        *measured = MeasuredTime {
            interval_ns: SHORTEST_NS,
            generation: generation + 1,
            now_ns,
            start_ns: (now_ns > 0).then_some(now_ns),
            unix_offset_ns,
            cpus,
            ..MeasuredTime::default()
        };
        (self.current, self.since_report, self.reports) = (WaitTable::default(), WaitTable::default(), 0);
        self.flushed_ns = now_ns;
    }

    /// Ends the time since the last report.
    pub fn end_report(&mut self) {
        self.flush(self.measured.now_ns);
        self.reports += 1;
        let last = std::mem::take(&mut self.since_report);
        // A recording can have one report of all of its time.
        self.measured.last = if self.reports > 1 { Arc::new(last) } else { Arc::new(self.measured.last_second()) };
    }

    /// Ends all intervals before `at_ns`.
    fn advance(&mut self, at_ns: u64) {
        let now_ns = self.measured.now_ns;
        if self.measured.start_ns.is_none() {
            (self.measured.start_ns, self.measured.now_ns) = (Some(at_ns), at_ns);
            self.flushed_ns = at_ns;
            return;
        }
        let interval_ns = self.measured.interval_ns;
        let first = now_ns / interval_ns;
        let steps = (at_ns / interval_ns).saturating_sub(first);
        let divided = if steps <= MAX_STEPS { steps } else { 1 };
        for step in 1..=divided {
            self.flush((first + step) * interval_ns);
        }
        self.measured.now_ns = now_ns.max(at_ns);
    }

    /// Adds what was counted since the last call to the tables, with the run times until `at_ns`.
    fn flush(&mut self, at_ns: u64) {
        let Self { measured, current, since_report, .. } = self;
        measured.cpus.count_until(at_ns, |task, cpu, ns| current.add_run(task, cpu, ns));
        // The end of an interval belongs to it.
        let number = at_ns.saturating_sub(1) / measured.interval_ns;
        let mut table = std::mem::take(current);
        table.shorten(MAX_INTERVAL_SIZE);
        table.span_ns = (self.flushed_ns.min(at_ns), at_ns);
        self.flushed_ns = at_ns;
        measured.generation += 1;
        let total = Arc::make_mut(&mut measured.total);
        total.merge(&table);
        total.shorten(MAX_TOTAL_SIZE);
        since_report.merge(&table);
        since_report.shorten(MAX_TOTAL_SIZE);
        measured.add(number, table);
    }
}

impl MeasuredTime {
    fn add(&mut self, number: u64, table: WaitTable) {
        match self.intervals.last_mut() {
            Some((last, of)) if *last >= number => {
                let of = Arc::make_mut(of);
                of.merge(&table);
                of.shorten(MAX_INTERVAL_SIZE);
            }
            _ => self.intervals.push((number, Arc::new(table))),
        }
        let size = |intervals: &[(u64, Arc<WaitTable>)]| -> usize { intervals.iter().map(|(_, of)| of.size()).sum() };
        // Intervals without events take no room, but are shown.
        let span = |intervals: &[(u64, Arc<WaitTable>)]| match intervals {
            [(first, _), .., (last, _)] => (last - first) as usize,
            _ => 0,
        };
        while self.intervals.len() > 1 && (span(&self.intervals) >= MAX_INTERVALS || size(&self.intervals) > MAX_SIZE) {
            self.double();
        }
    }

    /// Makes intervals twice as long, by merging neighbours.
    fn double(&mut self) {
        self.interval_ns *= 2;
        let mut wider: Vec<(u64, Arc<WaitTable>)> = Vec::with_capacity(self.intervals.len() / 2 + 1);
        for (number, table) in self.intervals.drain(..) {
            match wider.last_mut() {
                Some((last, of)) if *last == number / 2 => {
                    let of = Arc::make_mut(of);
                    of.merge(&table);
                    of.shorten(MAX_INTERVAL_SIZE);
                }
                _ => wider.push((number / 2, table)),
            }
        }
        self.intervals = wider;
    }

    fn last_second(&self) -> WaitTable {
        let mut sum = WaitTable::default();
        let from_ns = self.now_ns.saturating_sub(1_000_000_000);
        let recent = self.intervals.iter().filter(|(_, of)| of.span_ns.1 > from_ns.max(of.span_ns.0));
        recent.filter(|(_, of)| of.span_ns.0 >= from_ns || self.intervals.len() == 1).for_each(|(_, of)| sum.merge(of));
        sum
    }
}
