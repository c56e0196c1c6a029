//! Threads that compete for all CPUs on request.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::{Pid, gettid},
};

use crate::{account::Account, machine, procfs, workload::until};

/// Threads that are more than the CPUs, so that they preempt each other and migrate while they wait.
pub const THREADS: usize = 8;

/// Runs and sleeps of each thread.
pub const ROUNDS: u32 = 200;

/// A thread that works on request, and is blocked otherwise.
pub struct CompetingThread {
    /// Its TID.
    pub tid: u32,
    asked: Sender<()>,
    done: Receiver<()>,
}

impl CompetingThread {
    /// Starts a thread called `name`, which waits for the first request: on `cpu` if that is given.
    pub fn new(name: &str, cpu: Option<usize>) -> Self {
        let (asked, asking) = channel::<()>();
        let (answer, done) = channel();
        let (number, tid) = channel();
        let allowed = machine::cpus();
        let body = move || {
            if let Some(cpu) = cpu {
                // The task does not migrate during its first wait.
                set_affinity([cpu]);
            }
            number.send(gettid().as_raw().unsigned_abs()).expect("the worker has the receiver");
            for () in asking {
                set_affinity(allowed.iter().copied());
                for round in 0..ROUNDS {
                    let until = Instant::now() + Duration::from_micros(100 + u64::from(round % 7) * 30);
                    while Instant::now() < until {}
                    // The load: tasks that block by themselves.
                    thread::sleep(Duration::from_micros(50 + u64::from(round % 5) * 40));
                }
                answer.send(()).expect("the worker has the receiver");
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started");
        Self { tid: tid.recv().expect("the thread sends its TID"), asked, done }
    }

    /// Waits until it is blocked.
    pub fn until_blocked(&self) {
        until("the thread is blocked", || procfs::is_blocked(self.tid));
    }

    /// Requests work.
    pub fn begin(&self) {
        self.asked.send(()).expect("the thread is waiting");
    }

    /// Waits until the work is done and the thread is blocked.
    pub fn finish(&self) {
        self.done.recv().expect("the thread answers");
        self.until_blocked();
    }
}

/// Restricts the calling thread to `cpus`.
pub fn set_affinity(cpus: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu).expect("a CPU of this machine"));
    sched_setaffinity(Pid::from_raw(0), &set).expect("these CPUs are allowed");
}

/// [`THREADS`] threads called `name`, which wait for the first request on a CPU each: the last part of that wait is all of it.
pub fn pinned(name: &str) -> Vec<CompetingThread> {
    let cpus = machine::cpus();
    let workers: Vec<CompetingThread> =
        cpus.iter().cycle().take(THREADS).map(|cpu| CompetingThread::new(name, Some(*cpu))).collect();
    workers.iter().for_each(CompetingThread::until_blocked);
    workers
}

/// What the kernel has counted for all of them, which must be blocked.
pub fn accounts(workers: &[CompetingThread]) -> Account {
    workers.iter().map(|worker| Account::of(worker.tid)).sum()
}
