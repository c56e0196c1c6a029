//! The kernel's own account of every task, in `/proc/TID/schedstat`: how often it was given a CPU, and for how long it had
//! been runnable without one (`sched_info`, kernel/sched/stats.h, 5.10 to 7.2).
//!
//! The two accounts of a task agree but for its borders, which are known:
//!
//! - A task that waits when the programs attach and still waits when its account is opened has one wait that only the kernel
//!   counts. Its state is `R` at the opening.
//! - A wait that ends while an account is read may be in it or not.
//! - The kernel counts a wait a little after wakelat's program has seen its end: in the same switch (`sched_info_arrive`), but
//!   something else may hold that CPU up in between, such as a hypervisor. Until the next wait ends on this CPU, an account
//!   may be read that does not have it yet. So it is with one wait for each CPU and reading at most.
//! - The kernel times a wait in pieces, one for each run queue: a move adds the piece before it (`sched_info_dequeue`). So
//!   its account may have pieces of a wait that is not over when the account is closed.
//! - A task that is preempted while its state says that it sleeps waits like any other, but not to the kernel, which asks for
//!   that state only (`sched_info_depart`): it neither counts nor times such a wait, unless the task moves to another run
//!   queue, where its wait begins for the kernel (`sched_info_enqueue`).

use std::{collections::HashMap, path::Path};

use super::{
    reading::{Reading, comm},
    window::BracketSide,
};
use crate::{
    kernel::schedstat::threads,
    wait::{Comm, Wait},
};

/// The accounts of the tasks that live through the window.
pub struct TaskSchedstats {
    tasks: HashMap<u32, Task>,
    /// The wait that ended last on each CPU.
    last: HashMap<u32, Ended>,
    clock_ns: u64,
    classic: bool,
}

/// The end of a wait.
#[derive(Clone, Copy)]
struct Ended {
    tid: u32,
    at_ns: u64,
    preempted_sleeping: bool,
}

struct Task {
    comm: Comm,
    opened: Reading,
    closed: Option<Reading>,
    waits: u64,
    waited_ns: u128,
    /// When the last of these waits ended.
    last_end_ns: Option<u64>,
    uncounted: u64,
    /// Those of the uncounted waits that the kernel may count.
    maybe_counted: u64,
    ambiguous: u64,
    /// Waits that the kernel may have counted after the account was opened, though they ended before.
    late_at_opening: u64,
    /// The same of the account's closing.
    late_at_closing: u64,
}

/// Both accounts, all tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedstatSums {
    /// Tasks that lived from one reading to the other.
    pub tasks: u64,
    /// Those of them whose number of waits differs.
    pub tasks_differ: u64,
    /// Waits in the kernel's account.
    pub kernel_waits: u64,
    /// Waits that wakelat delivered, of all classes, but for those that the kernel does not count.
    pub own_waits: u64,
    /// Waits after a preemption on the way to sleep, which the kernel does not count.
    pub uncounted: u64,
    /// Waits that ended while their task's account was being read: the kernel's account may have them or not.
    pub ambiguous: u64,
    /// Waits whose end the kernel may have been about to count when their task's account was read.
    pub late: u64,
    /// Tasks that were runnable when their account was opened: each may have one wait that only the kernel counts.
    pub waiting: u64,
    /// Waits in one account only that no border of their task's account explains.
    pub unexplained: u64,
    /// The kernel's run-queue wait of the tasks whose number of waits is the same, none of them ambiguous, without
    /// `unfinished_ns`: ns. Nothing bounds a wait that only one account has.
    pub kernel_ns: u128,
    /// The part of the kernel's time that pieces of waits that were not over at the end may explain: ns.
    pub unfinished_ns: u128,
    /// wakelat's, of the same tasks: ns.
    pub own_ns: u128,
}

