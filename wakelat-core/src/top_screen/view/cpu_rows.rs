//! What the CPUs did and do.

use std::{collections::BTreeMap, sync::Arc};

use super::selection::TimeSpan;
use crate::top_screen::data::{
    cpu_occupancy::{CpuNow, RunnableTask},
    measured_time::MeasuredTime,
    wait_table::{TaskKey, WaitTable},
};

/// A CPU.
#[derive(Clone, Debug, Default)]
pub struct CpuRow {
    /// Its number.
    pub cpu: u32,
    /// What it runs now.
    pub state: CpuNow,
    /// The time that its events cover: ns. Of several recordings, each has its own.
    pub length_ns: u64,
    /// Until when its state is known: ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The tasks that are known to wait for it now, the one that has waited longest first.
    pub waiting: Vec<RunnableTask>,
    /// How long it ran tasks: ns.
    pub busy_ns: u64,
    /// The tasks that it ran, with how long (ns), the longest first.
    pub ran: Vec<(TaskKey, u64)>,
    /// The number of waits that ended on it, their total and the longest: ns.
    pub waits: (u64, u64, u64),
}

/// The CPUs, in a part of the time.
#[derive(Clone, Debug, Default)]
pub struct CpuRows {
    /// The CPUs, by recording if there are several, and by number.
    pub cpus: Vec<CpuRow>,
}

impl CpuRows {
    /// The CPUs.
    pub fn new(measured: &MeasuredTime, tables: &[Arc<WaitTable>]) -> Self {
        let covered = TimeSpan::covers(tables).unwrap_or((0, 0));
        let row = |(cpu, state): (&u32, &CpuNow)| {
            let (first_ns, last_ns) = measured.cpus.recorded(*cpu).unwrap_or((0, measured.now_ns.max(covered.1)));
            let row = CpuRow {
                cpu: *cpu,
                state: *state,
                length_ns: covered.1.min(last_ns).saturating_sub(covered.0.max(first_ns)),
                now_ns: last_ns.min(measured.now_ns),
                waiting: measured.cpus.waiting_on(*cpu),
                ..CpuRow::default()
            };
            (*cpu, row)
        };
        let mut cpus: BTreeMap<u32, CpuRow> = measured.cpus.cpus().iter().map(row).collect();
        for table in tables {
            for ((task, cpu), ns) in &table.runs {
                let Some(row) = cpus.get_mut(cpu) else { continue };
                row.busy_ns = row.busy_ns.saturating_add(*ns);
                row.ran.push((*task, *ns));
            }
            for (cell, sum) in &table.waits {
                let Some(row) = cpus.get_mut(&cell.cpu) else { continue };
                let (waits, ns, max_ns) = &mut row.waits;
                *waits += sum.figures.waits;
                *ns = ns.saturating_add(sum.figures.ns);
                *max_ns = (*max_ns).max(sum.figures.max_ns);
            }
        }
        let mut cpus: Vec<CpuRow> = cpus.into_values().collect();
        for cpu in &mut cpus {
            cpu.ran.sort_by_key(|(task, _)| *task);
            cpu.ran.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                if is_same {
                    kept.1 = kept.1.saturating_add(next.1);
                }
                is_same
            });
            cpu.ran.sort_by_key(|(task, ns)| (std::cmp::Reverse(*ns), *task));
        }
        Self { cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        files::FileIds,
        report::LatencyFrom,
        timeline::testing::{EventStream, idle, task},
        top_screen::data::measured_time::Measuring,
        why::testing::TestNames,
    };

    const SECOND: u64 = 1_000_000_000;

    /// Two recordings of two seconds, an hour apart. CPU 0 of each runs a task for half of the first second and all of
    /// the second one, and then a task that it still runs at the last event.
    fn an_hour_apart() -> Measuring {
        let mut stream = EventStream::default();
        for (file, begin_ns) in [(0, SECOND), (1, 3_600 * SECOND)] {
            let ids = FileIds::new(file);
            let cpu = ids.number(0);
            stream.switch(cpu, begin_ns, idle());
            stream.switch(cpu, begin_ns + SECOND / 2, task(ids.tid(7), "hog"));
            let waited = (begin_ns + SECOND, begin_ns + 2 * SECOND);
            stream.end_wait(cpu, waited, task(ids.tid(8), "web"));
        }
        let mut measuring = Measuring::new(LatencyFrom::Wakeup, true);
        stream.events.iter().for_each(|event| measuring.event(event, 0, &TestNames));
        measuring.end_report();
        measuring
    }

    #[test]
    fn a_cpu_runs_nothing_after_the_end_of_its_recording() {
        let measuring = an_hour_apart();
        let rows = CpuRows::new(&measuring.measured, &TimeSpan::All.tables(&measuring.measured));
        let shown: Vec<_> = rows.cpus.iter().map(|row| (row.cpu, row.busy_ns, row.length_ns, row.now_ns)).collect();
        let (busy_ns, length_ns, second) = (3 * SECOND / 2, 2 * SECOND, FileIds::new(1).number(0));
        assert_eq!(shown, [(0, busy_ns, length_ns, 3 * SECOND), (second, busy_ns, length_ns, 3_602 * SECOND)]);
        assert_eq!(rows.cpus.iter().map(|row| row.waits.0).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn only_its_part_of_the_time_counts_for_a_cpu() {
        let measuring = an_hour_apart();
        let tables = TimeSpan::Between(0, 60 * SECOND).tables(&measuring.measured);
        let lengths = CpuRows::new(&measuring.measured, &tables).cpus.into_iter().map(|row| row.length_ns);
        assert_eq!(lengths.collect::<Vec<_>>(), [2 * SECOND, 0]);
    }
}
