//! Deterministic loads with known counts.
//!
//! A process of its own performs a load: the test program, run once more. It stages its tasks, which
//! block. The test waits until the kernel reports them blocked, sets up its instruments, and gives the
//! start signal. The load performs and reports what it knows about itself, and its tasks block again
//! until the test has taken its last reading. No step waits for time to pass.

use std::{
    collections::BTreeMap,
    fmt,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    account::Account,
    concurrent::runs_concurrently,
    machine,
    procfs::{self, TaskStats},
    supervisor::Supervisor,
    task,
};

mod cause_times;
mod cgroup_mover;
mod cpu_hold;
mod cross_wake;
mod forks;
mod hogs;
mod many_threads;
mod messaging;
mod migration;
mod ping_pong;
mod pipe;
mod planted;
mod preempted_sleeping;
mod renamed;
mod signal_storm;
mod sleeper;
mod stage;
mod thread_pair;
mod victim;
mod wake_race;
mod woken_together;
mod woken_twice;

pub use cause_times::TimeBounds;
pub use cgroup_mover::CgroupMover;
pub use cpu_hold::CpuHold;
pub use cross_wake::CrossWake;
pub use forks::ForkWorkload;
pub use hogs::Hogs;
pub use many_threads::ManyThreads;
pub use messaging::Messaging;
pub use migration::MigrationWorkload;
pub use ping_pong::PingPong;
pub use pipe::Pipe;
pub use planted::{Planted, PlantedCause};
pub use preempted_sleeping::PreemptedSleeping;
pub use renamed::Renamed;
pub use signal_storm::SignalStorm;
pub use sleeper::{BehindHog, Sleeper};
use stage::{Stage, StagedTasks};
pub use thread_pair::ThreadPair;
pub use wake_race::WakeRace;
pub use woken_together::WokenTogether;
pub use woken_twice::WokenTwice;

/// First argument that makes the test program perform a workload; the second is its description.
pub const ARGUMENT: &str = "--perform";

/// Generous, because the kernel may run in an emulator.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A load and its parameters, as the test passes them to the process that performs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Workload {
    /// See [`CgroupMover`].
    CgroupMover(CgroupMover),
    /// See [`CrossWake`].
    CrossWake(CrossWake),
    /// See [`ForkWorkload`].
    Forks(ForkWorkload),
    /// See [`CpuHold`].
    Held(CpuHold),
    /// See [`Hogs`].
    Hogs(Hogs),
    /// See [`ManyThreads`].
    ManyThreads(ManyThreads),
    /// See [`Messaging`].
    Messaging(Messaging),
    /// See [`MigrationWorkload`].
    Migration(MigrationWorkload),
    /// See [`PingPong`].
    PingPong(PingPong),
    /// See [`Pipe`].
    Pipe(Pipe),
    /// See [`Planted`].
    Planted(Planted),
    /// See [`PreemptedSleeping`].
    PreemptedSleeping(PreemptedSleeping),
    /// See [`Renamed`].
    Renamed(Renamed),
    /// See [`SignalStorm`].
    SignalStorm(SignalStorm),
    /// See [`Sleeper`].
    Sleeper(Sleeper),
    /// See [`BehindHog`].
    BehindHog(BehindHog),
    /// See [`ThreadPair`].
    ThreadPair(ThreadPair),
    /// See [`WakeRace`].
    WakeRace(WakeRace),
    /// See [`WokenTogether`].
    WokenTogether(WokenTogether),
    /// See [`WokenTwice`].
    WokenTwice(WokenTwice),
}

/// What a load knows about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// How often each task had to block, and so to be woken, by its name, if the load makes that exact.
    pub wakeups: BTreeMap<String, u64>,
    /// Waits measured by the tasks: from the waker's clock read before its system call to the wakee's
    /// after its own: ns.
    pub waits_ns: Vec<u64>,
    /// When the first clock of each of `waits_ns` was read, if the load records it: ns of
    /// CLOCK_MONOTONIC.
    pub began_ns: Vec<u64>,
    /// How long each cause of a wait took by its own clock, by its name and for each wait, if the load
    /// plants causes.
    pub took: BTreeMap<String, Vec<TimeBounds>>,
}