impl TaskSchedstats {
    /// Opens an account for each task there is, as far as `wanted`. The kernel counts a wait within `clock_ns` of the time that
    /// wakelat's program reads at its end.
    ///
    /// `classic`: the programs cannot distinguish a preemption on the way to sleep from others, so that the kernel may count
    /// any wait after one.
    pub fn open(
        proc: &Path,
        now_ns: impl Fn() -> u64,
        clock_ns: u64,
        classic: bool,
        wanted: impl Fn(u32, &Comm) -> bool,
    ) -> Self {
        let tasks = threads(proc).filter_map(|(tid, path)| {
            let comm = comm(&path)?;
            let opened = wanted(tid, &comm).then(|| Reading::of(&path, &now_ns)).flatten()?;
            Some((tid, Task::new(comm, opened)))
        });
        Self { tasks: tasks.collect(), last: HashMap::new(), clock_ns, classic }
    }

    /// Whether anybody has an account.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Adds a wait as wakelat sees it; `latency_ns` on the run queue.
    pub fn add(&mut self, wait: &Wait, latency_ns: u64) {
        let ended = Ended { tid: wait.tid, at_ns: wait.at_ns, preempted_sleeping: wait.preempted_sleeping };
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
        // Of the time the kernel's is a lower bound in any case.
        task.waited_ns += u128::from(latency_ns);
        task.last_end_ns = task.last_end_ns.max(Some(wait.at_ns));
        if wait.preempted_sleeping {
            task.uncounted += 1;
            task.maybe_counted += u64::from(self.classic || wait.prev_cpu != Some(wait.cpu));
        } else {
            task.waits += 1;
        }
    }

    /// Closes the accounts. What is still to come is added where it ended before.
    pub fn close(&mut self, proc: &Path, now_ns: impl Fn() -> u64) {
        for (tid, path) in threads(proc) {
            if let Some(task) = self.tasks.get_mut(&tid) {
                // A task that calls itself something else was wanted for a part of the time only.
                let same = comm(&path) == Some(task.comm);
                task.closed = same.then(|| Reading::of(&path, &now_ns)).flatten();
            }
        }
        self.tasks.retain(|_, task| task.closed.is_some());
    }

    /// Both accounts of those who lived to the end.
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
            sums.uncounted += task.uncounted;
            sums.ambiguous += task.ambiguous;
            sums.late += late[0] + late[1];
            sums.waiting += waiting;
            sums.unexplained += waits.abs_diff(waits.clamp(least, most));
            if waits == task.waits && task.ambiguous == 0 {
                let kernel_ns = u128::from(closed.waited_ns.saturating_sub(task.opened.waited_ns));
                let unfinished_ns = kernel_ns.saturating_sub(task.waited_ns).min(task.unfinished_ns(&closed));
                sums.kernel_ns += kernel_ns - unfinished_ns;
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

    /// Whether the kernel may have counted the wait `ended` of this task only after the account was opened, or closed: the next
    /// one on its CPU ended at `next_ns`, and not before that.
    fn late(&self, ended: Ended, next_ns: u64, clock_ns: u64) -> [bool; 2] {
        [Some(self.opened), self.closed].map(|reading| {
            reading.is_some_and(|Reading { moment, .. }| {
                !ended.preempted_sleeping
                    && moment.side(ended.at_ns, clock_ns) == BracketSide::Before
                    && moment.side(next_ns, clock_ns) != BracketSide::Before
            })
        })
    }

    /// The most that the kernel's account may have of a wait that was not over when it was closed: ns. It began after the last wait
    /// that was over; or, if the task was not runnable, after its state was read.
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
    use std::fs;

    use wakelat_common::Class;

    use super::*;
    use crate::sink::fixtures;

    fn wait(tid: u32, at_ns: u64) -> Wait {
        Wait { tid, at_ns, class: Class::Preempted, ..fixtures::wait() }
    }

    /// A procfs with one thread that sleeps and has waited so often for so long.
    fn proc(tid: u32, waits: u64, waited_ns: u64) -> tempfile::TempDir {
        proc_in_state('S', tid, waits, waited_ns)
    }

    fn proc_in_state(state: char, tid: u32, waits: u64, waited_ns: u64) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let task = directory.path().join(format!("{tid}/task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), "name\n").unwrap();
        fs::write(task.join("stat"), format!("{tid} (a) R ) {state} 1 1 0")).unwrap();
        fs::write(task.join("schedstat"), format!("77 {waited_ns} {waits}\n")).unwrap();
        directory
    }

    #[test]
    fn waits_between_the_two_readings_are_compared() {
        let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
        for at_ns in [49, 51, 70, 80, 99] {
            accounts.add(&wait(7, at_ns), 10);
        }
        accounts.add(&wait(8, 80), 10);
        accounts.close(proc(7, 15, 1_045).path(), || 100);
        // One that ended before comes late, and one after.
        accounts.add(&wait(7, 90), 10);
        accounts.add(&wait(7, 101), 10);
        let sums = accounts.sums();
        assert_eq!((sums.tasks, sums.tasks_differ), (1, 0));
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.ambiguous), (5, 5, 0));
        assert_eq!((sums.kernel_ns, sums.own_ns), (45, 50));
    }

