//! The windows of a run: their groups, and their account from what the kernel had counted before and after.

use wakelat_common::{Class, Classes, histogram::Histogram, start::Start};

use super::clock::{monotonic_ns, unix_offset_ns};
use crate::{
    aggregate::{
        Groups,
        coverage::{Account, terms},
        distribution::Maximum,
        key::Names,
    },
    collect::Totals,
    config::Config,
    report::{Coverage, From, Mode, Report, Threshold},
    wait::{Comm, Wait},
};

/// The window under way, and what came before it.
pub struct Windows {
    kernel: String,
    from: From,
    mode: Mode,
    classes: Classes,
    threshold_ns: Option<u64>,
    /// Events between waits are told, too.
    with_events: bool,
    groups: Groups,
    over: u64,
    /// Samples taken from the ring buffer since the start, warm-up included.
    wakeups_received: u64,
    preemptions_received: u64,
    before: Before,
    warming_up: bool,
}

/// How things stood when the window began.
#[derive(Clone, Copy, Default)]
struct Before {
    at_ns: u64,
    unix_offset_ns: i64,
    wakeups: Account,
    preemptions: Account,
    missed: Option<u64>,
    events_lost: u64,
}

impl Windows {
    /// The first window begins now, unless there is a warm-up.
    pub fn new(config: &Config, kernel: &str, with_events: bool) -> Self {
        Self {
            kernel: kernel.to_owned(),
            from: config.from,
            mode: config.mode,
            classes: config.classes,
            threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
            with_events,
            groups: Groups::new(config.by.clone(), config.merged, config.max_groups),
            over: 0,
            wakeups_received: 0,
            preemptions_received: 0,
            before: Before { at_ns: monotonic_ns(), unix_offset_ns: unix_offset_ns(), ..Before::default() },
            warming_up: config.window.warm_up_ns > 0,
        }
    }

    /// Adds a wait. Returns false where it belongs to the warm-up.
    pub fn record(&mut self, wait: &Wait) -> bool {
        match wait.class {
            Class::Wakeup | Class::New => self.wakeups_received += 1,
            Class::Preempted => self.preemptions_received += 1,
        }
        if !self.warming_up {
            self.groups.record(wait);
        }
        !self.warming_up
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
        self.groups.add_counted(class, histogram);
        // Below the threshold nothing is counted.
        if self.threshold_ns.is_some() {
            self.over += histogram.count;
        }
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

    /// How long the window has lasted: ns.
    pub fn elapsed_ns(&self) -> u64 {
        monotonic_ns() - self.before.at_ns
    }

    /// A new window begins where `totals` were read.
    pub fn begin(&mut self, totals: &Totals, missed: Option<u64>) {
        let (wakeups, preemptions) = self.accounts(totals);
        self.before = Before {
            at_ns: monotonic_ns(),
            unix_offset_ns: unix_offset_ns(),
            wakeups,
            preemptions,
            missed,
            events_lost: totals.events_lost,
        };
        self.groups.clear();
        self.over = 0;
        self.warming_up = false;
    }

    /// The window so far, while the programs run.
    pub fn cut(&self, totals: &Totals, missed: Option<u64>, names: &dyn Names) -> Report {
        self.report(self.elapsed_ns(), totals, None, missed, names)
    }

    /// The window at its end: the programs are detached, the ring buffer is empty, `waiting` is all that still waits.
    pub fn end(
        &self,
        duration_ns: u64,
        totals: &Totals,
        waiting: &[Start],
        missed: Option<u64>,
        names: &dyn Names,
    ) -> Report {
        self.report(duration_ns, totals, Some(waiting), missed, names)
    }

    fn accounts(&self, totals: &Totals) -> (Account, Account) {
        (
            Account { counters: totals.wakeups, received: self.wakeups_received },
            Account { counters: totals.preemptions, received: self.preemptions_received },
        )
    }

    fn report(
        &self,
        duration_ns: u64,
        totals: &Totals,
        waiting: Option<&[Start]>,
        missed: Option<u64>,
        names: &dyn Names,
    ) -> Report {
        let (wakeups, preemptions) = self.accounts(totals);
        let of = |preempted: bool| {
            let is = move |start: &&Start| (start.class == Class::Preempted as u8) == preempted;
            waiting.map(|waiting| waiting.iter().filter(is).count() as u64)
        };
        // Not the window's end: the programs went on for a moment, and some of these began in it.
        let ended_at_ns = monotonic_ns();
        let oldest_censored = waiting.into_iter().flatten().min_by_key(|start| start.at_ns).map(|start| Maximum {
            latency_ns: ended_at_ns.saturating_sub(start.at_ns),
            at_ns: ended_at_ns,
            tid: start.pid,
            comm: names.comm(start.pid).unwrap_or(Comm::new(b"(gone)")),
            cpu: start.prev_cpu,
        });
        Report {
            kernel: self.kernel.clone(),
            start_unix_ns: u64::try_from(i128::from(self.before.at_ns) + i128::from(self.before.unix_offset_ns))
                .unwrap_or(0),
            duration_ns,
            unix_offset_ns: self.before.unix_offset_ns,
            from: self.from,
            mode: self.mode,
            groups: self.groups.report(names),
            coverage: Coverage {
                wakeups: terms(&self.before.wakeups, &wakeups, of(false)),
                preemptions: self
                    .classes
                    .contains(Class::Preempted)
                    .then(|| terms(&self.before.preemptions, &preemptions, of(true))),
                missed: missed.map(|missed| missed - self.before.missed.unwrap_or(0)),
                events_lost: self.with_events.then(|| totals.events_lost - self.before.events_lost),
                oldest_censored,
                groups_merged: self.groups.merged(),
            },
            threshold: self.threshold_ns.map(|threshold_ns| Threshold { threshold_ns, over: self.over }),
        }
    }
}
