//! Which task each CPU runs, and which tasks wait, from the events so far.

use std::collections::BTreeMap;

use wakelat_common::pending_wait::PrevState;

use super::wait_table::TaskKey;
use crate::{
    files::number_of_cpu,
    hash::HashMap,
    timeline::event::{Event, EventKind, SwitchEvent, TaskInfo},
    wait::Comm,
};

/// Most tasks that are known to wait.
const MAX_WAITING: usize = 1 << 14;

/// Which task each CPU runs, and which tasks wait.
#[derive(Clone, Debug, Default)]
pub struct CpuOccupancy {
    cpus: BTreeMap<u32, CpuNow>,
    waiting: HashMap<u32, RunnableTask>,
    /// Some events report wakeups, so that all tasks that wait are known.
    has_wakeups: bool,
    /// The events are of several recordings, which need not be of the same time.
    are_several: bool,
    /// The times of the first and the last event of each of them, by number: ns.
    recordings: BTreeMap<u32, (u64, u64)>,
}

/// What a CPU runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuNow {
    /// Its task, unless the last switch is unknown; TID 0 is idle.
    pub task: Option<TaskInfo>,
    /// When it was switched in: ns of CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// Until when its run time has been counted: ns of CLOCK_MONOTONIC.
    counted_ns: u64,
    seq: Option<u32>,
}

/// A task that waits.
#[derive(Clone, Copy, Debug)]
pub struct RunnableTask {
    /// Thread ID.
    pub tid: u32,
    /// Name.
    pub comm: Comm,
    /// The CPU on whose run queue it is.
    pub cpu: u32,
    /// Since when: ns of CLOCK_MONOTONIC.
    pub since_ns: u64,
}

impl CpuOccupancy {
    /// Nothing yet. `are_several`: the events are of several recordings.
    pub fn new(are_several: bool) -> Self {
        Self { are_several, ..Self::default() }
    }

    /// Follows an event. Calls `run` with each task that has run, the CPU, and for how long: ns.
    pub fn follow(&mut self, event: &Event, mut run: impl FnMut(TaskKey, u32, u64)) {
        if self.are_several {
            let at_ns = event.kind.at_ns();
            let (_, last_ns) = self.recordings.entry(number_of_cpu(event.cpu)).or_insert((at_ns, at_ns));
            *last_ns = at_ns.max(*last_ns);
        }
        let cpu = self.cpus.entry(event.cpu).or_default();
        let mut last = cpu.seq.unwrap_or(event.seq.wrapping_sub(1));
        let is_lost = event.lost_since(&mut last) > 0;
        cpu.seq = Some(last);
        if is_lost {
            // Whatever was on this CPU, other tasks may have run since.
            cpu.task = None;
            self.waiting.retain(|_, waiting| waiting.cpu != event.cpu);
        }
        match &event.kind {
            EventKind::Switch(switch) => {
                let is_known = switch.unseen.is_none() && cpu.task.is_some_and(|task| task.tid == switch.prev.tid);
                if is_known && switch.prev.tid != 0 {
                    let ns = switch.at_ns.saturating_sub(cpu.counted_ns);
                    run(TaskKey::new(&switch.prev), event.cpu, ns);
                }
                let CpuNow { seq, .. } = *cpu;
                *cpu = CpuNow { task: Some(switch.next), since_ns: switch.at_ns, counted_ns: switch.at_ns, seq };
                self.switch_queues(event.cpu, switch);
            }
            EventKind::Wakeup(wakeup) => {
                self.has_wakeups = true;
                if !wakeup.running {
                    let cpu = wakeup.target_cpu;
                    self.wait(RunnableTask { tid: wakeup.tid, comm: wakeup.comm, cpu, since_ns: wakeup.at_ns });
                }
            }
            EventKind::Migration(migration) => {
                if let Some(waiting) = self.waiting.get_mut(&migration.tid) {
                    waiting.cpu = migration.to_cpu;
                }
            }
            EventKind::Interrupt(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => {}
        }
    }

    fn switch_queues(&mut self, cpu: u32, switch: &SwitchEvent) {
        self.waiting.remove(&switch.next.tid);
        let TaskInfo { tid, comm, .. } = switch.prev;
        match switch.prev_state {
            PrevState::Runnable | PrevState::PreemptedSleeping if tid != 0 => {
                self.wait(RunnableTask { tid, comm, cpu, since_ns: switch.at_ns });
            }
            _ => _ = self.waiting.remove(&tid),
        }
    }

    fn wait(&mut self, task: RunnableTask) {
        if self.waiting.len() < MAX_WAITING {
            // An earlier start is kept: a wakeup of a waiting task begins no wait.
            self.waiting.entry(task.tid).or_insert(task);
        }
    }

    /// Counts the run time of the tasks that run until `at_ns` (ns of CLOCK_MONOTONIC): of several recordings, until
    /// the last event of theirs, because what they run later is unknown.
    pub fn count_until(&mut self, at_ns: u64, mut run: impl FnMut(TaskKey, u32, u64)) {
        for (number, cpu) in &mut self.cpus {
            let last_ns = self.recordings.get(&number_of_cpu(*number)).map(|(_, last_ns)| *last_ns);
            let to_ns = last_ns.map_or(at_ns, |last_ns| last_ns.min(at_ns));
            if let Some(task) = cpu.task.filter(|task| task.tid != 0 && cpu.counted_ns < to_ns) {
                run(TaskKey::new(&task), *number, to_ns - cpu.counted_ns);
            }
            cpu.counted_ns = cpu.counted_ns.max(to_ns);
        }
    }

    /// Begins the window at `at_ns` (ns of CLOCK_MONOTONIC): no run time before it counts.
    pub fn start_window(&mut self, at_ns: u64) {
        self.count_until(at_ns, |_, _, _| ());
        self.recordings.values_mut().for_each(|(first_ns, last_ns)| *first_ns = *last_ns);
    }

    /// The times of the first and the last event of the recording of a CPU, if there are several: ns.
    pub fn recorded(&self, cpu: u32) -> Option<(u64, u64)> {
        self.recordings.get(&number_of_cpu(cpu)).copied()
    }

    /// The CPUs by number.
    pub fn cpus(&self) -> &BTreeMap<u32, CpuNow> {
        &self.cpus
    }

    /// The tasks that are known to wait on a CPU, the one that has waited longest first.
    pub fn waiting_on(&self, cpu: u32) -> Vec<RunnableTask> {
        let mut tasks: Vec<_> = self.waiting.values().filter(|task| task.cpu == cpu).copied().collect();
        tasks.sort_by_key(|task| (task.since_ns, task.tid));
        tasks
    }

    /// Whether all tasks that wait are known; otherwise, only those that were preempted are.
    pub fn knows_all_waiting(&self) -> bool {
        self.has_wakeups
    }
}