    #[test]
    fn a_wait_that_ends_while_its_account_is_read_may_be_in_it_or_not() {
        // Both readings begin when the clock shows 50 and 150, and end at 60 and 160.
        let clock = |first: u64| {
            let next = std::cell::Cell::new(first);
            move || next.replace(next.get() + 10)
        };
        let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), clock(50), 2, false, |_, _| true);
        accounts.close(proc(7, 12, 1_030).path(), clock(150));
        for at_ns in [47, 48, 62, 63, 147, 148, 162, 163] {
            accounts.add(&wait(7, at_ns), 10);
        }
        let sums = accounts.sums();
        assert_eq!((sums.own_waits, sums.ambiguous, sums.kernel_waits), (2, 4, 2));
        // Which of them the kernel's time has is not known either.
        assert_eq!((sums.own_ns, sums.kernel_ns), (0, 0));
    }

    #[test]
    fn where_the_number_differs_the_time_says_nothing() {
        let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
        accounts.add(&wait(7, 80), 10);
        accounts.close(proc(7, 12, 90_000).path(), || 100);
        let sums = accounts.sums();
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.tasks_differ), (2, 1, 1));
        assert_eq!((sums.kernel_ns, sums.own_ns), (0, 0));
    }

    #[test]
    fn a_wait_after_a_preemption_on_the_way_to_sleep_is_not_in_the_kernels_account() {
        let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
        accounts.add(&wait(7, 80), 10);
        accounts.add(&Wait { preempted_sleeping: true, ..wait(7, 90) }, 10);
        accounts.close(proc(7, 11, 1_010).path(), || 100);
        let sums = accounts.sums();
        assert_eq!((sums.own_waits, sums.own_ns, sums.uncounted, sums.tasks_differ), (1, 20, 1, 0));
    }

    #[test]
    fn only_a_task_that_was_runnable_at_the_opening_may_have_one_wait_more_in_the_kernels_account() {
        for (state, kernel_waits, unexplained) in [('S', 1, 0), ('S', 2, 1), ('R', 2, 0), ('R', 3, 1), ('R', 0, 1)] {
            let opened = proc_in_state(state, 7, 10, 1_000);
            let mut accounts = TaskSchedstats::open(opened.path(), || 50, 0, false, |_, _| true);
            [wait(7, 80), wait(9, 95)].iter().for_each(|wait| accounts.add(wait, 10));
            accounts.close(proc(7, 10 + kernel_waits, 1_010).path(), || 100);
            let sums = accounts.sums();
            assert_eq!(sums.unexplained, unexplained, "{state}, {kernel_waits} waits: {sums:?}");
        }
    }

    #[test]
    fn a_wait_too_many_of_one_task_does_not_make_up_for_one_that_another_lacks() {
        let directory = |waits: [u64; 2]| {
            let both = tempfile::tempdir().unwrap();
            for (tid, waits) in (7..).zip(waits) {
                let one = proc(tid, waits, 0);
                fs::rename(one.path().join(tid.to_string()), both.path().join(tid.to_string())).unwrap();
            }
            both
        };
        let mut accounts = TaskSchedstats::open(directory([0, 0]).path(), || 50, 0, false, |_, _| true);
        [wait(7, 80), wait(7, 90), wait(9, 95)].iter().for_each(|wait| accounts.add(wait, 10));
        accounts.close(directory([1, 1]).path(), || 100);
        let sums = accounts.sums();
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.unexplained), (2, 2, 2));
    }

    #[test]
    fn what_the_kernel_has_of_a_wait_that_is_not_over_is_no_difference() {
        // 30 ns of the kernel's time lie in no wait that is over; the last one ended 20 ns before the account was closed.
        for (state, own_waits, unfinished_ns) in [('S', 1, 0), ('R', 1, 20), ('R', 0, 30)] {
            let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
            (0..own_waits).for_each(|_| accounts.add(&wait(7, 80), 10));
            let closed = proc_in_state(state, 7, 10 + own_waits, 1_030 + 10 * own_waits);
            accounts.close(closed.path(), || 100);
            let sums = accounts.sums();
            assert_eq!(
                (sums.unfinished_ns, sums.kernel_ns),
                (unfinished_ns, 30 + 10 * u128::from(own_waits) - unfinished_ns)
            );
        }
    }

    #[test]
    fn a_preemption_on_the_way_to_sleep_counts_for_the_kernel_where_the_task_moved() {
        for (prev_cpu, classic, unexplained) in [(1, false, 1), (0, false, 0), (1, true, 0)] {
            let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, classic, |_, _| true);
            accounts.add(&Wait { preempted_sleeping: true, cpu: 1, prev_cpu: Some(prev_cpu), ..wait(7, 90) }, 10);
            accounts.close(proc(7, 11, 1_010).path(), || 100);
            assert_eq!(accounts.sums().unexplained, unexplained, "from CPU {prev_cpu}, classic: {classic}");
        }
    }

    #[test]
    fn the_last_wait_on_a_cpu_before_a_reading_may_be_counted_after_it() {
        let unexplained = |ends: &[(u32, u64)], kernel_waits: u64| {
            let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
            ends.iter().for_each(|(tid, at_ns)| accounts.add(&wait(*tid, *at_ns), 10));
            accounts.close(proc(7, 10 + kernel_waits, 1_000).path(), || 100);
            accounts.add(&wait(8, 120), 10);
            accounts.sums().unexplained
        };
        // Before the opening: the kernel has one more, unless another task has had that CPU since.
        assert_eq!(unexplained(&[(7, 45), (7, 70), (8, 90)], 2), 0);
        assert_eq!(unexplained(&[(7, 45), (8, 48), (7, 70), (8, 90)], 2), 1);
        // Before the closing: it has one less.
        assert_eq!(unexplained(&[(7, 70), (7, 90)], 1), 0);
        assert_eq!(unexplained(&[(7, 70), (7, 90), (8, 95)], 1), 1);
        assert_eq!(unexplained(&[(7, 70), (7, 90)], 0), 1);
    }

    #[test]
    fn a_task_that_ends_or_comes_is_left_out() {
        let mut accounts = TaskSchedstats::open(proc(7, 10, 1_000).path(), || 50, 0, false, |_, _| true);
        accounts.close(proc(8, 14, 1_045).path(), || 100);
        assert_eq!(accounts.sums(), SchedstatSums::default());
    }

    #[test]
    fn only_those_wanted_have_an_account() {
        let open = |name: &[u8]| {
            let wanted = Comm::new(name);
            TaskSchedstats::open(proc(7, 1, 1).path(), || 50, 0, false, move |tid, comm| tid == 7 && *comm == wanted)
        };
        assert!(!open(b"name").is_empty() && open(b"other").is_empty());
    }
}
