//! Deterministic loads with known counts.
//!
//! A load is performed by a process of its own: the test binary run once more. It stages its tasks, which block; the
//! test waits until the kernel says that they do, sets up its instruments, and says go; the load performs, says what it
//! knows of itself, and its tasks block again until the test has taken its last reading. No step waits for time to pass.

use std::{
    collections::BTreeMap,
    fmt,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    machine,
    procfs::{self, TaskStats},
    supervisor::Supervisor,
};

mod clocked;
mod cross_wake;
mod forks;
mod held;
mod hogs;
mod many_threads;
mod messaging;
mod migration;
mod ping_pong;
mod pipe;
mod planted;
mod signal_storm;
mod sleeper;
mod stage;
mod thread_pair;
mod victim;
mod wake_race;
mod woken_twice;

pub use clocked::TimeBounds;
pub use cross_wake::CrossWake;
pub use forks::ForkWorkload;
pub use held::CpuHold;
pub use hogs::Hogs;
pub use many_threads::{ManyThreads, THREAD_BYTES};
pub use messaging::Messaging;
pub use migration::MigrationWorkload;
pub use ping_pong::PingPong;
pub use pipe::Pipe;
pub use planted::{Planted, PlantedCause};
pub use signal_storm::SignalStorm;
pub use sleeper::{BehindHog, Sleeper};
use stage::Stage;
pub use thread_pair::ThreadPair;
pub use wake_race::WakeRace;
pub use woken_twice::WokenTwice;

/// The first argument with which a test binary performs a workload, the second being its description.
pub const ARGUMENT: &str = "--perform";

/// Generous, as an emulator may be running the kernel.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A load and its parameters, as the test passes it to the process that performs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Workload {
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
    /// See [`WokenTwice`].
    WokenTwice(WokenTwice),
}

/// What a load knows of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// How often each task had to block, and so to be woken, by its name, where the load makes that exact.
    pub wakeups: BTreeMap<String, u64>,
    /// Waits measured by the tasks: from the waker's clock read before its system call to the wakee's after its own: ns.
    pub waits_ns: Vec<u64>,
    /// When the first clock of each of `waits_ns` was read, where the load keeps that: ns of CLOCK_MONOTONIC.
    pub began_ns: Vec<u64>,
    /// How long each cause of a wait took by its own clock, by its name and wait by wait, where the load plants causes.
    pub took: BTreeMap<String, Vec<TimeBounds>>,
}

/// What a performance was, as the load and the kernel know it.
#[derive(Clone)]
pub struct Performance {
    /// By the load.
    pub reported: LoadReport,
    /// Wakeups of each of the tasks that [`LoadReport::wakeups`] names: as often as it blocked by the kernel's own account,
    /// which agrees with the load but for what [`Staged::perform`] says.
    pub wakeups: BTreeMap<String, u64>,
    /// By the kernel: what the performance added to each task's account, by thread id. Its tasks were blocked at both
    /// ends.
    pub task_stats: BTreeMap<u32, TaskStats>,
    /// How long it took, with the time until the tasks blocked again: ns.
    pub duration_ns: u64,
    /// How many of its waits may be seen by no instrument: see [`crate::supervisor`].
    pub untraced: u64,
    /// How long tasks ran meanwhile that may be seen by no instrument, on any CPU: ns.
    pub hidden_ns: u64,
}

/// Without the waits one by one, of which there may be thousands.
impl fmt::Debug for Performance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Performance")
            .field("known.wakeups", &self.reported.wakeups)
            .field("wakeups", &self.wakeups)
            .field("accounts", &self.task_stats)
            .field("duration_ns", &self.duration_ns)
            .field("untraced", &self.untraced)
            .finish_non_exhaustive()
    }
}

impl Performance {
    /// How often its tasks blocked, together.
    pub fn blocked(&self) -> u64 {
        self.task_stats.values().map(|account| account.voluntary).sum()
    }

    /// Wakeups of all tasks together, where the load makes them exact.
    pub fn wakeups(&self) -> u64 {
        self.wakeups.values().sum()
    }
}

/// A load whose tasks exist and are blocked. Dropped, they are gone.
pub struct Staged {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    tids: BTreeMap<String, u32>,
}

impl Workload {
    /// Stages it and returns once its tasks are blocked.
    ///
    /// # Panics
    /// If that fails.
    pub fn stage(self) -> Staged {
        let description = serde_json::to_string(&self).expect("plain data");
        let mut child = Command::new("/proc/self/exe")
            .args([ARGUMENT, &description])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test binary can be run once more");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut staged = Staged { child, input, output, tids: BTreeMap::new() };
        staged.tids = staged.read_message();
        staged.until_blocked();
        staged
    }
}

