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
    /// The CPUs by number.
    pub cpus: Vec<CpuRow>,
    /// The length of the time: ns.
    pub length_ns: u64,
}

impl CpuRows {
    /// The CPUs.
    pub fn new(measured: &MeasuredTime, tables: &[Arc<WaitTable>]) -> Self {
        let row = |(cpu, state): (&u32, &CpuNow)| {
            (*cpu, CpuRow { cpu: *cpu, state: *state, waiting: measured.cpus.waiting_on(*cpu), ..CpuRow::default() })
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
        let length_ns = TimeSpan::covers(tables).map_or(0, |(from_ns, to_ns)| to_ns - from_ns);
        Self { cpus, length_ns }
    }
}