/// A performance, as the load and the kernel know it.
#[derive(Clone)]
pub struct Performance {
    /// What the load reported.
    pub reported: LoadReport,
    /// Wakeups of each of the tasks that [`LoadReport::wakeups`] names: how often it blocked by the
    /// kernel's own accounting, which agrees with the load except for what [`Staged::perform`] describes.
    pub wakeups: BTreeMap<String, u64>,
    /// What the performance added to the kernel's counters of each task, by thread ID. The tasks were
    /// blocked at both ends.
    pub task_stats: BTreeMap<u32, TaskStats>,
    /// How long the performance took, including the time until the tasks blocked again: ns.
    pub duration_ns: u64,
    /// How many of its waits may have been invisible to every instrument: see [`crate::supervisor`].
    pub untraced: u64,
    /// How long tasks that no instrument sees ran meanwhile, on all CPUs: ns.
    pub hidden_ns: u64,
    /// CPU time that went to others than the load's tasks, on all CPUs: ns, in steps of a tick. Includes interrupts and
    /// what the hypervisor took.
    pub foreign_ns: u64,
    /// What the hypervisor took, on all CPUs: ns, in steps of a tick.
    pub stolen_ns: u64,
}

/// Leaves out the individual waits, because there may be thousands.
impl fmt::Debug for Performance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Performance")
            .field("reported.wakeups", &self.reported.wakeups)
            .field("wakeups", &self.wakeups)
            .field("task_stats", &self.task_stats)
            .field("duration_ns", &self.duration_ns)
            .field("untraced", &self.untraced)
            .finish_non_exhaustive()
    }
}

impl Performance {
    /// How often the tasks blocked, in total.
    pub fn blocked(&self) -> u64 {
        self.task_stats.values().map(|stats| stats.voluntary).sum()
    }

    /// Wakeups of all tasks, if the load makes them exact.
    pub fn wakeups(&self) -> u64 {
        self.wakeups.values().sum()
    }
}

/// A load whose tasks exist and are blocked. Dropping it kills them.
pub struct Staged {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    tasks: StagedTasks,
}

impl Workload {
    /// Like [`Self::stage`], at nice 19: for a load that never ends by itself. At nice 0, the fair scheduler of Linux 6.18 can
    /// starve the kernel's own workers beside it for minutes, and with them whatever waits for a grace period.
    pub fn stage_nice(self) -> Staged {
        let nice = task::Niceness::lower(19);
        let staged = self.stage();
        drop(nice);
        staged
    }

    /// Stages the load and returns once its tasks are blocked.
    pub fn stage(self) -> Staged {
        let description = serde_json::to_string(&self).expect("plain data");
        let mut child = Command::new("/proc/self/exe")
            .args([ARGUMENT, &description])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test program can be run once more");
        let input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let tasks = read_message(&mut output);
        let staged = Staged { child, input, output, tasks };
        staged.until_blocked();
        staged
    }
}

impl Staged {
    /// The thread with this name.
    pub fn tid(&self, name: &str) -> u32 {
        *self.tasks.tids.get(name).unwrap_or_else(|| panic!("no task `{name}` among {:?}", self.tasks))
    }

    /// Lets the load perform, and returns once its tasks are blocked again.
    ///
    /// The kernel must have seen each task block as often as the load reports, and at most once more at
    /// each of the pipes that it shares with others, where it may meet another task on another CPU and
    /// sleep for the pipe's mutex (`pipe_read`, `pipe_write`, fs/pipe.c). Only under PREEMPT_RT may
    /// there be more: a task may sleep for a spinlock there, so a task that runs at once when it is
    /// woken finds its waker still holding the lock of the wait queue (`__wake_up_sync_key` in
    /// `pipe_write`), blocks once more in `schedule_rtlock`, and is woken by the unlock. That is a wait
    /// like any other. It happens at every wakeup by a task of lower priority on the same CPU, such as
    /// at the gate of a SCHED_FIFO task, and elsewhere by chance.
    pub fn perform(&mut self) -> Performance {
        let of_all = |of: fn(usize) -> u64| machine::cpus().into_iter().map(of).sum::<u64>();
        let (idle_ns, stolen_ns) = (|| of_all(machine::idle_ns), || of_all(machine::stolen_ns));
        let (before, supervisor) = (self.task_stats(), Supervisor::now());
        let (idle_before_ns, stolen_before_ns) = (idle_ns(), stolen_ns());
        let begin = Instant::now();
        self.begin();
        let reported = self.await_outcome();
        let duration_ns = begin.elapsed().as_nanos() as u64;
        let after = self.task_stats().into_iter();
        let task_stats: BTreeMap<u32, TaskStats> = after.map(|(tid, after)| (tid, after - before[&tid])).collect();
        let own_ns = idle_ns() - idle_before_ns + task_stats.values().map(|stats| stats.ran_ns).sum::<u64>();
        let foreign_ns = (duration_ns * machine::cpus().len() as u64).saturating_sub(own_ns);
        let stolen_ns = stolen_ns() - stolen_before_ns;
        let supervisor = Supervisor::now() - supervisor;
        let (untraced, hidden_ns) = (supervisor.untraced(self.tasks.tids.len()), supervisor.ran_ns);
        let wakeups =
            reported.wakeups.iter().map(|(name, n)| (name.clone(), self.wakeups(name, *n, &task_stats))).collect();
        Performance { reported, wakeups, task_stats, duration_ns, untraced, hidden_ns, foreign_ns, stolen_ns }
    }

