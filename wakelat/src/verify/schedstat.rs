//! The kernel's own account of every task, in `/proc/TID/schedstat`: how often it was given a CPU, and for how long it had
//! been runnable without one (`sched_info`, kernel/sched/stats.h, 5.10 to 7.2).
//!
//! A task that is preempted while its state says that it sleeps waits like any other, but not to the kernel, which asks for
//! that state only (`sched_info_depart`): such a wait is neither counted there nor timed.

use std::{collections::HashMap, fs, path::Path};

use super::window::{Moment, Side};
use crate::wait::{Comm, Wait};

/// The accounts of the tasks that live through the window.
pub struct Accounts {
    tasks: HashMap<u32, Task>,
    clock_ns: u64,
}

struct Task {
    comm: Comm,
    opened: Reading,
    closed: Option<Reading>,
    waits: u64,
    waited_ns: u128,
    uncounted: u64,
    ambiguous: u64,
}

/// An account, read at some time in `moment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    moment: Moment,
    waits: u64,
    waited_ns: u64,
}

/// Both accounts, all tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
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
    /// The kernel's run-queue wait of the tasks whose number of waits is the same, none of them ambiguous: ns. Nothing
    /// bounds a wait that only one account has.
    pub kernel_ns: u128,
    /// wakelat's, of the same tasks: ns.
    pub own_ns: u128,
}

impl Accounts {
    /// Opens an account for each task there is, as far as `wanted`. The kernel counts a wait within `clock_ns` of the time that
    /// wakelat's program reads at its end.
    pub fn open(proc: &Path, now_ns: impl Fn() -> u64, clock_ns: u64, wanted: impl Fn(u32, &Comm) -> bool) -> Self {
        let tasks = tids(proc).filter_map(|(tid, path)| {
            let comm = comm(&path)?;
            let opened = wanted(tid, &comm).then(|| Reading::of(&path, &now_ns)).flatten()?;
            Some((tid, Task { comm, opened, closed: None, waits: 0, waited_ns: 0, uncounted: 0, ambiguous: 0 }))
        });
        Self { tasks: tasks.collect(), clock_ns }
    }

    /// Whether anybody has an account.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Adds a wait as wakelat sees it; `latency_ns` on the run queue.
    pub fn add(&mut self, wait: &Wait, latency_ns: u64) {
        let Some(task) = self.tasks.get_mut(&wait.tid) else { return };
        let side = |reading: Reading| reading.moment.side(wait.at_ns, self.clock_ns);
        match (side(task.opened), task.closed.map_or(Side::Before, side)) {
            (Side::Before, _) | (_, Side::After) => return,
            (Side::Between, _) | (_, Side::Between) => {
                task.ambiguous += 1;
                return;
            }
            (Side::After, Side::Before) => {}
        }
        // Of the time the kernel's is a lower bound in any case.
        task.waited_ns += u128::from(latency_ns);
        *if wait.wakeable { &mut task.uncounted } else { &mut task.waits } += 1;
    }

    /// Closes the accounts. What is still to come is added where it ended before.
    pub fn close(&mut self, proc: &Path, now_ns: impl Fn() -> u64) {
        for (tid, path) in tids(proc) {
            if let Some(task) = self.tasks.get_mut(&tid) {
                // A task that calls itself something else was wanted for a part of the time only.
                let same = comm(&path) == Some(task.comm);
                task.closed = same.then(|| Reading::of(&path, &now_ns)).flatten();
            }
        }
        self.tasks.retain(|_, task| task.closed.is_some());
    }

    /// Both accounts of those who lived to the end.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for task in self.tasks.values() {
            let Some(closed) = task.closed else { continue };
            let waits = closed.waits.saturating_sub(task.opened.waits);
            sums.tasks += 1;
            sums.tasks_differ += u64::from(waits != task.waits);
            sums.kernel_waits += waits;
            sums.own_waits += task.waits;
            sums.uncounted += task.uncounted;
            sums.ambiguous += task.ambiguous;
            if waits == task.waits && task.ambiguous == 0 {
                sums.kernel_ns += u128::from(closed.waited_ns.saturating_sub(task.opened.waited_ns));
                sums.own_ns += task.waited_ns;
            }
        }
        sums
    }
}

