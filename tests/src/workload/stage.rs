//! The side of a load that communicates with the test.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    os::fd::AsFd as _,
};

use nix::unistd::gettid;
use serde::{Deserialize, Serialize};

use super::LoadReport;
use crate::{
    account::Account,
    byte::{put_byte, take_byte},
    task::{self, Policy, TaskPlacement},
};

/// Number of pipes that a task of the stage shares with other tasks at the same time: its gate, that of
/// [`Stage::until_done`] and that of its final block.
pub const SHARED_PIPES: u64 = 3;

/// What the load reports when its tasks exist.
#[derive(Debug, Serialize, Deserialize)]
pub struct StagedTasks {
    /// The thread ID of each task of the stage, by its name.
    pub tids: BTreeMap<String, u32>,
    /// What the kernel had counted for the load's main task when it took its name.
    pub before_name: Account,
}

/// Creates the tasks of a load. Call in this order: [`Self::task`] for each, [`Self::go`],
/// [`Self::until_done`], [`Self::finish`].
pub struct Stage {
    tasks: StagedTasks,
    gates: Vec<BytePipe>,
    done: BytePipe,
    last: BytePipe,
}

/// The gate at which a task waits before it begins.
pub struct StartGate<'a>(&'a BytePipe);

impl StartGate<'_> {
    /// Blocks until the load begins: one wakeup.
    pub fn wait(&self) {
        self.0.take();
    }
}

impl Stage {
    /// Creates a stage without tasks.
    pub fn new() -> Self {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).expect("SIGKILL is a signal");
        // Only a wait for the CPU could come between, and nothing preempts a task of the highest priority.
        Policy::Fifo(99).take();
        let before_name = Account::without_hidden_slices(gettid().as_raw().unsigned_abs());
        task::name("wl-main");
        Policy::Other.take();
        let tasks = StagedTasks { tids: BTreeMap::new(), before_name };
        Self { tasks, gates: Vec::new(), done: BytePipe::new(), last: BytePipe::new() }
    }

    /// Forks a task with this name that runs `body` in `place`, and blocks when it is done. Before the
    /// load begins, the task must block by itself, at its gate or elsewhere. Returns its thread ID.
    pub fn task(&mut self, name: &str, place: TaskPlacement, body: impl FnOnce(StartGate)) -> u32 {
        let gate = BytePipe::new();
        let tid = task::spawn(|| {
            // Under the name that tests look for, it never runs elsewhere.
            place.take();
            task::name(name);
            body(StartGate(&gate));
            self.done.put();
            self.last.take();
        });
        self.gates.push(gate);
        self.register(name, tid);
        tid
    }

    /// Registers a thread that the load creates itself, which must block whenever a task of the stage would.
    pub fn register(&mut self, name: &str, tid: u32) {
        self.tasks.tids.insert(name.to_owned(), tid);
    }

    /// Reports that the tasks exist, waits for the test's start signal, and opens all gates in the
    /// order of the tasks.
    pub fn go(&self) {
        send(&self.tasks);
        let mut byte = [0];
        if std::io::stdin().read_exact(&mut byte).is_err() {
            task::exit_now(0);
        }
        self.gates.iter().for_each(BytePipe::put);
    }

    /// Waits until every task is done.
    pub fn until_done(&self) {
        self.gates.iter().for_each(|_| self.done.take());
    }

    /// Reports what the load knows about itself, and waits until it is killed.
    pub fn finish(&self, reported: &LoadReport) -> ! {
        send(reported);
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        task::exit_now(0)
    }
}

/// A pipe: every task has both of its ends.
pub struct BytePipe {
    reader: std::io::PipeReader,
    writer: std::io::PipeWriter,
}

impl BytePipe {
    /// Creates an empty pipe.
    pub fn new() -> Self {
        let (reader, writer) = std::io::pipe().expect("no file descriptors left");
        Self { reader, writer }
    }

    /// Writes a byte.
    pub fn put(&self) {
        put_byte(self.writer.as_fd());
    }

    /// Reads a byte, and blocks while there is none.
    pub fn take(&self) {
        take_byte(self.reader.as_fd());
    }
}

fn send(what: &impl Serialize) {
    let mut line = serde_json::to_vec(what).expect("plain data");
    line.push(b'\n');
    std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().flush()).expect("the test reads the pipe");
}