    /// How often the task `name` blocked, which the load `reported` as well.
    fn wakeups(&self, name: &str, reported: u64, task_stats: &BTreeMap<u32, TaskStats>) -> u64 {
        // Threads that the load creates itself are not in `task_stats`.
        let Some(stats) = self.tasks.tids.get(name).map(|tid| task_stats[tid]) else { return reported };
        let locks = if machine::is_preempt_rt() { reported } else { stage::SHARED_PIPES };
        assert!((reported..=reported + locks).contains(&stats.voluntary), "`{name}` reported {reported}: {stats:?}");
        stats.voluntary
    }

    /// The PID of the load's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the kernel has counted for the load's main task, which is blocked before and after the performance, since it
    /// took its name, `wl-main`.
    pub fn main_account(&self) -> Account {
        until("the main task is blocked", || procfs::is_blocked(self.pid()));
        Account::without_hidden_slices(self.pid()) - self.tasks.before_name
    }

    /// Starts the load, without waiting for anything.
    pub fn begin(&mut self) {
        self.input.write_all(b"\n").and_then(|()| self.input.flush()).expect("the load waits for this");
    }

    /// Waits until a started load is over and its tasks are blocked.
    pub fn await_outcome(&mut self) -> LoadReport {
        let reported = read_message(&mut self.output);
        self.until_blocked();
        reported
    }

    fn task_stats(&self) -> BTreeMap<u32, TaskStats> {
        self.tasks.tids.values().map(|tid| (*tid, TaskStats::of(*tid))).collect()
    }

    fn until_blocked(&self) {
        for (name, tid) in &self.tasks.tids {
            until(&format!("`{name}` is blocked"), || procfs::is_blocked(*tid));
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_message<T: for<'de> Deserialize<'de>>(output: &mut impl BufRead) -> T {
    let mut line = String::new();
    output.read_line(&mut line).expect("a line of the load");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("the load sent `{}`: {error}", line.trim_end()))
}

/// Yields the CPU until `condition` holds. A concurrent test sleeps: all of them wait for services that need the CPUs.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {TIMEOUT:?} in vain until {what}");
        if runs_concurrently() {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            std::thread::yield_now();
        }
    }
}

/// Performs a workload and exits, if this process was started for it.
pub fn perform_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return;
    }
    let description = arguments.next().expect("the workload's description");
    let workload = serde_json::from_str(&description).expect("a workload this binary knows");
    let mut stage = Stage::new();
    let reported = match workload {
        Workload::CgroupMover(load) => load.perform(&mut stage),
        Workload::CrossWake(load) => load.perform(&mut stage),
        Workload::Forks(load) => load.perform(&mut stage),
        Workload::Held(load) => load.perform(&mut stage),
        Workload::Hogs(load) => load.perform(&mut stage),
        Workload::ManyThreads(load) => load.perform(&mut stage),
        Workload::Messaging(load) => load.perform(&mut stage),
        Workload::Migration(load) => load.perform(&mut stage),
        Workload::PingPong(load) => load.perform(&mut stage),
        Workload::Pipe(load) => load.perform(&mut stage),
        Workload::Planted(load) => load.perform(&mut stage),
        Workload::PreemptedSleeping(load) => load.perform(&mut stage),
        Workload::Renamed(load) => load.perform(&mut stage),
        Workload::SignalStorm(load) => load.perform(&mut stage),
        Workload::Sleeper(load) => load.perform(&mut stage),
        Workload::BehindHog(load) => load.perform(&mut stage),
        Workload::ThreadPair(load) => load.perform(&mut stage),
        Workload::WakeRace(load) => load.perform(&mut stage),
        Workload::WokenTogether(load) => load.perform(&mut stage),
        Workload::WokenTwice(load) => load.perform(&mut stage),
    };
    stage.finish(&reported);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_failure_has_no_single_waits() {
        let performance = Performance {
            reported: LoadReport { waits_ns: vec![123_456_789; 4_000], ..LoadReport::default() },
            wakeups: [("wl-pong".to_owned(), 4_000)].into(),
            task_stats: BTreeMap::new(),
            duration_ns: 7,
            untraced: 0,
            hidden_ns: 0,
            foreign_ns: 0,
            stolen_ns: 0,
        };
        let text = format!("{performance:?}");
        assert!(text.contains("wl-pong") && !text.contains("123456789") && text.len() < 500, "{text}");
    }
}