impl Staged {
    /// The thread with this name.
    ///
    /// # Panics
    /// If the load has none.
    pub fn tid(&self, name: &str) -> u32 {
        *self.tids.get(name).unwrap_or_else(|| panic!("no task `{name}` among {:?}", self.tids))
    }

    /// Lets it perform, and returns once its tasks are blocked again.
    ///
    /// The kernel must have seen each task block as often as the load says, and at most once more at each of the
    /// pipes it shares with others, where it may meet another task on another CPU and sleep for the pipe's mutex
    /// (`pipe_read`, `pipe_write`, fs/pipe.c). Only under PREEMPT_RT it may be more: there a spinlock is a lock to sleep
    /// for, so a task that runs at once when it is woken finds its waker still holding the lock of the wait queue
    /// (`__wake_up_sync_key` in `pipe_write`), blocks once more in `schedule_rtlock`, and is woken
    /// by the unlock. That is a wait like any other. It happens at every wakeup by a task of lower priority on the same
    /// CPU, such as at the gate of a SCHED_FIFO task, and elsewhere by chance.
    ///
    /// # Panics
    /// If it fails, or does not do what it says.
    pub fn perform(&mut self) -> Performance {
        let (before, supervisor) = (self.task_stats(), Supervisor::now());
        let begin = Instant::now();
        self.begin();
        let known = self.await_outcome();
        let duration_ns = begin.elapsed().as_nanos() as u64;
        let after = self.task_stats().into_iter();
        let accounts: BTreeMap<u32, TaskStats> = after.map(|(tid, after)| (tid, after - before[&tid])).collect();
        let supervisor = Supervisor::now() - supervisor;
        let (untraced, hidden_ns) = (supervisor.untraced(self.tids.len()), supervisor.ran_ns);
        let wakeups =
            known.wakeups.iter().map(|(name, said)| (name.clone(), self.wakeups(name, *said, &accounts))).collect();
        Performance { reported: known, wakeups, task_stats: accounts, duration_ns, untraced, hidden_ns }
    }

    /// How often the task `name` blocked, which the load `said` as well.
    fn wakeups(&self, name: &str, said: u64, accounts: &BTreeMap<u32, TaskStats>) -> u64 {
        // Threads of the load's own making have no account.
        let Some(account) = self.tids.get(name).map(|tid| accounts[tid]) else { return said };
        let for_locks = if machine::is_preempt_rt() { said } else { stage::SHARED_PIPES };
        assert!((said..=said + for_locks).contains(&account.voluntary), "`{name}` said {said}: {account:?}");
        account.voluntary
    }

    /// The load's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it begin, without waiting for anything.
    ///
    /// # Panics
    /// If it is gone.
    pub fn begin(&mut self) {
        self.input.write_all(b"\n").and_then(|()| self.input.flush()).expect("the load waits for this");
    }

    /// Waits until a load that has begun is over and its tasks are blocked.
    ///
    /// # Panics
    /// If it fails.
    pub fn await_outcome(&mut self) -> LoadReport {
        let known = self.read_message();
        self.until_blocked();
        known
    }

    fn task_stats(&self) -> BTreeMap<u32, TaskStats> {
        self.tids.values().map(|tid| (*tid, TaskStats::of(*tid))).collect()
    }

    fn read_message<T: for<'de> Deserialize<'de>>(&mut self) -> T {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line of the load");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the load said `{}`: {error}", line.trim_end()))
    }

    fn until_blocked(&self) {
        for (name, tid) in &self.tids {
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

/// Gives way to others until `condition` holds.
///
/// # Panics
/// If it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {TIMEOUT:?} in vain until {what}");
        std::thread::yield_now();
    }
}

/// Performs a workload and ends the process, if this process was started for that.
pub fn perform_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return;
    }
    let description = arguments.next().expect("the workload's description");
    let workload = serde_json::from_str(&description).expect("a workload this binary knows");
    let mut stage = Stage::new();
    let known = match workload {
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
        Workload::SignalStorm(load) => load.perform(&mut stage),
        Workload::Sleeper(load) => load.perform(&mut stage),
        Workload::BehindHog(load) => load.perform(&mut stage),
        Workload::ThreadPair(load) => load.perform(&mut stage),
        Workload::WakeRace(load) => load.perform(&mut stage),
        Workload::WokenTwice(load) => load.perform(&mut stage),
    };
    stage.finish(&known);
}
