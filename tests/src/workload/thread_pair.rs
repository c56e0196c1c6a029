//! Two threads of one process that wake each other.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    shared::Shared,
    task::{self, TaskPlacement},
};

/// `wl-thread-waker` wakes `wl-thread-wakee` with a byte, which answers with another. Both are threads
/// of the process `wl-pair`, and neither is its first: no thread ID is a process ID. Their names have
/// the maximum length.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadPair {
    /// Number of wakeups.
    pub rounds: u64,
    /// The CPU of both.
    pub cpu: usize,
}

impl ThreadPair {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        const NAMES: [&str; 2] = ["wl-thread-waker", "wl-thread-wakee"];
        let tids = Shared::new(NAMES.len());
        let [start, there, back, through] = std::array::from_fn(|_| Arc::new(BytePipe::new()));
        let rounds = self.rounds;
        stage.task("wl-pair", TaskPlacement::fifo(self.cpu), |gate| {
            let thread = |index: usize, body: Box<dyn FnOnce() + Send>| {
                std::thread::spawn(move || {
                    task::name(NAMES[index]);
                    tids[index].store(nix::unistd::gettid().as_raw() as u64, SeqCst);
                    body();
                    // Blocks until the load is killed.
                    BytePipe::new().take();
                });
            };
            let (waker_start, waker_there, waker_back, waker_through) =
                (start.clone(), there.clone(), back.clone(), through.clone());
            thread(
                0,
                Box::new(move || {
                    waker_start.take();
                    for _ in 0..rounds {
                        waker_there.put();
                        waker_back.take();
                    }
                    waker_through.put();
                }),
            );
            let (wakee_there, wakee_back) = (there.clone(), back.clone());
            thread(
                1,
                Box::new(move || {
                    for _ in 0..rounds {
                        wakee_there.take();
                        wakee_back.put();
                    }
                }),
            );
            gate.wait();
            start.put();
            through.take();
        });
        for (index, name) in NAMES.into_iter().enumerate() {
            let tid = loop {
                match tids[index].load(SeqCst) {
                    0 => std::thread::yield_now(),
                    tid => break tid as u32,
                }
            };
            stage.register(name, tid);
        }
        stage.go();
        stage.until_done();
        LoadReport { wakeups: [(NAMES[1].to_owned(), rounds)].into(), ..LoadReport::default() }
    }
}
