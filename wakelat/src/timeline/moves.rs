//! On which run queue a task stood, and until when.

use crate::hash::HashMap;

use super::event::MigrationEvent;

/// Tasks whose moves are remembered at most: more than wait at one time, unless they wait for long.
const TASKS: usize = 65_536;

/// Where tasks that wait were moved to, until they run.
#[derive(Debug, Default)]
pub struct PendingMigrations {
    by_tid: HashMap<u32, Vec<MigrationEvent>>,
    spare: Vec<Vec<MigrationEvent>>,
}

/// A part of a wait on one run queue; on which is not known where a move was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunqueueInterval {
    /// The CPU.
    pub cpu: Option<u32>,
    /// From when: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

impl PendingMigrations {
    /// A task was moved. Only of those that wait it matters.
    pub fn push(&mut self, moved: &MigrationEvent) {
        if !moved.waiting || self.by_tid.len() >= TASKS && !self.by_tid.contains_key(&moved.tid) {
            return;
        }
        let spare = &mut self.spare;
        self.by_tid.entry(moved.tid).or_insert_with(|| spare.pop().unwrap_or_default()).push(*moved);
    }

    /// A task runs: where it stood, from `from_ns` to `to_ns`, where its wait began on `first` and ended on `last`. The
    /// moves are forgotten.
    pub fn take(
        &mut self,
        tid: u32,
        first: Option<u32>,
        last: u32,
        from_ns: u64,
        to_ns: u64,
        stands: &mut Vec<RunqueueInterval>,
    ) {
        stands.clear();
        let mut moves = self.by_tid.remove(&tid).unwrap_or_default();
        // They may have been told of by different CPUs.
        moves.sort_by_key(|moved| moved.at_ns);
        let inside = |moved: &&MigrationEvent| (from_ns..=to_ns).contains(&moved.at_ns);
        let mut cpu = first.or_else(|| moves.iter().find(inside).map_or(Some(last), |moved| Some(moved.from_cpu)));
        let mut begin_ns = from_ns;
        for moved in moves.iter().filter(inside) {
            let known = cpu.filter(|cpu| *cpu == moved.from_cpu);
            stands.push(RunqueueInterval { cpu: known, from_ns: begin_ns, to_ns: moved.at_ns });
            (cpu, begin_ns) = (Some(moved.to_cpu), moved.at_ns);
        }
        stands.push(RunqueueInterval { cpu: cpu.filter(|cpu| *cpu == last), from_ns: begin_ns, to_ns });
        self.spare(moves);
    }

    /// A task runs whose wait nobody asked for.
    pub fn forget(&mut self, tid: u32) {
        if let Some(moves) = self.by_tid.remove(&tid) {
            self.spare(moves);
        }
    }

    fn spare(&mut self, mut moves: Vec<MigrationEvent>) {
        if moves.capacity() > 0 {
            moves.clear();
            self.spare.push(moves);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Comm;

    fn stands(moves: &[(u64, u32, u32)], first: Option<u32>, last: u32) -> Vec<(Option<u32>, u64, u64)> {
        let mut all = PendingMigrations::default();
        for (at_ns, from_cpu, to_cpu) in moves {
            let (from_cpu, to_cpu) = (*from_cpu, *to_cpu);
            all.push(&MigrationEvent { at_ns: *at_ns, tid: 7, comm: Comm::default(), waiting: true, from_cpu, to_cpu });
        }
        let mut stands = Vec::new();
        all.take(7, first, last, 100, 200, &mut stands);
        assert!(all.by_tid.is_empty());
        stands.iter().map(|stand| (stand.cpu, stand.from_ns, stand.to_ns)).collect()
    }

    #[test]
    fn a_task_stands_where_it_was_put_until_it_is_moved() {
        assert_eq!(stands(&[], Some(1), 1), [(Some(1), 100, 200)]);
        assert_eq!(stands(&[], None, 1), [(Some(1), 100, 200)]);
        assert_eq!(stands(&[(150, 1, 2)], Some(1), 2), [(Some(1), 100, 150), (Some(2), 150, 200)]);
        assert_eq!(stands(&[(150, 1, 2)], None, 2), [(Some(1), 100, 150), (Some(2), 150, 200)]);
        let two = [(Some(1), 100, 120), (Some(2), 120, 150), (Some(1), 150, 200)];
        assert_eq!(stands(&[(150, 2, 1), (120, 1, 2)], Some(1), 1), two);
    }

    #[test]
    fn a_move_that_was_not_seen_leaves_its_time_without_a_place() {
        assert_eq!(stands(&[], Some(1), 2), [(None, 100, 200)]);
        assert_eq!(stands(&[(150, 3, 2)], Some(1), 2), [(None, 100, 150), (Some(2), 150, 200)]);
        assert_eq!(stands(&[(150, 1, 2)], Some(1), 3), [(Some(1), 100, 150), (None, 150, 200)]);
    }

    #[test]
    fn a_move_before_the_wait_is_not_of_it() {
        assert_eq!(stands(&[(50, 1, 2)], Some(2), 2), [(Some(2), 100, 200)]);
    }
}
