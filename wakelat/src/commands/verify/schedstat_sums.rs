//! Adds up wakelat's waits of each task beside the kernel's own counters of it in `/proc/TID/schedstat`: how often
//! the task got a CPU, and for how long it was runnable without one (`sched_info`, kernel/sched/stats.h,
//! 5.10 to 7.2). Pure: [`super::schedstat_reading`] reads the counters.
//!
//! The counters are read at the start and at the end of the window. Between the two readings they agree
//! with wakelat, except for these known differences:
//!
//! - A task that waits when the programs attach and still waits at its first reading has one wait that only
//!   the kernel counts. The first reading shows its state as `R`.
//! - A wait that ends during a reading may be in it or not.
//! - The kernel counts a wait a little after wakelat's program saw its end: in the same switch
//!   (`sched_info_arrive`), but something, such as a hypervisor, may delay that CPU in between. Until the
//!   next wait ends on this CPU, a reading may lack the wait. This affects at most one wait for each CPU
//!   and reading.
//! - The kernel times a wait in pieces, one for each run queue: a migration adds the piece before it
//!   (`sched_info_dequeue`). So the last reading may contain pieces of a wait that is still pending.
//! - The kernel neither counts nor times some waits of tasks that were preempted in a sleeping state: see
//!   [`KernelCounts`].

use std::collections::HashMap;

use super::{
    schedstat_reading::{Reading, TaskReading},
    window::BracketSide,
};
use wakelat_common::sample::KernelCounts;
use wakelat_core::wait::{Comm, Wait};

/// Waits and schedstat readings of the tasks that live through the window.
pub struct TaskSchedstats {
    tasks: HashMap<u32, Task>,
    /// The last wait that ended on each CPU.
    last: HashMap<u32, Ended>,
    clock_ns: u64,
}

/// The end of a wait.
#[derive(Clone, Copy)]
struct Ended {
    tid: u32,
    at_ns: u64,
    kernel_counts: KernelCounts,
}

struct Task {
    comm: Comm,
    opened: Reading,
    closed: Option<Reading>,
    waits: u64,
    waited_ns: u128,
    /// When the last wait of this task ended.
    last_end_ns: Option<u64>,
    uncounted: u64,
    /// Waits that the kernel may or may not count.
    maybe_counted: u64,
    ambiguous: u64,
    /// Waits that ended before the first reading, but that the kernel may have counted after it.
    late_at_opening: u64,
    /// Waits that ended before the last reading, but that the kernel may have counted after it.
    late_at_closing: u64,
}

/// The kernel's and wakelat's numbers, summed over all tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedstatSums {
    /// Tasks that lived from the first reading to the last.
    pub tasks: u64,
    /// Tasks for which wakelat and the kernel have different numbers of waits.
    pub tasks_differ: u64,
    /// Waits that the kernel counted.
    pub kernel_waits: u64,
    /// Waits of all classes that wakelat measured, without the `uncounted` ones.
    pub own_waits: u64,
    /// Waits of tasks that were preempted while going to sleep, which the kernel does not count, and the `uncertain` ones.
    pub uncounted: u64,
    /// Waits of preempted tasks that the kernel may or may not count.
    pub uncertain: u64,
    /// Waits that ended during a reading of their task: the kernel's number may include them or not.
    pub ambiguous: u64,
    /// Waits that ended before a reading of their task, but that the kernel may have counted after it.
    pub late: u64,
    /// Tasks that were runnable at their first reading: each may have one wait that only the kernel counts.
    pub waiting: u64,
    /// Waits that only wakelat or only the kernel counted and that no known difference explains.
    pub unexplained: u64,
    /// The kernel's waiting time in ns, without `unfinished_ns`, of the tasks with equal numbers of waits
    /// and no ambiguous ones. Other tasks are left out, because the length of a wait that only one side has
    /// is not bounded.
    pub kernel_ns: u128,
    /// The waits in `kernel_ns`.
    pub timed_waits: u64,
    /// The part of the kernel's time, in ns, that pieces of waits still pending at the end may explain.
    pub unfinished_ns: u128,
    /// wakelat's waiting time of the same tasks as in `kernel_ns`, in ns.
    pub own_ns: u128,
}

