//! What is shown of one group: latencies over time, culprits, and the longest waits.

use std::sync::Arc;

use super::selection::{Selection, TimeSpan};
use crate::{
    hash::HashMap,
    timeline::component::{Actor, Culprit, CulpritKey},
    top_screen::data::{
        kept_wait::KeptWait,
        longest_kept::LongestKept,
        measured_time::MeasuredTime,
        task_names::TaskNames,
        wait_buckets::OCTAVES,
        wait_sum::WaitFigures,
        wait_table::{TaskKey, WaitCell, WaitTable},
    },
    wait::Comm,
};

/// Number of culprits and of the longest waits of a group.
const CULPRITS: usize = 100;
const LONGEST: usize = 100;

/// The details of a group.
#[derive(Clone, Debug)]
pub struct GroupDetails {
    /// Its waits.
    pub figures: WaitFigures,
    /// How long it ran: ns.
    pub run_ns: u64,
    /// Number of waits by power of two.
    pub octaves: [u64; OCTAVES],
    /// For each interval of the whole time, its number and the number of waits by power of two.
    pub over_time: Vec<(u64, [u64; OCTAVES])>,
    /// The culprits with the most time, with it: ns.
    pub culprits: Vec<(Culprit, u64)>,
    /// The longest waits, the longest first.
    pub longest: Vec<Arc<KeptWait>>,
    /// Waits of this latency or less may be missing among the longest: ns.
    pub missing_ns: u64,
}

impl GroupDetails {
    /// The details of the waits that are selected.
    pub fn new(measured: &MeasuredTime, span: TimeSpan, selection: &Selection, names: &TaskNames) -> Self {
        let (mut figures, mut run_ns, mut longest) = (Vec::new(), 0u64, LongestKept::default());
        let mut culprits: HashMap<CulpritKey, (Culprit, u64)> = HashMap::default();
        let tables = span.tables(measured);
        for table in &tables {
            for sum in table.waits.iter().filter(|(cell, _)| selection.has(cell, names)).map(|(_, sum)| sum) {
                figures.push(&sum.figures);
                for (culprit, ns) in sum.culprits.iter() {
                    let of = culprits.entry(culprit.key()).or_insert((*culprit, 0));
                    of.1 = of.1.saturating_add(*ns);
                }
            }
            let runs = table.runs.iter().filter(|((task, cpu), _)| selection.has_run(task, *cpu, names));
            run_ns = runs.map(|(_, ns)| *ns).fold(run_ns, u64::saturating_add);
        }
        // Single intervals have more of the longest waits than the sum of all.
        let mut intervals =
            if span == TimeSpan::All { TimeSpan::Between(0, u64::MAX).tables(measured) } else { tables.clone() };
        // With the longest waits first, most other intervals have none that is long enough.
        intervals.sort_by_key(|table| table.longest.waits().first().map(|wait| wait.order()));
        for table in &intervals {
            if let Some(first) = table.longest.waits().first().filter(|first| !longest.has_room(first, LONGEST)) {
                longest.miss(first.latency_ns);
                continue;
            }
            let selected = table.waits.iter().filter(|(cell, _)| selection.has(cell, names));
            let of_table = LongestKept::of_all(selected.map(|(_, sum)| &sum.longest), LONGEST);
            // A wait that is missing among those of its task can be among the longest of all.
            let missing_ns = of_table.missing_ns().min(table.longest.missing_ns());
            let mut of_all = LongestKept::default();
            of_all.miss(missing_ns);
            let cell = |wait: &KeptWait| WaitCell { task: TaskKey::new(&wait.task), cpu: wait.cpu, class: wait.class };
            let of_task = of_table.waits().iter();
            let of_any = table.longest.waits().iter().filter(|wait| selection.has(&cell(wait), names));
            of_task.chain(of_any).for_each(|wait| of_all.add(Arc::clone(wait), LONGEST));
            longest.merge(&of_all, LONGEST);
        }
        let figures = WaitFigures::sum_of(&figures);
        let mut octaves = [0; OCTAVES];
        figures.latencies.add_octaves(&mut octaves);
        let mut culprits: Vec<(Culprit, u64)> = culprits.into_values().collect();
        culprits.sort_by_key(|(culprit, ns)| (std::cmp::Reverse(*ns), *culprit));
        culprits.truncate(CULPRITS);
        let is_everything = selection.is_everything();
        let over_time = measured.intervals.iter().map(|(number, table)| {
            let mut octaves = [0; OCTAVES];
            if is_everything {
                table.latencies.add_octaves(&mut octaves);
                return (*number, octaves);
            }
            let selected = table.waits.iter().filter(|(cell, _)| selection.has(cell, names));
            selected.for_each(|(_, sum)| sum.figures.latencies.add_octaves(&mut octaves));
            (*number, octaves)
        });
        Self {
            figures,
            run_ns,
            octaves,
            over_time: over_time.collect(),
            culprits,
            missing_ns: longest.missing_ns(),
            longest: longest.waits().to_vec(),
        }
    }
}

impl GroupDetails {
    /// The time that no listed culprit has: ns.
    pub fn others_ns(&self) -> u64 {
        let listed = self.culprits.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        self.figures.ns.saturating_sub(listed)
    }

    /// Number of rows of the culprits: with one for all others.
    pub fn causes(&self) -> usize {
        self.culprits.len() + usize::from(self.others_ns() > 0)
    }
}

/// How long a task ran while others waited, in their waits: ns, and the number of tasks.
pub fn caused_by(tables: &[Arc<WaitTable>], tid: u32, comm: Comm) -> (u64, usize) {
    let mut victims: Vec<u32> = Vec::new();
    let mut caused_ns = 0u64;
    for (cell, sum) in tables.iter().flat_map(|table| &table.waits) {
        let is_it =
            |culprit: &Culprit| matches!(culprit.actor, Actor::Task(task) if task.tid == tid && task.comm == comm);
        let ns = sum.culprits.iter().filter(|(culprit, _)| is_it(culprit)).map(|(_, ns)| *ns);
        let ns = ns.fold(0, u64::saturating_add);
        if ns > 0 {
            caused_ns = caused_ns.saturating_add(ns);
            victims.push(cell.task.tid);
        }
    }
    victims.sort_unstable();
    victims.dedup();
    (caused_ns, victims.len())
}