impl Reading {
    fn of(task: &Path, now_ns: impl Fn() -> u64) -> Option<Self> {
        let (moment, text) = Moment::of(now_ns, || fs::read_to_string(task.join("schedstat"))).ok()?;
        let (waits, waited_ns) = parse(&text)?;
        Some(Self { moment, waits, waited_ns })
    }
}

/// Number and length of the waits, from `ON_CPU_NS WAITED_NS TIMES` (`proc_pid_schedstat`, fs/proc/base.c).
fn parse(schedstat: &str) -> Option<(u64, u64)> {
    let mut words = schedstat.split_whitespace().skip(1).map(|word| word.parse().ok());
    let waited_ns = words.next()??;
    Some((words.next()??, waited_ns))
}

fn comm(task: &Path) -> Option<Comm> {
    let bytes = fs::read(task.join("comm")).ok()?;
    Some(Comm::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
}

/// All threads, each with its directory.
fn tids(proc: &Path) -> impl Iterator<Item = (u32, std::path::PathBuf)> {
    let numbered = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()));
    let processes = fs::read_dir(proc).into_iter().flatten().flatten().filter_map(numbered);
    processes
        .flat_map(move |(_, path)| fs::read_dir(path.join("task")).into_iter().flatten().flatten().filter_map(numbered))
}

#[cfg(test)]
mod tests {
    use wakelat_common::Class;

    use super::*;
    use crate::sink::fixtures;

    fn wait(tid: u32, at_ns: u64) -> Wait {
        Wait { tid, at_ns, class: Class::Preempted, ..fixtures::wait() }
    }

    /// A procfs with one thread that has waited so often for so long.
    fn proc(tid: u32, waits: u64, waited_ns: u64) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let task = directory.path().join(format!("{tid}/task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), "name\n").unwrap();
        fs::write(task.join("schedstat"), format!("77 {waited_ns} {waits}\n")).unwrap();
        directory
    }

    #[test]
    fn waits_between_the_two_readings_are_compared() {
        let mut accounts = Accounts::open(proc(7, 10, 1_000).path(), || 50, 0, |_, _| true);
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
        let mut accounts = Accounts::open(proc(7, 10, 1_000).path(), clock(50), 2, |_, _| true);
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
        let mut accounts = Accounts::open(proc(7, 10, 1_000).path(), || 50, 0, |_, _| true);
        accounts.add(&wait(7, 80), 10);
        accounts.close(proc(7, 12, 90_000).path(), || 100);
        let sums = accounts.sums();
        assert_eq!((sums.kernel_waits, sums.own_waits, sums.tasks_differ), (2, 1, 1));
        assert_eq!((sums.kernel_ns, sums.own_ns), (0, 0));
    }

    #[test]
    fn a_wait_after_a_preemption_on_the_way_to_sleep_is_not_in_the_kernels_account() {
        let mut accounts = Accounts::open(proc(7, 10, 1_000).path(), || 50, 0, |_, _| true);
        accounts.add(&wait(7, 80), 10);
        accounts.add(&Wait { wakeable: true, ..wait(7, 90) }, 10);
        accounts.close(proc(7, 11, 1_010).path(), || 100);
        let sums = accounts.sums();
        assert_eq!((sums.own_waits, sums.own_ns, sums.uncounted, sums.tasks_differ), (1, 20, 1, 0));
    }

    #[test]
    fn a_task_that_ends_or_comes_is_left_out() {
        let mut accounts = Accounts::open(proc(7, 10, 1_000).path(), || 50, 0, |_, _| true);
        accounts.close(proc(8, 14, 1_045).path(), || 100);
        assert_eq!(accounts.sums(), Sums::default());
    }

    #[test]
    fn only_those_wanted_have_an_account() {
        let open = |name: &[u8]| {
            let wanted = Comm::new(name);
            Accounts::open(proc(7, 1, 1).path(), || 50, 0, move |tid, comm| tid == 7 && *comm == wanted)
        };
        assert!(!open(b"name").is_empty() && open(b"other").is_empty());
    }
}