impl TaskSchedstats {
    /// Takes the first reading of each task to compare. The kernel counts a wait within `clock_ns` of the
    /// time that wakelat's program reads at its end.
    pub fn open(readings: impl IntoIterator<Item = TaskReading>, clock_ns: u64) -> Self {
        let tasks = readings.into_iter().map(|task| (task.tid, Task::new(task.comm, task.reading)));
        Self { tasks: tasks.collect(), last: HashMap::new(), clock_ns }
    }

    /// Adds a wait as wakelat measured it, with `latency_ns` on the run queue.
    pub fn add(&mut self, wait: &Wait, latency_ns: u64) {
        let ended = Ended { tid: wait.tid, at_ns: wait.at_ns, kernel_counts: wait.kernel_counts };
        if let Some(before) = self.last.insert(wait.cpu, ended)
            && let Some(task) = self.tasks.get_mut(&before.tid)
        {
            let [opening, closing] = task.late(before, wait.at_ns, self.clock_ns);
            task.late_at_opening += u64::from(opening);
            task.late_at_closing += u64::from(closing);
        }
        let Some(task) = self.tasks.get_mut(&wait.tid) else { return };
        let side = |reading: Reading| reading.moment.side(wait.at_ns, self.clock_ns);
        match (side(task.opened), task.closed.map_or(BracketSide::Before, side)) {
            (BracketSide::Before, _) | (_, BracketSide::After) => return,
            (BracketSide::Between, _) | (_, BracketSide::Between) => {
                task.ambiguous += 1;
                return;
            }
            (BracketSide::After, BracketSide::Before) => {}
        }
        // The kernel's time is a lower bound, so the time of an uncounted wait may be included.
        task.waited_ns += u128::from(latency_ns);
        task.last_end_ns = task.last_end_ns.max(Some(wait.at_ns));
        let count = match wait.kernel_counts {
            KernelCounts::Yes => &mut task.waits,
            KernelCounts::No => &mut task.uncounted,
            KernelCounts::Unknown => &mut task.maybe_counted,
        };
        *count += 1;
    }

    /// Whether the task is compared. A task that has changed its name was wanted for only part of the window.
    pub fn compares(&self, tid: u32, comm: &Comm) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.comm == *comm)
    }

    /// Takes the last reading of each task that is [compared](Self::compares). A wait that is added later
    /// still counts if it ended before that.
    pub fn close(&mut self, readings: impl IntoIterator<Item = TaskReading>) {
        for TaskReading { tid, comm, reading } in readings {
            if self.compares(tid, &comm)
                && let Some(task) = self.tasks.get_mut(&tid)
            {
                task.closed = Some(reading);
            }
        }
        self.tasks.retain(|_, task| task.closed.is_some());
    }

    /// Sums up the tasks that lived until the last reading.
    pub fn sums(&self) -> SchedstatSums {
        let mut sums = SchedstatSums::default();
        for (tid, task) in &self.tasks {
            let Some(closed) = task.closed else { continue };
            let mut late = [task.late_at_opening, task.late_at_closing];
            for ended in self.last.values().filter(|ended| ended.tid == *tid) {
                let still = task.late(*ended, u64::MAX, self.clock_ns);
                late = [late[0] + u64::from(still[0]), late[1] + u64::from(still[1])];
            }
            let waits = closed.waits.saturating_sub(task.opened.waits);
            let waiting = u64::from(task.opened.runnable);
            let least = task.waits.saturating_sub(late[1]);
            let most = task.waits + waiting + task.ambiguous + task.maybe_counted + late[0];
            sums.tasks += 1;
            sums.tasks_differ += u64::from(waits != task.waits);
            sums.kernel_waits += waits;
            sums.own_waits += task.waits;
            sums.uncounted += task.uncounted + task.maybe_counted;
            sums.uncertain += task.maybe_counted;
            sums.ambiguous += task.ambiguous;
            sums.late += late[0] + late[1];
            sums.waiting += waiting;
            sums.unexplained += waits.abs_diff(waits.clamp(least, most));
            if waits == task.waits && task.ambiguous == 0 {
                let kernel_ns = u128::from(closed.waited_ns.saturating_sub(task.opened.waited_ns));
                let unfinished_ns = kernel_ns.saturating_sub(task.waited_ns).min(task.unfinished_ns(&closed));
                sums.kernel_ns += kernel_ns - unfinished_ns;
                sums.timed_waits += waits;
                sums.unfinished_ns += unfinished_ns;
                sums.own_ns += task.waited_ns;
            }
        }
        sums
    }
}

