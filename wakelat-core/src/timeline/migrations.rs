//! Which CPU's run queue held a waiting task, and until when.

use crate::hash::HashMap;

use super::event::MigrationEvent;

/// Maximum number of tasks whose migrations are remembered: more than wait at one time, unless they wait for long.
const MAX_TASKS: usize = 65_536;

/// The migrations of waiting tasks, until they run.
#[derive(Debug, Default)]
pub struct PendingMigrations {
    by_tid: HashMap<u32, Vec<MigrationEvent>>,
    /// Empty lists, reused to avoid allocations.
    spare: Vec<Vec<MigrationEvent>>,
}

/// The part of a wait in which the task was on one run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunqueueInterval {
    /// The CPU of the run queue; `None` if it is unknown, because a migration was missed.
    pub cpu: Option<u32>,
    /// When it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ends: ns of CLOCK_MONOTONIC.
    pub to_ns: u64,
}

impl PendingMigrations {
    /// Remembers a migration, if the task is waiting.
    pub fn push(&mut self, migration: &MigrationEvent) {
        if !migration.waiting || self.by_tid.len() >= MAX_TASKS && !self.by_tid.contains_key(&migration.tid) {
            return;
        }
        let spare = &mut self.spare;
        self.by_tid.entry(migration.tid).or_insert_with(|| spare.pop().unwrap_or_default()).push(*migration);
    }

    /// Fills `intervals` with the run queues of a task that now runs, from `from_ns` to `to_ns`, given the CPUs on
    /// which its wait began (`first`, if known) and ended (`last`). Forgets its migrations.
    pub fn take(
        &mut self,
        tid: u32,
        first: Option<u32>,
        last: u32,
        from_ns: u64,
        to_ns: u64,
        intervals: &mut Vec<RunqueueInterval>,
    ) {
        intervals.clear();
        let mut migrations = self.by_tid.remove(&tid).unwrap_or_default();
        // Different CPUs may have sent them, so they may arrive out of order.
        migrations.sort_by_key(|migration| migration.at_ns);
        let inside = |migration: &&MigrationEvent| (from_ns..=to_ns).contains(&migration.at_ns);
        let mut cpu = first.or_else(|| migrations.iter().find(inside).map_or(Some(last), |event| Some(event.from_cpu)));
        let mut begin_ns = from_ns;
        for migration in migrations.iter().filter(inside) {
            let known = cpu.filter(|cpu| *cpu == migration.from_cpu);
            intervals.push(RunqueueInterval { cpu: known, from_ns: begin_ns, to_ns: migration.at_ns });
            (cpu, begin_ns) = (Some(migration.to_cpu), migration.at_ns);
        }
        intervals.push(RunqueueInterval { cpu: cpu.filter(|cpu| *cpu == last), from_ns: begin_ns, to_ns });
        self.recycle(migrations);
    }

    /// Forgets the migrations of a task that now runs and whose wait is not reported.
    pub fn forget(&mut self, tid: u32) {
        if let Some(migrations) = self.by_tid.remove(&tid) {
            self.recycle(migrations);
        }
    }

    fn recycle(&mut self, mut migrations: Vec<MigrationEvent>) {
        if migrations.capacity() > 0 {
            migrations.clear();
            self.spare.push(migrations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Comm;

    fn intervals(migrations: &[(u64, u32, u32)], first: Option<u32>, last: u32) -> Vec<(Option<u32>, u64, u64)> {
        let mut all = PendingMigrations::default();
        for (at_ns, from_cpu, to_cpu) in migrations {
            let (from_cpu, to_cpu) = (*from_cpu, *to_cpu);
            all.push(&MigrationEvent { at_ns: *at_ns, tid: 7, comm: Comm::default(), waiting: true, from_cpu, to_cpu });
        }
        let mut intervals = Vec::new();
        all.take(7, first, last, 100, 200, &mut intervals);
        assert!(all.by_tid.is_empty());
        intervals.iter().map(|interval| (interval.cpu, interval.from_ns, interval.to_ns)).collect()
    }

    #[test]
    fn a_task_is_on_the_run_queue_of_its_last_migration() {
        assert_eq!(intervals(&[], Some(1), 1), [(Some(1), 100, 200)]);
        assert_eq!(intervals(&[], None, 1), [(Some(1), 100, 200)]);
        assert_eq!(intervals(&[(150, 1, 2)], Some(1), 2), [(Some(1), 100, 150), (Some(2), 150, 200)]);
        assert_eq!(intervals(&[(150, 1, 2)], None, 2), [(Some(1), 100, 150), (Some(2), 150, 200)]);
        let two = [(Some(1), 100, 120), (Some(2), 120, 150), (Some(1), 150, 200)];
        assert_eq!(intervals(&[(150, 2, 1), (120, 1, 2)], Some(1), 1), two);
    }

    #[test]
    fn after_a_missed_migration_the_cpu_is_unknown() {
        assert_eq!(intervals(&[], Some(1), 2), [(None, 100, 200)]);
        assert_eq!(intervals(&[(150, 3, 2)], Some(1), 2), [(None, 100, 150), (Some(2), 150, 200)]);
        assert_eq!(intervals(&[(150, 1, 2)], Some(1), 3), [(Some(1), 100, 150), (None, 150, 200)]);
    }

    #[test]
    fn a_migration_before_the_wait_does_not_count() {
        assert_eq!(intervals(&[(50, 1, 2)], Some(2), 2), [(Some(2), 100, 200)]);
    }
}