impl Task {
    fn new(comm: Comm, opened: Reading) -> Self {
        Self {
            comm,
            opened,
            closed: None,
            waits: 0,
            waited_ns: 0,
            last_end_ns: None,
            uncounted: 0,
            maybe_counted: 0,
            ambiguous: 0,
            late_at_opening: 0,
            late_at_closing: 0,
        }
    }

    /// For the first and the last reading, whether the kernel may have counted the wait `ended` of this
    /// task only after it, although the wait ended before. Possible only if the next wait on its CPU, which
    /// ended at `next_ns`, did not also end before the reading. A wait that the kernel perhaps never counts is not
    /// among wakelat's own, so that the last reading cannot lack it.
    fn late(&self, ended: Ended, next_ns: u64, clock_ns: u64) -> [bool; 2] {
        let may_be_late = |reading: Option<Reading>| {
            reading.is_some_and(|Reading { moment, .. }| {
                moment.side(ended.at_ns, clock_ns) == BracketSide::Before
                    && moment.side(next_ns, clock_ns) != BracketSide::Before
            })
        };
        [
            ended.kernel_counts != KernelCounts::No && may_be_late(Some(self.opened)),
            ended.kernel_counts == KernelCounts::Yes && may_be_late(self.closed),
        ]
    }

    /// Upper bound, in ns, of the pieces of a still pending wait in the last reading. That wait began after
    /// the end of the task's last wait; or, if the task was not runnable, after its state was read.
    fn unfinished_ns(&self, closed: &Reading) -> u128 {
        match (closed.runnable, self.last_end_ns) {
            (false, _) => closed.moment.length_ns().into(),
            (true, Some(last_end_ns)) => closed.moment.after_ns.saturating_sub(last_end_ns).into(),
            (true, None) => u128::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use wakelat_common::Class;

    use super::*;
    use crate::commands::verify::window::TimeBracket;
    use wakelat_core::render::testing;

    fn wait(tid: u32, at_ns: u64) -> Wait {
        Wait { tid, at_ns, class: Class::Preempted, ..testing::wait() }
    }

    /// A reading of sleeping task 7, which has had this many waits with this total time.
    fn reading(at_ns: u64, waits: u64, waited_ns: u64) -> TaskReading {
        let moment = TimeBracket { before_ns: at_ns, after_ns: at_ns };
        TaskReading { tid: 7, comm: Comm::new(b"name"), reading: Reading { moment, runnable: false, waits, waited_ns } }
    }

    fn in_state(state: char, task: TaskReading) -> TaskReading {
        TaskReading { reading: Reading { runnable: state == 'R', ..task.reading }, ..task }
    }

    fn lasting(ns: u64, task: TaskReading) -> TaskReading {
        let TimeBracket { before_ns, after_ns } = task.reading.moment;
        let moment = TimeBracket { before_ns, after_ns: after_ns + ns };
        TaskReading { reading: Reading { moment, ..task.reading }, ..task }
    }

    #[test]
    fn waits_between_the_two_readings_are_compared() {
        let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
        for at_ns in [49, 51, 70, 80, 99] {
            schedstats.add(&wait(7, at_ns), 10);
        }
        schedstats.add(&wait(8, 80), 10);
        schedstats.close([reading(100, 15, 1_045)]);
        // Two waits arrive late: one ended before the last reading, one after it.
        schedstats.add(&wait(7, 90), 10);
        schedstats.add(&wait(7, 101), 10);
        let sums = schedstats.sums();
        assert_eq!((sums.tasks, sums.tasks_differ), (1, 0));
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.ambiguous), (5, 5, 0));
        assert_eq!((sums.kernel_ns, sums.own_ns), (45, 50));
    }

    #[test]
    fn a_wait_that_ends_during_a_reading_may_be_in_it_or_not() {
        let mut schedstats = TaskSchedstats::open([lasting(10, reading(50, 10, 1_000))], 2);
        schedstats.close([lasting(10, reading(150, 12, 1_030))]);
        for at_ns in [47, 48, 62, 63, 147, 148, 162, 163] {
            schedstats.add(&wait(7, at_ns), 10);
        }
        let sums = schedstats.sums();
        assert_eq!((sums.own_waits, sums.ambiguous, sums.kernel_waits), (2, 4, 2));
        // The kernel's time may include any of the ambiguous waits, so it is not compared either.
        assert_eq!((sums.own_ns, sums.kernel_ns), (0, 0));
    }

    #[test]
    fn time_is_not_compared_if_the_numbers_differ() {
        let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
        schedstats.add(&wait(7, 80), 10);
        schedstats.close([reading(100, 12, 90_000)]);
        let sums = schedstats.sums();
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.tasks_differ), (2, 1, 1));
        assert_eq!((sums.kernel_ns, sums.own_ns), (0, 0));
    }

    #[test]
    fn the_kernel_does_not_count_a_wait_after_a_preemption_on_the_way_to_sleep() {
        let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
        schedstats.add(&wait(7, 80), 10);
        schedstats.add(&Wait { kernel_counts: KernelCounts::No, ..wait(7, 90) }, 10);
        schedstats.close([reading(100, 11, 1_010)]);
        let sums = schedstats.sums();
        assert_eq!((sums.own_waits, sums.own_ns, sums.uncounted, sums.tasks_differ), (1, 20, 1, 0));
    }

    #[test]
    fn only_a_task_runnable_at_the_first_reading_may_have_one_more_wait_in_the_kernel() {
        for (state, kernel_waits, unexplained) in [('S', 1, 0), ('S', 2, 1), ('R', 2, 0), ('R', 3, 1), ('R', 0, 1)] {
            let mut schedstats = TaskSchedstats::open([in_state(state, reading(50, 10, 1_000))], 0);
            [wait(7, 80), wait(9, 95)].iter().for_each(|wait| schedstats.add(wait, 10));
            schedstats.close([reading(100, 10 + kernel_waits, 1_010)]);
            let sums = schedstats.sums();
            assert_eq!(sums.unexplained, unexplained, "{state}, {kernel_waits} waits: {sums:?}");
        }
    }

    #[test]
    fn an_extra_wait_of_one_task_does_not_offset_a_missing_one_of_another() {
        let both = |at_ns, waits| [7, 8].map(|tid| TaskReading { tid, ..reading(at_ns, waits, 0) });
        let mut schedstats = TaskSchedstats::open(both(50, 0), 0);
        [wait(7, 80), wait(7, 90), wait(9, 95)].iter().for_each(|wait| schedstats.add(wait, 10));
        schedstats.close(both(100, 1));
        let sums = schedstats.sums();
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.unexplained), (2, 2, 2));
    }

    #[test]
    fn pieces_of_a_pending_wait_in_the_kernels_time_are_not_a_difference() {
        // 30 ns of the kernel's time are in no finished wait; the last one ended 20 ns before the last
        // reading.
        for (state, own_waits, unfinished_ns) in [('S', 1, 0), ('R', 1, 20), ('R', 0, 30)] {
            let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
            (0..own_waits).for_each(|_| schedstats.add(&wait(7, 80), 10));
            schedstats.close([in_state(state, reading(100, 10 + own_waits, 1_030 + 10 * own_waits))]);
            let sums = schedstats.sums();
            assert_eq!(
                (sums.unfinished_ns, sums.kernel_ns),
                (unfinished_ns, 30 + 10 * u128::from(own_waits) - unfinished_ns)
            );
        }
    }

    #[test]
    fn a_wait_may_be_on_one_side_only_if_it_is_not_known_whether_the_kernel_counts_it() {
        use KernelCounts::{No, Unknown, Yes};
        for (kernel_counts, by_kernel, unexplained) in
            [(Yes, 1, 0), (Yes, 0, 1), (No, 0, 0), (No, 1, 1), (Unknown, 0, 0), (Unknown, 1, 0), (Unknown, 2, 1)]
        {
            let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
            schedstats.add(&Wait { kernel_counts, ..wait(7, 80) }, 10);
            // So that the reading cannot lack the wait.
            schedstats.add(&wait(9, 95), 10);
            schedstats.close([reading(100, 10 + by_kernel, 1_010)]);
            assert_eq!(schedstats.sums().unexplained, unexplained, "{kernel_counts:?}, by the kernel: {by_kernel}");
        }
    }

    #[test]
    fn the_last_wait_on_a_cpu_before_a_reading_may_be_counted_after_it() {
        let unexplained = |ends: &[(u32, u64)], kernel_waits: u64| {
            let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
            ends.iter().for_each(|(tid, at_ns)| schedstats.add(&wait(*tid, *at_ns), 10));
            schedstats.close([reading(100, 10 + kernel_waits, 1_000)]);
            schedstats.add(&wait(8, 120), 10);
            schedstats.sums().unexplained
        };
        // Before the first reading: the kernel has one more, unless a later wait ended on that CPU.
        assert_eq!(unexplained(&[(7, 45), (7, 70), (8, 90)], 2), 0);
        assert_eq!(unexplained(&[(7, 45), (8, 48), (7, 70), (8, 90)], 2), 1);
        // Before the last reading: the kernel has one less.
        assert_eq!(unexplained(&[(7, 70), (7, 90)], 1), 0);
        assert_eq!(unexplained(&[(7, 70), (7, 90), (8, 95)], 1), 1);
        assert_eq!(unexplained(&[(7, 70), (7, 90)], 0), 1);
    }

    #[test]
    fn a_wait_that_the_kernel_perhaps_counts_may_be_late_for_the_first_reading() {
        for (kernel_counts, unexplained) in [(KernelCounts::Unknown, 0), (KernelCounts::No, 1)] {
            let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
            schedstats.add(&Wait { kernel_counts, ..wait(7, 45) }, 10);
            schedstats.add(&wait(9, 95), 10);
            schedstats.close([reading(100, 11, 1_010)]);
            assert_eq!(schedstats.sums().unexplained, unexplained, "{kernel_counts:?}");
        }
    }

    #[test]
    fn a_task_that_starts_or_exits_in_the_window_is_left_out() {
        let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
        schedstats.close([TaskReading { tid: 8, ..reading(100, 14, 1_045) }]);
        assert_eq!(schedstats.sums(), SchedstatSums::default());
    }

    #[test]
    fn a_task_that_has_changed_its_name_is_left_out() {
        let mut schedstats = TaskSchedstats::open([reading(50, 10, 1_000)], 0);
        assert!(schedstats.compares(7, &Comm::new(b"name")));
        assert!(!schedstats.compares(7, &Comm::new(b"other")) && !schedstats.compares(8, &Comm::new(b"name")));
        schedstats.close([TaskReading { comm: Comm::new(b"other"), ..reading(100, 14, 1_045) }]);
        assert_eq!(schedstats.sums(), SchedstatSums::default());
    }
}
